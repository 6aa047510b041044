//! The breaker: after five endpoint failures in a row nothing is sent for a while, then one probe.

use std::time::Duration;

use tokio::time::Instant;

const FAILURES_TO_OPEN: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    Probing,
}

/// What may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Anything.
    Open,
    /// One batch, to see.
    Probe,
    /// Nothing before this time, or before the probe is back.
    Shut(Option<Instant>),
}

/// Tells an endpoint's outage from the faults of events.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    failures: u32,
    pauses: u32,
    /// Events the sink has accepted so far.
    accepted: u64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed, failures: 0, pauses: 0, accepted: 0 }
    }
}

impl Breaker {
    pub(crate) fn gate(&self, now: Instant) -> Gate {
        match self.state {
            State::Closed => Gate::Open,
            State::Open { until } if now < until => Gate::Shut(Some(until)),
            State::Open { .. } => Gate::Probe,
            State::Probing => Gate::Shut(None),
        }
    }

    /// Whether the endpoint is taken to be down.
    pub(crate) fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    pub(crate) fn probe_sent(&mut self) {
        self.state = State::Probing;
    }

    /// The probe is back. If it told nothing of the endpoint, the next event is a probe.
    pub(crate) fn probe_back(&mut self, now: Instant) {
        if self.state == State::Probing {
            self.state = State::Open { until: now };
        }
    }

    /// The endpoint answered: it is there.
    pub(crate) fn answered(&mut self) {
        self.state = State::Closed;
        self.failures = 0;
        self.pauses = 0;
    }

    pub(crate) fn accepted(&mut self) {
        self.accepted += 1;
        self.answered();
    }

    /// How many events the sink has accepted.
    pub(crate) fn accepted_count(&self) -> u64 {
        self.accepted
    }

    /// The endpoint failed; how long its event should wait.
    pub(crate) fn failed(&mut self, now: Instant, after: Option<Duration>) -> Duration {
        let pause = after.map_or_else(
            || FIRST_PAUSE.saturating_mul(1 << self.pauses.min(6)).min(LONGEST_PAUSE),
            |after| after.min(LONGEST_PAUSE),
        );
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_TO_OPEN || self.state == State::Probing {
            self.state = State::Open { until: now + pause };
            self.pauses = self.pauses.saturating_add(1);
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_open_it_and_one_probe_closes_it() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for _ in 0..4 {
            breaker.failed(now, None);
            assert_eq!(breaker.gate(now), Gate::Open);
        }
        let pause = breaker.failed(now, None);
        assert_eq!(breaker.gate(now), Gate::Shut(Some(now + pause)));
        assert_eq!(breaker.gate(now + pause), Gate::Probe);
        breaker.probe_sent();
        assert_eq!(breaker.gate(now + pause), Gate::Shut(None));
        breaker.failed(now + pause, None);
        assert!(matches!(breaker.gate(now + pause), Gate::Shut(Some(_))), "a failed probe opens it again");
        breaker.answered();
        assert_eq!(breaker.gate(now), Gate::Open);
    }

    #[test]
    fn a_probe_that_tells_nothing_is_followed_by_another() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        breaker.probe_sent();
        breaker.probe_back(now);
        assert_eq!(breaker.gate(now), Gate::Probe);
        breaker.answered();
        breaker.probe_back(now);
        assert_eq!(breaker.gate(now), Gate::Open);
    }

    #[test]
    fn retry_after_is_honoured_with_a_cap() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.failed(Instant::now(), Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(breaker.failed(Instant::now(), Some(Duration::MAX)), LONGEST_PAUSE);
    }
}
