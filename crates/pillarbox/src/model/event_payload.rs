//! Payload types that name their event: its type, group and aggregate.

use std::borrow::Cow;

use serde::Serialize;

use super::{Event, EventBuilder, Invalid};

/// A type whose values are the payloads of one event type.
///
/// Derive it: `#[derive(EventPayload)] #[event(type = "order.placed", group = "customer")]`. To write the payload it
/// must also be `Serialize`, to receive it `Deserialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` doesn't name an event",
    label = "this type has no event type",
    note = "derive it: `#[derive(EventPayload)] #[event(type = \"order.placed\")]`"
)]
pub trait EventPayload {
    /// The event type that values of this type are written with and received under.
    fn event_type() -> Cow<'static, str>;

    /// The message group of this value. Default: none, so that the aggregate is the group.
    fn group(&self) -> Option<String> {
        None
    }

    /// Type and id of the aggregate that this value is about. Default: none.
    fn aggregate(&self) -> Option<(Cow<'static, str>, String)> {
        None
    }
}

impl Event {
    /// Returns a builder for the event that this payload names, to set headers, a due time and the like.
    pub fn of<P: EventPayload + Serialize>(payload: &P) -> Result<EventBuilder, Invalid> {
        let mut builder = Self::json(P::event_type(), payload)?;
        if let Some((aggregate_type, id)) = payload.aggregate() {
            builder = builder.aggregate(aggregate_type, id);
        }
        Ok(match payload.group() {
            Some(group) => builder.group(group),
            None => builder,
        })
    }
}
