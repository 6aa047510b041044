//! What the tests share: a store that is watched, listeners that remember, captured logs.

pub(crate) mod logs;
pub(crate) mod seen;
pub(crate) mod watched;

use std::time::Duration;

use pillarbox::Event;
use pillarbox::events::OutboxBuilder;
use pillarbox::model::EventBuilder;
use pillarbox::port::Store;

pub(crate) use logs::Logs;
pub(crate) use seen::Seen;
pub(crate) use watched::{Answered, Watched};

/// Far more virtual time than anything here needs: what is not there by then never comes.
pub(crate) const NEVER: Duration = Duration::from_secs(6 * 3_600);

pub(crate) fn event(id: &str) -> EventBuilder {
    Event::text("t", "{}").id(id)
}

/// A builder that makes the same run twice.
pub(crate) fn seeded<S: Store>(builder: OutboxBuilder<S>) -> OutboxBuilder<S> {
    builder.seed(7)
}
