//! A receipt: events that stand in someone else's transaction.

use super::Writer;
use super::hook::Moment;
use crate::model::{Event, EventId};
use crate::port::Table;

/// Events written on a transaction of the caller's. Call `committed` after its commit; forgetting it costs only latency.
#[must_use = "call committed() after the transaction's commit, or the events wait for the next poll"]
pub struct Receipt<S: Table> {
    writer: Writer<S>,
    events: Vec<Event>,
    /// Whether the rows are in, as far as is known.
    written: Known,
}

/// When the writer gets to know that rows are in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It has inserted them itself.
    Now,
    /// Someone else runs the statement: with the commit.
    WithCommit,
}

impl<S: Table> Receipt<S> {
    pub(super) fn new(writer: Writer<S>, events: Vec<Event>, written: Known) -> Self {
        Self { writer, events, written }
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
            if self.written == Known::WithCommit {
                self.writer.hooks.run(Moment::Write, &self.events);
            }
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
