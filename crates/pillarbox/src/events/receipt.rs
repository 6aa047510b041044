//! A receipt: events that stand in someone else's transaction.

use super::Writer;
use super::hook::Moment;
use crate::model::{Event, EventId};
use crate::port::Store;

/// Events written on a transaction of the caller's. Call `committed` after its commit; forgetting it costs only latency.
#[must_use = "call committed() after the transaction's commit, or the events wait for the next poll"]
pub struct Receipt<S: Store> {
    writer: Writer<S>,
    events: Vec<Event>,
}

impl<S: Store> Receipt<S> {
    pub(super) fn new(writer: Writer<S>, events: Vec<Event>) -> Self {
        Self { writer, events }
    }

    /// The ids, in order; empty if a hook suppressed the write.
    #[must_use]
    pub fn ids(&self) -> Vec<EventId> {
        Writer::<S>::ids(&self.events)
    }

    /// The transaction has committed: the rows are looked up and delivered now.
    pub fn committed(self) {
        self.writer.wake();
        self.writer.hint_due(&self.events);
        if !self.events.is_empty() {
            self.writer.hooks.run(Moment::Commit, &self.events);
        }
    }

    /// The transaction was rolled back.
    pub fn rolled_back(self) {
        if !self.events.is_empty() {
            self.writer.hooks.run(Moment::Rollback, &self.events);
        }
    }
}
