//! Circuit breakers by route, so that one failing dependency of a sink does not delay the other routes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Map;
use super::state::breaker::{Breaker, Outlook, Sent};
use crate::port::Verdict;
use crate::redact;

/// Maximum number of routes with a circuit breaker. Failures of further routes count as
/// failures of the whole sink.
const MOST: usize = 1_024;

/// Wait of an event while its route is being probed, because the time of the answer is unknown.
const WHILE_PROBED: Duration = Duration::from_secs(1);

/// The circuit breakers of all routes that have failed before.
#[derive(Debug, Default)]
pub(crate) struct RouteBreakers {
    table: Mutex<Map<String, Breaker>>,
    /// Whether any route has ever failed. Until then an event needs no lock and no route name.
    troubled: AtomicBool,
}

/// A delivery through a route. Dropping it without a verdict counts neither as success nor as failure.
pub(crate) struct Passage<'a> {
    breakers: &'a RouteBreakers,
    sent: Option<(String, Sent)>,
}

impl RouteBreakers {
    /// Begins a delivery; if the circuit breaker of its route is open, returns how long the event waits.
    pub(crate) fn enter(&self, route: impl FnOnce() -> String) -> Result<Passage<'_>, Duration> {
        let mut passage = Passage { breakers: self, sent: None };
        if !self.troubled.load(Ordering::Relaxed) {
            return Ok(passage);
        }
        let (route, now) = (route(), Instant::now());
        let mut table = self.lock();
        if let Some(breaker) = table.get_mut(&route) {
            if let Outlook::Paused(until) = breaker.outlook(now) {
                return Err(until.map_or(WHILE_PROBED, |until| until.saturating_duration_since(now)));
            }
            passage.sent = Some((route, breaker.send(now)));
        }
        Ok(passage)
    }

    /// Whether an event of this route could be delivered now.
    pub(crate) fn lets_through(&self, route: &str) -> bool {
        let paused = |breaker: &Breaker| matches!(breaker.outlook(Instant::now()), Outlook::Paused(_));
        !self.troubled.load(Ordering::Relaxed) || !self.lock().get(route).is_some_and(paused)
    }

    /// Creates the circuit breaker of a route at its first failure; `None` if there are too many routes.
    fn first_failure(&self, route: String) -> Option<(String, Sent)> {
        self.troubled.store(true, Ordering::Relaxed);
        let mut table = self.lock();
        if table.len() >= MOST && !table.contains_key(&route) {
            table.retain(|_, breaker| breaker.is_open());
        }
        if table.len() >= MOST && !table.contains_key(&route) {
            return None;
        }
        let sent = table.entry(route.clone()).or_default().send(Instant::now());
        Some((route, sent))
    }

    fn lock(&self) -> MutexGuard<'_, Map<String, Breaker>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passage<'_> {
    /// Reports the verdict to the circuit breaker of the route,
    /// and turns `Unavailable` into `RouteUnavailable`.
    pub(crate) fn judge(mut self, verdict: Verdict, route: impl FnOnce() -> String) -> Verdict {
        let mut sent = self.sent.take();
        if sent.is_none() && matches!(verdict, Verdict::Unavailable { .. }) {
            sent = self.breakers.first_failure(route());
        }
        let Some((route, sent)) = sent else {
            return verdict;
        };
        let now = Instant::now();
        let mut table = self.breakers.lock();
        let Some(breaker) = table.get_mut(&route) else {
            return verdict;
        };
        let was_open = breaker.is_open();
        breaker.judge(sent);
        let verdict = match verdict {
            Verdict::Unavailable { cause, error, after } => {
                let accepted = breaker.accepted_count();
                let pause = breaker.failed(now, after);
                if !was_open && breaker.is_open() {
                    let error = redact::first_line(&error);
                    tracing::warn!(route, error, ?pause, "circuit breaker opened: events of this route wait");
                }
                Verdict::RouteUnavailable { cause, error, after, accepted }
            }
            verdict => {
                match &verdict {
                    Verdict::Accepted | Verdict::Settled => breaker.accepted(),
                    Verdict::InFlight | Verdict::Skipped | Verdict::NoRoute { .. } => {}
                    _ => breaker.answered(),
                }
                if was_open && !breaker.is_open() {
                    tracing::info!(route, "circuit breaker closed: events of this route are sent again");
                }
                verdict
            }
        };
        breaker.judged(sent, now);
        verdict
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if let Some((route, sent)) = self.sent.take()
            && let Some(breaker) = self.breakers.lock().get_mut(&route)
        {
            breaker.judge(sent);
            breaker.judged(sent, Instant::now());
        }
    }
}
