//! The failure log of a sink or of a route: decides which failures and which recoveries are logged.

use std::time::Duration;

use tokio::time::Instant;

use crate::port::Cause;
use crate::redact;

/// Minimum time between two warnings, so that an endpoint that alternates or whose error keeps changing does
/// not fill the log.
const WARNINGS_APART: Duration = Duration::from_secs(5);
/// Maximum length of an error text, in characters.
const ERROR_MAX: usize = 300;

/// A change to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FailureNews {
    /// The endpoint began to fail, or fails with another error.
    Fails {
        class: &'static str,
        /// First line of the error. Further lines may quote payloads.
        error: String,
        failed_requests: u64,
    },
    /// The endpoint accepts events again.
    Recovered { failed_requests: u64, failed_for: Duration },
}

/// A failure that has not ended.
#[derive(Debug)]
struct Failing {
    since: Instant,
    last: Instant,
    requests: u64,
    /// The error of the last warning; `None` before the first one.
    told: Option<String>,
    /// Whether an event was accepted after the last failed request.
    accepted: bool,
}

/// The failures of one endpoint.
#[derive(Debug)]
pub(crate) struct FailureLog {
    failing: Option<Failing>,
    warned_at: Option<Instant>,
    /// Time without a failed request after which the endpoint has recovered.
    quiet: Duration,
}

impl FailureLog {
    /// An endpoint recovers when it accepts an event, and has not failed for this long.
    pub(crate) const fn new(quiet: Duration) -> Self {
        Self { failing: None, warned_at: None, quiet }
    }

    /// Counts a failed request.
    pub(crate) fn failed(&mut self, cause: Cause, error: &str, now: Instant) -> Option<FailureNews> {
        let new = || Failing { since: now, last: now, requests: 0, told: None, accepted: false };
        let failing = self.failing.get_or_insert_with(new);
        failing.requests += 1;
        (failing.last, failing.accepted) = (now, false);
        let line = redact::first_line(error).chars();
        let error: String = line.map(|c| if c.is_control() { ' ' } else { c }).take(ERROR_MAX).collect();
        let soon = self.warned_at.is_some_and(|at| now.saturating_duration_since(at) < WARNINGS_APART);
        if soon || failing.told.as_ref() == Some(&error) {
            return None;
        }
        self.warned_at = Some(now);
        failing.told = Some(error.clone());
        Some(FailureNews::Fails { class: cause.class(), error, failed_requests: failing.requests })
    }

    /// Notes that an event was accepted.
    pub(crate) fn accepted(&mut self, now: Instant) -> Option<FailureNews> {
        self.failing.as_mut()?.accepted = true;
        self.recovered(now)
    }

    /// Ends the failure if events are accepted and nothing has failed for long enough.
    pub(crate) fn recovered(&mut self, now: Instant) -> Option<FailureNews> {
        let quiet = self.quiet;
        let over =
            |failing: &mut Failing| failing.accepted && now.saturating_duration_since(failing.last) >= quiet;
        let ended = self.failing.take_if(over)?;
        // A failure that was never reported ends without a report, too.
        ended.told.map(|_| FailureNews::Recovered {
            failed_requests: ended.requests,
            failed_for: now.saturating_duration_since(ended.since),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(error: &str, failed_requests: u64) -> Option<FailureNews> {
        Some(FailureNews::Fails { class: "refused", error: error.to_owned(), failed_requests })
    }

    /// PBX-090
    #[test]
    fn the_first_failure_and_another_error_are_news_and_a_repeated_one_is_not() {
        let (mut log, start) = (FailureLog::new(Duration::ZERO), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(log.accepted(at(0)), None);
        assert_eq!(log.failed(Cause::Refused, "refused\n{\"card\":4711}", at(0)), fails("refused", 1));
        assert_eq!(log.failed(Cause::Refused, "refused", at(10)), None);
        assert_eq!(log.failed(Cause::Refused, "reset", at(20)), fails("reset", 3));
        assert_eq!(log.failed(Cause::Refused, "again", at(24)), None, "too soon");
        assert_eq!(log.failed(Cause::Refused, "again", at(25)), fails("again", 5));
        let failed_for = Duration::from_secs(30);
        let recovered = FailureNews::Recovered { failed_requests: 5, failed_for };
        assert_eq!(log.accepted(at(30)), Some(recovered));
        assert_eq!(log.accepted(at(31)), None);
    }

    /// PBX-090
    #[test]
    fn an_endpoint_that_alternates_recovers_when_it_has_been_quiet() {
        let (mut log, start) = (FailureLog::new(Duration::from_secs(5)), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        assert!(log.failed(Cause::Throttled, "429", at(0)).is_some());
        for second in 1..20 {
            assert_eq!(log.accepted(at(second)), None);
            assert_eq!(log.failed(Cause::Throttled, "429", at(second)), None);
        }
        assert_eq!(log.recovered(at(60)), None, "nothing was accepted since");
        assert!(log.accepted(at(60)).is_some());
        assert!(log.failed(Cause::Throttled, "429", at(61)).is_some());
        assert_eq!(log.accepted(at(62)), None);
        assert!(log.recovered(at(66)).is_some());
    }
}
