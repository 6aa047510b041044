//! The circuit breaker: after five endpoint failures in a row nothing is sent for a while, then one probe.

use std::time::Duration;

use tokio::time::Instant;

use super::pace::Pace;

const FAILURES_TO_OPEN: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Events that have to wait longer do not wait in memory.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// The longest wait that a sink can ask for.
pub(crate) const LONGEST_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    Probing,
}

/// What may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// A batch.
    Open,
    /// Nothing before this time, or before an answer to what is in flight.
    Shut(Option<Instant>),
}

/// Whether events should be read for the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// As many as there is room for.
    Sending,
    /// One batch, to see whether the endpoint is back.
    Probe,
    /// None before this time, or before an answer to what is in flight.
    Paused(Option<Instant>),
}

/// A request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    at: Instant,
    era: u64,
    probe: bool,
}

/// What the answer to a request told of the endpoint so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Nothing,
    Answered,
    Accepted,
}

/// Tells an endpoint's outage from the faults of events, and paces what is sent.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    failures: u32,
    pauses: u32,
    /// Events the sink has accepted so far.
    accepted: u64,
    pace: Pace,
    /// Grows when the endpoint turns out to fail or to throttle. Answers to requests of an earlier era tell nothing new:
    /// a burst that fails together is one failure of the endpoint.
    era: u64,
    /// What the answer that is being judged told; none if its request is of an earlier era.
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

    /// What is to be expected of the endpoint.
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

    /// Whether the endpoint is taken to be down.
    pub(crate) fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    /// A batch is sent; while the breaker is open it is the probe.
    pub(crate) fn send(&mut self, now: Instant) -> Sent {
        let probe = self.is_open();
        if probe {
            self.state = State::Probing;
        }
        self.pace.sent(now);
        Sent { at: now, era: self.era, probe }
    }

    /// The answer to a request is judged from here to `judged`.
    pub(crate) fn judge(&mut self, sent: Sent) {
        self.judged = (sent.era == self.era).then_some(Heard::Nothing);
    }

    /// The request is over. If a probe told nothing of the endpoint, the next batch is a probe.
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

    /// The endpoint answered: it is there.
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

    /// How many events the sink has accepted.
    pub(crate) fn accepted_count(&self) -> u64 {
        self.accepted
    }

    /// The endpoint failed; how long its event should wait.
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

    /// The endpoint throttles: it is there, and wants to be asked less.
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

/// How long an event waits under which the endpoint failed this often in a row: twice as long as the breaker would, since
/// the probe should be another one, in case this one is the cause.
pub(crate) fn patience(outages: u32) -> Duration {
    pause(outages.saturating_sub(1)) * 2
}

/// The pause after this many others.
fn pause(pauses: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << pauses.min(6)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests;
