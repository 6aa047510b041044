//! Pillarbox: a transactional outbox.
//!
//! A service writes an event in the same database transaction as its business rows; Pillarbox delivers it, at least
//! once, in order where order was asked for, and never loses it.

#[macro_use]
mod setters;

pub mod engine;
pub mod events;
pub mod hosts;
pub mod memory;
pub mod model;
pub mod port;
pub mod queue;
pub mod redact;
pub mod rules;
pub mod testing;

pub use events::{Failure, Outbox, WriteError, Writer};
pub use model::{AggregateType, Event, EventPayload, EventType, Global};
#[cfg(feature = "derive")]
pub use pillarbox_derive::{AggregateType, EventPayload, EventType};
pub use port::{Delivery, Stats};
pub use queue::Queue;
