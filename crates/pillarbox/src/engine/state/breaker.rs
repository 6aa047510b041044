//! The circuit breaker: after five endpoint failures in a row it pauses sending, then sends one probe.

use std::time::Duration;

use tokio::time::Instant;

use super::pace::Pace;

const FAILURES_TO_OPEN: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum wait in memory; events that wait longer for the endpoint leave memory.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Maximum delay that a sink can ask for.
pub(crate) const LONGEST_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    Probing,
}

/// Whether a batch may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// A batch may be sent.
    Open,
    /// Nothing may be sent before this time, or before a request in flight is answered.
    Shut(Option<Instant>),
}

/// Whether events should be read for the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Read as many events as there is room for.
    Sending,
    /// Read one batch, to probe whether the endpoint is back.
    Probe,
    /// Read nothing before this time, or before a request in flight is answered.
    Paused(Option<Instant>),
}

/// A request in flight: when it was sent, in which era, and whether it is the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    at: Instant,
    era: u64,
    probe: bool,
}

/// What the verdicts of one request have shown about the endpoint so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Nothing,
    Answered,
    Accepted,
}

/// Distinguishes outages of the endpoint from failures of single events, and paces requests.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    failures: u32,
    pauses: u32,
    /// Number of events that the sink has accepted so far.
    accepted: u64,
    pace: Pace,
    /// Increases when the breaker opens or the endpoint throttles. Answers to requests of an earlier era are
    /// ignored: a burst of requests that fail together is one failure of the endpoint.
    era: u64,
    /// What the answer being judged has shown so far; `None` if its request is of an earlier era.
    judged: Option<Heard>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: State::Closed,
            failures: 0,
            pauses: 0,
            accepted: 0,
            pace: Pace::default(),
            era: 0,
            judged: None,
        }
    }
}

impl Breaker {
    /// Whether a batch may be sent now.
    pub(crate) fn gate(&self, now: Instant) -> Gate {
        let opens_at = match self.state {
            State::Probing => return Gate::Shut(None),
            State::Open { until } => Some(until).filter(|until| now < *until),
            State::Closed if self.pace.is_full() => return Gate::Shut(None),
            State::Closed => None,
        };
        match opens_at.max(self.pace.wait(now)) {
            None => Gate::Open,
            until => Gate::Shut(until),
        }
    }

    /// Whether events should be read for the endpoint now.
    pub(crate) fn outlook(&self, now: Instant) -> Outlook {
        let paced = self.pace.wait(now);
        match self.state {
            State::Closed => paced
                .filter(|until| *until > now + SHORT_WAIT)
                .map_or(Outlook::Sending, |until| Outlook::Paused(Some(until))),
            State::Probing => Outlook::Paused(None),
            State::Open { until } => match Some(until).filter(|until| now < *until).max(paced) {
                None => Outlook::Probe,
                until => Outlook::Paused(until),
            },
        }
    }

    /// Whether the breaker is open, that is, the endpoint counts as down.
    pub(crate) fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    /// Records a request. While the breaker is open, the request is the probe.
    pub(crate) fn send(&mut self, now: Instant) -> Sent {
        let probe = self.is_open();
        if probe {
            self.state = State::Probing;
        }
        self.pace.sent(now);
        Sent { at: now, era: self.era, probe }
    }

    /// Begins to judge the answer to a request; `judged` ends it.
    pub(crate) fn judge(&mut self, sent: Sent) {
        self.judged = (sent.era == self.era).then_some(Heard::Nothing);
    }

    /// Ends a request. If a probe showed nothing about the endpoint, the next batch is a probe too.
    pub(crate) fn judged(&mut self, sent: Sent, now: Instant) {
        let heard = self.judged.take();
        if sent.era != self.era {
            return;
        }
        self.pace.back();
        if sent.probe && self.is_open() {
            self.state = State::Open { until: now };
        }
        if heard == Some(Heard::Accepted) {
            self.pace.accepted(sent.at);
        }
        if !sent.probe && heard > Some(Heard::Nothing) {
            self.pace.answered();
        }
    }

    /// Records an answer of the endpoint, which closes the breaker.
    pub(crate) fn answered(&mut self) {
        self.hear(Heard::Answered);
    }

    fn hear(&mut self, heard: Heard) {
        if self.judged.is_none() {
            return;
        }
        self.judged = self.judged.max(Some(heard));
        if self.is_open() {
            self.pace.restart();
            self.state = State::Closed;
        }
        self.failures = 0;
        self.pauses = 0;
    }

    pub(crate) fn accepted(&mut self) {
        self.accepted += 1;
        self.hear(Heard::Accepted);
    }

    /// Number of events that the sink has accepted.
    pub(crate) fn accepted_count(&self) -> u64 {
        self.accepted
    }

    /// Records a failure of the endpoint. Returns how long the event should wait.
    pub(crate) fn failed(&mut self, now: Instant, after: Option<Duration>) -> Duration {
        let after = after.map(|after| after.min(LONGEST_AFTER));
        if self.judged.is_none() {
            if let (true, Some(after)) = (self.is_open(), after) {
                self.pace.hold(now + after);
            }
            return after.unwrap_or(pause(self.pauses.saturating_sub(1)));
        }
        let pause = after.unwrap_or(pause(self.pauses));
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_TO_OPEN || self.is_open() {
            self.state = State::Open { until: now + pause };
            self.pauses = self.pauses.saturating_add(1);
            self.next_era();
        }
        pause
    }

    /// Records that the endpoint throttles. It counts as an answer, and slows requests down.
    pub(crate) fn throttled(&mut self, now: Instant, after: Option<Duration>) {
        let after = after.map(|after| after.min(LONGEST_AFTER));
        if self.judged.is_none() {
            return after.into_iter().for_each(|after| self.pace.hold(now + after));
        }
        if self.judged == Some(Heard::Accepted) {
            self.pace.relent();
        }
        self.answered();
        self.pace.throttled(now, after);
        self.next_era();
    }

    fn next_era(&mut self) {
        self.era += 1;
        self.judged = None;
    }
}

/// Wait of an event after this many endpoint failures in a row.
///
/// It is twice the breaker's pause, so that the probe is another event in case this one is the cause.
pub(crate) fn patience(outages: u32) -> Duration {
    pause(outages.saturating_sub(1)) * 2
}

/// Pause of the breaker after this many earlier pauses.
fn pause(pauses: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << pauses.min(6)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests;
