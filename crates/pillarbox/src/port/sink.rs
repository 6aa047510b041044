//! The sink port: anything that takes a batch of events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Cause;
use crate::model::{Event, EventId, Headers, Seq, Token};

/// The path on which an event reached the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryPath {
    /// Handed over by its own process right after the commit.
    Hot,
    /// Read from the store.
    Cold,
}

/// One delivery of an event: what a sink gets for each event of a batch, and a typed listener beside its payload.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The sequence number of its row.
    pub seq: Seq,
    /// The path of the event.
    pub path: DeliveryPath,
    /// Its claim, if the row was claimed.
    pub claimed: Option<Arc<Claimed>>,
    /// The error of the last failed attempt, if there was one and the row was read with it.
    pub last_error: Option<Arc<str>>,
}

impl Delivery {
    /// The first delivery of an event that was read from the store, for tests of sinks.
    #[must_use]
    pub fn first(event: Event) -> Self {
        Self { event, attempt: 1, seq: Seq(1), path: DeliveryPath::Cold, claimed: None, last_error: None }
    }

    /// The event's id, by which a receiver recognises a redelivery.
    #[must_use]
    pub fn id(&self) -> &EventId {
        self.event.id()
    }

    /// The event's headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        self.event.headers()
    }

    /// When the event happened.
    #[must_use]
    pub fn occurred_at(&self) -> Timestamp {
        self.event.occurred_at()
    }

    /// The error of the last failed attempt.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

/// Facts of a claimed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The token of the claim.
    pub token: Token,
    /// When the row was written.
    pub created_at: Timestamp,
}

/// The result that a sink reports for one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The sink has accepted the event.
    Accepted,
    /// Accepted, and already settled by the sink in its own transaction.
    Settled,
    /// The event itself failed and is retried after `after`, or else by the retry policy.
    Failed {
        /// The error text for operators.
        error: String,
        /// The delay before the next attempt; if there is none, the engine decides.
        after: Option<Duration>,
    },
    /// The endpoint refused this event and all later ones of the batch together, because of some of them.
    /// They are sent again in smaller parts to find the faulty ones. No attempt is counted. For the last
    /// event of a batch this means the same as `Failed`.
    Refused {
        /// The error text for operators.
        error: String,
    },
    /// The event can never be delivered: it becomes dead at once.
    Rejected {
        /// The error text for operators.
        error: String,
    },
    /// The endpoint failed, not the event. No attempt is counted while the endpoint is down.
    Unavailable {
        /// The class of the failure.
        cause: Cause,
        /// The error text for operators.
        error: String,
        /// The delay before the next attempt; if there is none, the engine decides.
        after: Option<Duration>,
    },
    /// The target of this event's route failed. Other routes of the sink and the engine's circuit breaker are
    /// not affected. It counts against the event as `Unavailable` does, judged by what the same route has
    /// accepted.
    RouteUnavailable {
        /// The class of the failure.
        cause: Cause,
        /// The error text for operators.
        error: String,
        /// The delay before the next attempt; if there is none, the engine decides.
        after: Option<Duration>,
        /// The number of events that the route has accepted so far.
        accepted: u64,
    },
    /// Not tried, because the circuit breaker of its route is open. The event is retried after `after`, and
    /// no attempt is counted.
    RouteShut {
        /// The name of the route, for operators.
        route: String,
        /// The delay before the next attempt.
        after: Duration,
    },
    /// The endpoint asks for fewer requests (429, or 503 with Retry-After). No attempt is ever counted. The
    /// engine paces deliveries instead, and sends nothing at all until `after` has passed.
    Throttled {
        /// The error text for operators.
        error: String,
        /// The delay that the endpoint asked for.
        after: Option<Duration>,
    },
    /// No listener, handler or route exists for this event.
    NoRoute {
        /// The route that was not found.
        route: String,
    },
    /// Not tried, because this process is delivering the event elsewhere. A later read returns it if it is
    /// still pending.
    InFlight,
    /// Not tried, because an event before it in the batch failed.
    Skipped,
}

/// The future of a delivery: one verdict per event, in order.
pub type Handed<'a> = Pin<Box<dyn Future<Output = Vec<Verdict>> + Send + 'a>>;

/// The target of deliveries. A batch contains events of one group, or a single event.
pub trait Sink: Send + Sync + 'static {
    /// Delivers a batch and returns one verdict per event, in order.
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a>;

    /// Whether the sink itself reports when it begins to fail and when it recovers. The engine then logs neither.
    fn reports_failures(&self) -> bool {
        false
    }
}
