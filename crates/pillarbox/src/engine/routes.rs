//! Circuit breakers by route, so that one failing dependency of a sink does not delay the other routes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Map;
use super::state::breaker::{Breaker, Outlook, Sent};
use super::state::failures::{FailureLog, FailureNews};
use crate::port::{Cause, Verdict};
use crate::redact;

/// Maximum number of routes with a circuit breaker. Failures of further routes count as
/// failures of the whole sink.
const MOST: usize = 1_024;

/// Wait of an event while its route is being probed, because the time of the answer is unknown.
const WHILE_PROBED: Duration = Duration::from_secs(1);

/// A route that has failed before.
#[derive(Debug)]
struct RouteState {
    breaker: Breaker,
    failures: FailureLog,
}

impl Default for RouteState {
    fn default() -> Self {
        Self { breaker: Breaker::default(), failures: FailureLog::new(Duration::ZERO) }
    }
}

/// The circuit breakers of all routes that have failed before.
#[derive(Debug, Default)]
pub(crate) struct RouteBreakers {
    table: Mutex<Map<String, RouteState>>,
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
        if let Some(RouteState { breaker, .. }) = table.get_mut(&route) {
            if let Outlook::Paused(until) = breaker.outlook(now) {
                return Err(until.map_or(WHILE_PROBED, |until| until.saturating_duration_since(now)));
            }
            passage.sent = Some((route, breaker.send(now)));
        }
        Ok(passage)
    }

    /// Whether an event of this route could be delivered now.
    pub(crate) fn lets_through(&self, route: &str) -> bool {
        let paused = |route: &RouteState| matches!(route.breaker.outlook(Instant::now()), Outlook::Paused(_));
        !self.troubled.load(Ordering::Relaxed) || !self.lock().get(route).is_some_and(paused)
    }

    /// Creates the circuit breaker of a route at its first failure; `None` if there are too many routes.
    fn first_failure(&self, route: String) -> Option<(String, Sent)> {
        self.troubled.store(true, Ordering::Relaxed);
        let mut table = self.lock();
        if table.len() >= MOST && !table.contains_key(&route) {
            table.retain(|_, state| state.breaker.is_open());
        }
        if table.len() >= MOST && !table.contains_key(&route) {
            return None;
        }
        let sent = table.entry(route.clone()).or_default().breaker.send(Instant::now());
        Some((route, sent))
    }

    fn lock(&self) -> MutexGuard<'_, Map<String, RouteState>> {
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
        let Some(state) = table.get_mut(&route) else {
            return verdict;
        };
        state.breaker.judge(sent);
        let verdict = match verdict {
            Verdict::Unavailable { cause, error, after } => state.failed(&route, cause, error, after, now),
            verdict => {
                state.answered(&route, &verdict, now);
                verdict
            }
        };
        state.breaker.judged(sent, now);
        verdict
    }
}

impl RouteState {
    fn failed(
        &mut self,
        route: &str,
        cause: Cause,
        error: String,
        after: Option<Duration>,
        now: Instant,
    ) -> Verdict {
        let was_open = self.breaker.is_open();
        let accepted = self.breaker.accepted_count();
        let pause = self.breaker.failed(now, after);
        if let Some(FailureNews::Fails { class, error, failed_requests }) =
            self.failures.failed(cause, &error, now)
        {
            tracing::warn!(route, class, error, failed_requests, "the route fails: its events wait");
        }
        if !was_open && self.breaker.is_open() {
            let error = redact::first_line(&error);
            tracing::warn!(route, error, ?pause, "circuit breaker opened: events of this route wait");
        }
        Verdict::RouteUnavailable { cause, error, after, accepted }
    }

    fn answered(&mut self, route: &str, verdict: &Verdict, now: Instant) {
        let was_open = self.breaker.is_open();
        let mut news = None;
        match verdict {
            Verdict::Accepted | Verdict::Settled => {
                self.breaker.accepted();
                news = self.failures.accepted(now);
            }
            Verdict::InFlight | Verdict::Skipped | Verdict::NoRoute { .. } => {}
            _ => self.breaker.answered(),
        }
        if was_open && !self.breaker.is_open() {
            tracing::info!(route, "circuit breaker closed: events of this route are sent again");
        }
        if let Some(FailureNews::Recovered { failed_requests, failed_for }) = news {
            tracing::info!(route, failed_requests, ?failed_for, "the route accepts events again");
        }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if let Some((route, sent)) = self.sent.take()
            && let Some(RouteState { breaker, .. }) = self.breakers.lock().get_mut(&route)
        {
            breaker.judge(sent);
            breaker.judged(sent, Instant::now());
        }
    }
}
