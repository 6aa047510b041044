//! The sink port: anything that takes a batch of events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Cause;
use crate::model::{Event, Seq, Token};

/// How an event came to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Pushed by the writer after its commit.
    Hot,
    /// Read from the store.
    Cold,
}

/// One event on its way out.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Its number.
    pub seq: Seq,
    /// How it came.
    pub source: Source,
    /// The claim on it, where there is one.
    pub claimed: Option<Arc<Claimed>>,
}

/// What a claim tells of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its token.
    pub token: Token,
    /// When the row was written.
    pub created_at: Timestamp,
    /// Why it failed last.
    pub last_error: Option<String>,
}

/// What a sink says of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The sink has taken the event.
    Accepted,
    /// Accepted, and settled by the sink in a transaction of its own.
    Settled,
    /// Failed by its own fault: again, after this long if the sink said so, else by policy.
    Failed {
        /// The error, for people.
        error: String,
        /// When to try again.
        after: Option<Duration>,
    },
    /// This event and those after it were refused together, by the fault of some of them: they are sent again in parts, which
    /// tells whose. No attempt is burnt. Of the last event of a batch it is `Failed`.
    Refused {
        /// The error, for people.
        error: String,
    },
    /// Will never be taken: dead at once.
    Rejected {
        /// The error, for people.
        error: String,
    },
    /// The endpoint failed, not the event: no attempt is burnt while it is down.
    Unavailable {
        /// The class of what went wrong.
        cause: Cause,
        /// The error, for people.
        error: String,
        /// When to try again.
        after: Option<Duration>,
    },
    /// What this event's route leads to failed; other routes of the sink are not concerned, and nor is the engine's circuit
    /// breaker. Counts against the event as `Unavailable` does, by what the same route has accepted.
    RouteUnavailable {
        /// The class of what went wrong.
        cause: Cause,
        /// The error, for people.
        error: String,
        /// When to try again.
        after: Option<Duration>,
        /// How many events the route has accepted so far.
        accepted: u64,
    },
    /// Not tried, because the circuit breaker of its route is open: it comes again after this long, and nothing is counted.
    RouteShut {
        /// The route, for people.
        route: String,
        /// When to try again.
        after: Duration,
    },
    /// The endpoint wants fewer requests (429, 503 with Retry-After). No attempt is ever counted: deliveries are paced instead,
    /// and nothing at all is sent before `after` has passed.
    Throttled {
        /// The error, for people.
        error: String,
        /// When to try again, if the endpoint said so.
        after: Option<Duration>,
    },
    /// Nobody is there for this event.
    NoRoute {
        /// The route that was looked for.
        route: String,
    },
    /// Not tried, because it is being delivered elsewhere in this process: left to a later read.
    InFlight,
    /// Not tried, because an event before it in the batch failed.
    Skipped,
}

/// A batch handed over: a verdict for each event, in order.
pub type Handed<'a> = Pin<Box<dyn Future<Output = Vec<Verdict>> + Send + 'a>>;

/// Takes batches of events. A batch holds events of one group, or a single one.
pub trait Sink: Send + Sync + 'static {
    /// Delivers a batch and gives a verdict for each event, in order.
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a>;
}
