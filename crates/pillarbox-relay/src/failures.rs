//! Tracks the failures of a sink: since when it fails, how, how often, and when it recovered.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pillarbox::model::EventId;
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use pillarbox::redact;
use pillarbox_admin::LastFailure;

/// Number of failure classes.
const CLASSES: usize = Cause::CLASSES.len();
/// Maximum length of an error text, in characters.
const ERROR_MAX: usize = 300;
/// Maximum number of failed events that are remembered. The sink counts as failing while one of them fails.
const WAITING_MAX: usize = 1_000;
/// A failed event that was not sent again for this long no longer keeps the sink failing: another node may
/// deliver it by now.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);
/// A sink has recovered after this long without a failed request. Without the delay, a sink that throttles
/// would recover and fail again every second.
const QUIET: Duration = Duration::from_secs(5);
/// Minimum time between two reports of a sink whose error keeps changing.
const CHANGES_APART: Duration = Duration::from_secs(5);

/// A change to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// The sink began to fail.
    Began(LastFailure),
    /// The sink still fails, with another class or text.
    Changed(LastFailure),
    /// The sink accepts events again.
    Recovered(LastFailure),
}

/// The failures of one sink.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    state: Mutex<State>,
    requests: [AtomicU64; CLASSES],
}

#[derive(Debug, Default)]
struct State {
    last: Option<LastFailure>,
    /// The first event of each failed request, until it gets another verdict than a failure of the endpoint.
    waiting: BTreeSet<EventId>,
    /// Time of the first answered request after the last failed one.
    answered_at: Option<Timestamp>,
    /// The last report.
    told: Option<LastFailure>,
    told_at: Option<Timestamp>,
}

impl Failures {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Failed requests by class, in the order of [`Cause::CLASSES`].
    pub(crate) fn requests(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.requests[class].load(Ordering::Relaxed))
    }

    /// The last failure, if there was one.
    pub(crate) fn last(&self) -> Option<LastFailure> {
        self.with(|state| state.last.clone())
    }

    /// The failure that has not ended.
    pub(crate) fn current(&self) -> Option<LastFailure> {
        self.last().filter(|last| last.recovered_at.is_none())
    }

    /// Records the verdicts of a batch. A batch counts as one request, under its first failure.
    fn note(&self, batch: &[Delivery], verdicts: &[Verdict], now: Timestamp) {
        if let Some((cause, _)) = verdicts.iter().find_map(failure) {
            self.requests[cause.index()].fetch_add(1, Ordering::Relaxed);
        }
        self.with(|state| state.note(batch, verdicts, now));
    }

    /// The next change to report, if any. Each change is returned once.
    pub(crate) fn news(&self, now: Timestamp) -> Option<News> {
        self.with(|state| state.news(now))
    }
}

impl State {
    fn note(&mut self, batch: &[Delivery], verdicts: &[Verdict], now: Timestamp) {
        let mut failed = false;
        for (delivery, verdict) in batch.iter().zip(verdicts) {
            match (failure(verdict), verdict) {
                // One request, one failure: the rest of the batch failed with the first event.
                (Some(_), _) if failed => {}
                (Some((cause, error)), _) => {
                    failed = true;
                    self.fail(began(cause, error, now));
                    if self.waiting.len() < WAITING_MAX {
                        self.waiting.insert(delivery.event.id().clone());
                    }
                }
                (None, Verdict::Skipped | Verdict::InFlight) => {}
                (None, _) => {
                    self.waiting.remove(delivery.event.id());
                }
            }
        }
        if !failed {
            self.answered_at.get_or_insert(now);
        }
    }

    fn fail(&mut self, failure: LastFailure) {
        self.answered_at = None;
        match self.last.as_mut().filter(|last| last.recovered_at.is_none()) {
            Some(last) => {
                let (since, requests) = (last.since, last.requests + 1);
                *last = LastFailure { since, requests, ..failure };
            }
            None => self.last = Some(failure),
        }
    }

    /// Ends the failure if the sink has recovered. An event that keeps failing prevents this even if others
    /// succeed, so an endpoint of which only a part fails does not alternate between failing and recovered.
    fn recover(&mut self, now: Timestamp) {
        let Some(last) = self.last.as_mut().filter(|last| last.recovered_at.is_none()) else { return };
        let quiet_for = if self.waiting.is_empty() { QUIET } else { FORGOTTEN_AFTER };
        if self.answered_at.is_some() && now.duration_since(last.last_at) >= signed(quiet_for) {
            self.waiting.clear();
            last.recovered_at = self.answered_at;
        }
    }

