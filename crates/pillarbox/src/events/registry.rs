//! The registry: which listener takes which events.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::listener::{AnyListener, Listener};
use crate::model::{AggregateType, EventType, GLOBAL};
use crate::port::{Delivery, Sink, Verdict};

/// A listener that was found, or a sink that stands in its place.
#[derive(Clone)]
pub struct Found(Taker);

#[derive(Clone)]
enum Taker {
    Listener(Arc<dyn AnyListener>),
    Sink(Arc<dyn Sink>),
}

impl Found {
    /// Wraps a listener, for registries of one's own.
    #[must_use]
    pub fn new(listener: impl Listener) -> Self {
        Self(Taker::Listener(Arc::new(listener)))
    }

    /// Wraps a sink, for registries of one's own. It gets one event at a time.
    #[must_use]
    pub fn sink(sink: Arc<dyn Sink>) -> Self {
        Self(Taker::Sink(sink))
    }

    /// Hands it an event.
    pub async fn deliver(&self, delivery: &Delivery) -> Verdict {
        match &self.0 {
            Taker::Listener(listener) => match listener.call(delivery.event.clone()).await {
                Ok(()) => Verdict::Accepted,
                Err(failure) => failure.into_verdict(),
            },
            Taker::Sink(sink) => {
                let verdict = sink.deliver(std::slice::from_ref(delivery)).await.into_iter().next();
                verdict.unwrap_or(Verdict::Skipped)
            }
        }
    }
}

/// Finds the one listener for a pair of aggregate type and event type.
pub trait ListenerRegistry: Send + Sync + 'static {
    /// The listener, if there is one.
    fn find(&self, aggregate_type: &str, event_type: &str) -> Option<Found>;

    /// The name of the route to that listener. Events with one name share a circuit breaker, and their listener's failures.
    fn route(&self, aggregate_type: &str, event_type: &str) -> String {
        format!("aggregate type {aggregate_type}, event type {event_type}")
    }
}

/// A pair that has a listener already.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a listener for aggregate type {aggregate_type} and event type {event_type} is registered already")]
pub struct AlreadyRegistered {
    /// The aggregate type.
    pub aggregate_type: String,
    /// The event type.
    pub event_type: String,
}

/// The default registry: a table.
#[derive(Default, Clone)]
pub struct Listeners {
    table: HashMap<String, HashMap<String, Found>>,
}

impl Listeners {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers for an event type: of no aggregate, and of every aggregate type without a listener of its own.
    pub fn register(
        &mut self,
        event_type: impl EventType,
        listener: impl Listener,
    ) -> Result<&mut Self, AlreadyRegistered> {
        self.insert(GLOBAL, &event_type.name(), Found::new(listener))
    }

    /// Registers for an event type of an aggregate type.
    pub fn register_for(
        &mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        listener: impl Listener,
    ) -> Result<&mut Self, AlreadyRegistered> {
        self.insert(&aggregate_type.name(), &event_type.name(), Found::new(listener))
    }

    /// Registers a sink for an event type, as [`Listeners::register`] does a listener.
    pub fn register_sink(
        &mut self,
        event_type: impl EventType,
        sink: Arc<dyn Sink>,
    ) -> Result<&mut Self, AlreadyRegistered> {
        self.insert(GLOBAL, &event_type.name(), Found::sink(sink))
    }

    /// Registers a sink for an event type of an aggregate type.
    pub fn register_sink_for(
        &mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        sink: Arc<dyn Sink>,
    ) -> Result<&mut Self, AlreadyRegistered> {
        self.insert(&aggregate_type.name(), &event_type.name(), Found::sink(sink))
    }

    fn insert(&mut self, aggregate: &str, event: &str, found: Found) -> Result<&mut Self, AlreadyRegistered> {
        let events = self.table.entry(aggregate.to_owned()).or_default();
        if events.contains_key(event) {
            let (aggregate_type, event_type) = (aggregate.to_owned(), event.to_owned());
            return Err(AlreadyRegistered { aggregate_type, event_type });
        }
        events.insert(event.to_owned(), found);
        Ok(self)
    }

    /// Whether there is none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

impl ListenerRegistry for Listeners {
    fn find(&self, aggregate_type: &str, event_type: &str) -> Option<Found> {
        let of = |aggregate_type: &str| self.table.get(aggregate_type)?.get(event_type).cloned();
        of(aggregate_type).or_else(|| of(GLOBAL))
    }

    fn route(&self, aggregate_type: &str, event_type: &str) -> String {
        let own = self.table.get(aggregate_type).is_some_and(|events| events.contains_key(event_type));
        match own && aggregate_type != GLOBAL {
            true => format!("aggregate type {aggregate_type}, event type {event_type}"),
            false => format!("event type {event_type}"),
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.table.iter().flat_map(|(a, events)| events.keys().map(move |e| (a, e)));
        f.debug_set().entries(pairs).finish()
    }
}
