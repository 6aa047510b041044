//! What can be written: one event in several forms, or a collection of such.

use serde::Serialize;

use super::trace::TRACEPARENT;
use super::{Event, EventBuilder, EventId, EventPayload, EventType, Invalid, Limits, TraceContext};

/// One value that can be written: an event, a builder, a reference to a payload, or a type with JSON text.
pub trait IntoEvent {
    /// Returns the checked event. Adds the trace context, unless the event has one.
    fn into_event(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Event, Invalid>;
}

impl IntoEvent for Event {
    fn into_event(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Event, Invalid> {
        if trace.is_some() && self.headers().get(TRACEPARENT).is_none() {
            return self.to_builder().into_event(limits, trace);
        }
        self.check(limits)?;
        Ok(self)
    }
}

/// An event type with its payload as JSON text, as in `tx.write(("order.placed", "{}"))`.
impl<T: EventType, P: Into<String>> IntoEvent for (T, P) {
    fn into_event(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Event, Invalid> {
        Event::text(self.0, self.1).into_event(limits, trace)
    }
}

impl IntoEvent for EventBuilder {
    fn into_event(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Event, Invalid> {
        match trace {
            Some(trace) if !self.has_header(TRACEPARENT) => self.trace_context(trace).build_within(limits),
            _ => self.build_within(limits),
        }
    }
}

/// A payload whose type names its event, as in `tx.write(&placed)`.
impl<P: EventPayload + Serialize> IntoEvent for &P {
    fn into_event(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Event, Invalid> {
        Event::of(self)?.into_event(limits, trace)
    }
}

/// Marks one value in [`IntoEvents`].
#[derive(Debug)]
pub enum OneEvent {}

/// Marks a collection in [`IntoEvents`].
#[derive(Debug)]
pub enum ManyEvents {}

/// What `write` accepts: one event, or an array, vector or iterator of events.
///
/// The parameter tells the two apart; the compiler infers it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be written as an event",
    label = "neither an event nor a collection of events",
    note = "write a reference to a payload that derives `EventPayload` and `Serialize`, an `Event`, its builder, or \
            an array, vector or iterator of these"
)]
pub trait IntoEvents<Marker> {
    /// What a write returns: the id of one event, or the ids of a collection.
    type Ids;

    /// Returns the checked events.
    fn into_events(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Vec<Event>, Invalid>;

    /// Converts the ids of the written events. There are none if a hook suppressed the write.
    fn ids(written: Vec<EventId>) -> Self::Ids;
}

impl<E: IntoEvent> IntoEvents<OneEvent> for E {
    type Ids = Option<EventId>;

    fn into_events(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Vec<Event>, Invalid> {
        Ok(vec![self.into_event(limits, trace)?])
    }

    fn ids(mut written: Vec<EventId>) -> Option<EventId> {
        written.pop()
    }
}

impl<I> IntoEvents<ManyEvents> for I
where
    I: IntoIterator,
    I::Item: IntoEvent,
{
    type Ids = Vec<EventId>;

    fn into_events(self, limits: &Limits, trace: Option<&TraceContext>) -> Result<Vec<Event>, Invalid> {
        self.into_iter().map(|event| event.into_event(limits, trace)).collect()
    }

    fn ids(written: Vec<EventId>) -> Vec<EventId> {
        written
    }
}