    fn news(&mut self, now: Timestamp) -> Option<News> {
        self.recover(now);
        let last = self.last.clone()?;
        let told = self.told.as_ref().filter(|told| told.since == last.since);
        let soon = self.told_at.is_some_and(|at| now.duration_since(at) < signed(CHANGES_APART));
        let news = match (told, last.recovered_at) {
            // Also if it failed and recovered between two calls: the next call then reports the recovery.
            (None, _) => News::Began(last.clone()),
            (Some(told), Some(_)) if told.recovered_at.is_none() => News::Recovered(last.clone()),
            (Some(told), None) if !is_like(told, &last) && !soon => News::Changed(last.clone()),
            _ => return None,
        };
        let recovered_at = last.recovered_at.filter(|_| matches!(news, News::Recovered(_)));
        self.told = Some(LastFailure { recovered_at, ..last });
        self.told_at = Some(now);
        Some(news)
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The cause and text of a verdict that is the endpoint's fault.
fn failure(verdict: &Verdict) -> Option<(Cause, &str)> {
    match verdict {
        Verdict::Unavailable { cause, error, .. } | Verdict::RouteUnavailable { cause, error, .. } => {
            Some((*cause, error))
        }
        Verdict::Throttled { error, .. } => Some((Cause::Throttled, error)),
        _ => None,
    }
}

/// A failure with its first request.
fn began(cause: Cause, error: &str, now: Timestamp) -> LastFailure {
    let error = shown(cause, error);
    LastFailure { class: cause.class(), error, since: now, last_at: now, requests: 1, recovered_at: None }
}

fn is_like(one: &LastFailure, other: &LastFailure) -> bool {
    (one.class, &one.error) == (other.class, &other.error)
}

/// The text of an error for logs. The body of a response may quote the payload, so only its status is shown.
fn shown(cause: Cause, error: &str) -> String {
    match cause {
        Cause::Answered(status @ 200..=299) => {
            format!("the endpoint answered {status}, but not with a good word for each event")
        }
        Cause::Answered(status) => format!("the endpoint answered {status}"),
        Cause::Throttled => "the endpoint throttles".to_owned(),
        Cause::RefusesAll => "the endpoint refused every event so far".to_owned(),
        _ => {
            let line = redact::first_line(error).chars();
            line.map(|c| if c.is_control() { ' ' } else { c }).take(ERROR_MAX).collect()
        }
    }
}

/// A sink whose failures are recorded.
pub(crate) struct Observed {
    sink: Arc<dyn Sink>,
    failures: Arc<Failures>,
}

impl Observed {
    pub(crate) fn new(sink: Arc<dyn Sink>, failures: Arc<Failures>) -> Self {
        Self { sink, failures }
    }
}

impl Sink for Observed {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let verdicts = self.sink.deliver(batch).await;
            self.failures.note(batch, &verdicts, Timestamp::now());
            verdicts
        })
    }

    /// The relay watches `failures` and logs more than the engine knows.
    fn reports_failures(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::Event;

    use super::*;

    fn delivery(id: &str) -> Delivery {
        let event = Event::text("t", "{}").id(id).build().unwrap_or_else(|e| panic!("{e}"));
        Delivery::first(event)
    }

    fn unavailable(cause: Cause, error: &str) -> Verdict {
        Verdict::Unavailable { cause, error: error.to_owned(), after: None }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// PBX-090
    #[test]
    fn a_failure_is_told_when_it_begins_when_it_changes_and_when_it_ends() {
        let failures = Failures::default();
        let note =
            |id: &str, verdict: Verdict, second| failures.note(&[delivery(id)], &[verdict], at(second));
        note("a", Verdict::Accepted, 1);
        assert_eq!(failures.news(at(1)), None);
        note("a", unavailable(Cause::Refused, "could not connect"), 2);
        let Some(News::Began(began)) = failures.news(at(2)) else { panic!("{failures:?}") };
        assert_eq!((began.class, began.requests, began.since), ("refused", 1, at(2)));
        note("a", unavailable(Cause::Refused, "could not connect"), 3);
        assert_eq!(failures.news(at(3)), None, "nothing new");
        note("a", unavailable(Cause::Answered(503), "the endpoint answered 503: {\"card\":4711}"), 4);
        assert_eq!(failures.news(at(4)), None, "too soon to tell");
        let Some(News::Changed(changed)) = failures.news(at(8)) else { panic!("{failures:?}") };
        assert_eq!((changed.class, changed.requests, changed.since), ("server_error", 3, at(2)));
        assert_eq!(changed.error, "the endpoint answered 503");
        note("a", Verdict::Accepted, 9);
        let Some(News::Recovered(ended)) = failures.news(at(9)) else { panic!("{failures:?}") };
        assert_eq!((ended.requests, ended.recovered_at), (3, Some(at(9))));
        assert_eq!((failures.news(at(10)), failures.current()), (None, None));
        assert_eq!(failures.requests().iter().sum::<u64>(), 3);
        assert_eq!(failures.requests()[Cause::Refused.index()], 2);
    }

    /// PBX-090: an endpoint of which a part fails does not recover and fail again with each request.
    #[test]
    fn it_fails_as_long_as_an_event_waits_for_it() {
        let failures = Failures::default();
        let note =
            |id: &str, verdict: Verdict, second| failures.note(&[delivery(id)], &[verdict], at(second));
        note("bad", unavailable(Cause::Answered(500), "no"), 1);
        assert!(matches!(failures.news(at(1)), Some(News::Began(_))));
        for second in 2..60 {
            note("good", Verdict::Accepted, second);
            note("bad", unavailable(Cause::Answered(500), "no"), second);
            assert_eq!(failures.news(at(second)), None);
        }
        note("bad", Verdict::Rejected { error: "never".to_owned() }, 60);
        assert_eq!(failures.news(at(63)), None, "it may fail again at once, as one that throttles does");
        assert!(matches!(failures.news(at(64)), Some(News::Recovered(_))));
        note("gone", unavailable(Cause::Timeout, "no answer"), 70);
        assert!(matches!(failures.news(at(70)), Some(News::Began(_))));
        note("good", Verdict::Accepted, 71);
        assert_eq!(failures.news(at(100)), None);
        assert!(matches!(failures.news(at(400)), Some(News::Recovered(_))), "another delivered it");
    }

    /// PBX-090
    #[test]
    fn one_that_ends_before_anybody_looks_is_told_all_the_same() {
        let failures = Failures::default();
        failures.note(
            &[delivery("a")],
            &[Verdict::Throttled { error: "429".to_owned(), after: None }],
            at(1),
        );
        failures.note(&[delivery("a")], &[Verdict::Accepted], at(1));
        assert!(matches!(failures.news(at(9)), Some(News::Began(_))));
        assert!(matches!(failures.news(at(9)), Some(News::Recovered(_))));
        assert_eq!(failures.news(at(9)), None);
    }
}
