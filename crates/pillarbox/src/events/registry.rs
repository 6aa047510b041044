//! The listener registry: maps pairs of aggregate type and event type to listeners.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Failure;
use super::listener::{AnyListener, Listener, Typed};
use crate::model::{AggregateType, EventPayload, EventType, GLOBAL};
use crate::port::{Delivery, Sink, Verdict};

/// The listener for an event, or the sink that is registered in its place.
#[derive(Clone)]
pub struct Found(Taker);

#[derive(Clone)]
enum Taker {
    Listener(Arc<dyn AnyListener>),
    Sink(Arc<dyn Sink>),
}

impl Found {
    /// Wraps a listener, for custom registries.
    #[must_use]
    pub fn new(listener: impl Listener) -> Self {
        Self(Taker::Listener(Arc::new(listener)))
    }

    /// Wraps a closure that takes the payload, for custom registries. An unreadable payload is a permanent failure.
    #[must_use]
    pub fn typed<P, F, Fut>(listener: F) -> Self
    where
        P: EventPayload + DeserializeOwned + Send + 'static,
        F: Fn(P, Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self(Taker::Listener(Arc::new(Typed { listener, payload: PhantomData })))
    }

    /// Wraps a sink, for custom registries. It receives one event at a time.
    #[must_use]
    pub fn sink(sink: Arc<dyn Sink>) -> Self {
        Self(Taker::Sink(sink))
    }

    /// Delivers an event and returns the verdict.
    pub async fn deliver(&self, delivery: &Delivery) -> Verdict {
        match &self.0 {
            Taker::Listener(listener) => match listener.call(delivery).await {
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

/// Finds the listener for a pair of aggregate type and event type.
pub trait ListenerRegistry: Send + Sync + 'static {
    /// Returns the listener, or `None` if no listener is registered.
    fn find(&self, aggregate_type: &str, event_type: &str) -> Option<Found>;

    /// Name of the route to that listener. Events with the same route name share a circuit breaker.
    fn route(&self, aggregate_type: &str, event_type: &str) -> String {
        format!("aggregate type {aggregate_type}, event type {event_type}")
    }
}

/// The error of a second registration for the same pair of aggregate type and event type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a listener for aggregate type {aggregate_type} and event type {event_type} is registered already")]
pub struct AlreadyRegistered {
    /// Aggregate type of the pair.
    pub aggregate_type: String,
    /// Event type of the pair.
    pub event_type: String,
}

/// The default registry: a hash table with at most one listener for each pair.
#[derive(Default, Clone)]
pub struct Listeners {
    table: HashMap<String, HashMap<String, Found>>,
}

impl Listeners {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a listener for an event type.
    ///
    /// It receives events without an aggregate, and events of any aggregate type that has no
    /// listener for this event type.
    pub fn register(
        &mut self,
        event_type: impl EventType,
        listener: impl Listener,
    ) -> Result<&mut Self, AlreadyRegistered> {
        self.insert(GLOBAL, &event_type.name(), Found::new(listener))
    }

    /// Registers a closure for the events that this payload names, of any aggregate type that has no listener of
    /// its own.
    pub fn register_on<P, F, Fut>(&mut self, listener: F) -> Result<&mut Self, AlreadyRegistered>
    where
        P: EventPayload + DeserializeOwned + Send + 'static,
        F: Fn(P, Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.insert(GLOBAL, &P::event_type(), Found::typed(listener))
    }

    /// Registers a listener for an event type of one aggregate type.
    pub fn register_for(
        &mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        listener: impl Listener,
    ) -> Result<&mut Self, AlreadyRegistered> {
        self.insert(&aggregate_type.name(), &event_type.name(), Found::new(listener))
    }

    /// Registers a sink for an event type, with the same routing as [`Listeners::register`].
    pub fn register_sink(
        &mut self,
        event_type: impl EventType,
        sink: Arc<dyn Sink>,
    ) -> Result<&mut Self, AlreadyRegistered> {
        self.insert(GLOBAL, &event_type.name(), Found::sink(sink))
    }

    /// Registers a sink for an event type of one aggregate type.
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

    /// Whether no listener and no sink is registered.
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
