//! What can go wrong, how often, and the fate of one call.

use std::time::Duration;

use fastrand::Rng;

use crate::chance::Chance;
use crate::plan::Scenario;

/// A call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    Fetch,
    Settle,
    Register,
    Heartbeat,
    Leave,
    Promote,
    Take,
    Recover,
    Begin,
    Insert,
    Commit,
}

impl Op {
    pub(crate) const ALL: [Self; 11] = [
        Self::Fetch,
        Self::Settle,
        Self::Register,
        Self::Heartbeat,
        Self::Leave,
        Self::Promote,
        Self::Take,
        Self::Recover,
        Self::Begin,
        Self::Insert,
        Self::Commit,
    ];

    /// Its name in facts and traces.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Settle => "settle",
            Self::Register => "register",
            Self::Heartbeat => "heartbeat",
            Self::Leave => "leave",
            Self::Promote => "promote",
            Self::Take => "take",
            Self::Recover => "recover",
            Self::Begin => "begin",
            Self::Insert => "insert",
            Self::Commit => "commit",
        }
    }

    fn writes(self) -> bool {
        self != Self::Fetch
    }
}

/// When a call fails, or its caller dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Nothing has changed.
    Before,
    /// The change is made, the answer lost.
    After,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fate {
    pub(crate) fails: Option<When>,
    /// How long the request takes.
    pub(crate) there: Duration,
    /// How long the answer takes.
    pub(crate) back: Duration,
    /// The request goes on without its caller.
    pub(crate) detached: bool,
}

/// How a store fails.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreFaults {
    /// Only this call fails, if set.
    only: Option<Op>,
    before: f64,
    after: f64,
    delays: f64,
    delay_ms: u64,
    /// An answer that does not come for longer than a lease.
    hangs: f64,
    lease: Duration,
    /// How often the database is read-only for a while.
    pub(crate) read_only: f64,
    /// How often a promotion finds every row that is due locked by others.
    pub(crate) locked: f64,
    /// How often a read of slots passes a row by.
    pub(crate) passes_by: f64,
}

impl StoreFaults {
    pub(crate) fn draw(rng: &mut Rng, scenario: Scenario, lease: Duration) -> Self {
        let delays = rng.one(&[0.0, 0.2, 0.8]);
        let delay_ms = rng.one(&[3, 30, 300]);
        // No fault of the store: whoever works with rows locks them.
        let locked = rng.one(&[0.0, 0.3, 0.9]);
        let slow = Self { delays, delay_ms, lease, locked, ..Self::default() };
        match scenario {
            Scenario::Calm => Self { delay_ms: delay_ms.min(30), ..slow },
            Scenario::Sink => slow,
            Scenario::Nodes => Self { hangs: rng.one(&[0.0, 0.01]), ..slow },
            Scenario::Store | Scenario::Everything => Self {
                only: rng.bool().then(|| rng.one(&Op::ALL)),
                before: rng.one(&[0.0, 0.05, 0.3]),
                after: rng.one(&[0.0, 0.05, 0.3]),
                hangs: rng.one(&[0.0, 0.02, 0.1]),
                read_only: rng.one(&[0.0, 0.0, 0.1]),
                delay_ms: rng.one(&[3, 30, 300, 2_000]),
                ..slow
            },
        }
    }

    /// The fate of a call.
    pub(crate) fn fate(&self, rng: &mut Rng, op: Op, read_only: bool) -> Fate {
        let aimed = self.only.is_none_or(|only| only == op);
        let fails = if read_only && op.writes() || (aimed && rng.chance(self.before)) {
            Some(When::Before)
        } else if aimed && rng.chance(self.after) {
            Some(When::After)
        } else {
            None
        };
        let delay = |rng: &mut Rng| {
            if aimed && rng.chance(self.hangs) {
                let lease = self.lease.as_millis() as u64;
                rng.millis(lease / 2, lease * 3)
            } else if rng.chance(self.delays) {
                rng.millis(0, self.delay_ms)
            } else {
                Duration::ZERO
            }
        };
        Fate { fails, there: delay(rng), back: delay(rng), detached: rng.bool() }
    }
}

/// How a sink fails.
#[derive(Debug, Clone, Default)]
pub(crate) struct SinkFaults {
    pub(crate) fails: f64,
    pub(crate) rejects: f64,
    pub(crate) no_route: f64,
    pub(crate) unavailable: f64,
    pub(crate) throttles: f64,
    pub(crate) accepts_then_fails: f64,
    pub(crate) accepts_then_hangs: f64,
    pub(crate) hangs: f64,
    pub(crate) panics: f64,
    pub(crate) slow: f64,
    pub(crate) slow_ms: u64,
    /// How often the endpoint is down for a while.
    pub(crate) outages: f64,
}

impl SinkFaults {
    pub(crate) fn draw(rng: &mut Rng, scenario: Scenario) -> Self {
        let honest = Self {
            fails: rng.one(&[0.0, 0.05, 0.3]),
            rejects: rng.one(&[0.0, 0.02]),
            no_route: rng.one(&[0.0, 0.01]),
            unavailable: rng.one(&[0.0, 0.05]),
            throttles: rng.one(&[0.0, 0.05]),
            slow: rng.one(&[0.0, 0.3, 1.0]),
            slow_ms: rng.one(&[2, 50, 800]),
            ..Self::default()
        };
        match scenario {
            Scenario::Calm | Scenario::Store | Scenario::Nodes => honest,
            Scenario::Sink | Scenario::Everything => Self {
                accepts_then_fails: rng.one(&[0.0, 0.05, 0.2]),
                accepts_then_hangs: rng.one(&[0.0, 0.03]),
                hangs: rng.one(&[0.0, 0.03]),
                panics: rng.one(&[0.0, 0.03]),
                unavailable: rng.one(&[0.0, 0.1, 0.5]),
                throttles: rng.one(&[0.0, 0.1, 0.5]),
                outages: rng.one(&[0.0, 0.2]),
                ..honest
            },
        }
    }
}

/// What happens to nodes, the clock and by operators; each a chance per step of the script.
#[derive(Debug, Clone, Default)]
pub(crate) struct Incidents {
    pub(crate) crash: f64,
    /// A life ends at a drawn number of calls to store and sink.
    pub(crate) counted_crash: f64,
    pub(crate) freeze: f64,
    pub(crate) close: f64,
    pub(crate) jump_forward: f64,
    pub(crate) jump_back: f64,
    pub(crate) operator: f64,
    /// The store loses its newest rows, and gives their numbers again.
    pub(crate) put_back: f64,
}

impl Incidents {
    pub(crate) fn draw(rng: &mut Rng, scenario: Scenario) -> Self {
        let moving = Self { close: rng.one(&[0.0, 0.1, 0.4]), ..Self::default() };
        match scenario {
            Scenario::Calm => Self { operator: rng.one(&[0.0, 0.0, 0.2]), ..moving },
            Scenario::Store | Scenario::Sink => moving,
            Scenario::Nodes | Scenario::Everything => Self {
                crash: rng.one(&[0.0, 0.1, 0.3]),
                counted_crash: rng.one(&[0.0, 0.3, 0.8]),
                freeze: rng.one(&[0.0, 0.1, 0.3]),
                jump_forward: rng.one(&[0.0, 0.0, 0.05]),
                jump_back: rng.one(&[0.0, 0.0, 0.05]),
                operator: if scenario == Scenario::Everything { rng.one(&[0.0, 0.1, 0.4]) } else { 0.0 },
                ..moving
            },
        }
    }
}
