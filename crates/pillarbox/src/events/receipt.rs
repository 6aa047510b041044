//! The receipt for events written on a transaction that the caller commits.

use super::Writer;
use super::hook::Moment;
use crate::model::{Event, EventId, Written};
use crate::port::Table;

/// Receipt for events written on a transaction that the caller commits.
///
/// Call [`Receipt::committed`] after the commit. A receipt that is dropped instead has the reader look for the rows
/// then and a moment later; rows that are committed after that wait for the next poll. Hooks do not run for it,
/// because the outcome is unknown.
#[must_use = "call committed() after the transaction's commit, or the events may wait for the next poll"]
pub struct Receipt<S: Table> {
    writer: Writer<S>,
    /// Empty once the outcome was told.
    events: Vec<Event>,
    /// Decides when the after-write hooks run.
    written: Confirmed,
}

/// When the writer knows that the rows are inserted.
pub(super) enum Confirmed {
    /// The writer inserted these rows itself.
    Now(Vec<Written>),
    /// The caller runs the INSERT statement, so only its commit confirms the rows.
    WithCommit,
}

impl<S: Table> Receipt<S> {
    pub(super) fn new(writer: Writer<S>, events: Vec<Event>, written: Confirmed) -> Self {
        Self { writer, events, written }
    }

    /// Ids of the events, in order; empty if a hook suppressed the write.
    #[must_use]
    pub fn ids(&self) -> Vec<EventId> {
        Writer::<S>::ids(&self.events)
    }

    /// Reports the commit: wakes the readers, which deliver the rows now, and runs the hooks.
    pub fn committed(mut self) {
        let events = std::mem::take(&mut self.events);
        self.writer.wake();
        self.writer.hint_due(&events);
        if !events.is_empty() {
            match &self.written {
                Confirmed::Now(rows) => self.writer.hooks.run_with_rows(&events, rows),
                Confirmed::WithCommit => self.writer.hooks.run(Moment::Write, &events),
            }
            self.writer.hooks.run(Moment::Commit, &events);
        }
    }

    /// Reports the rollback and runs the rollback hooks.
    pub fn rolled_back(mut self) {
        let events = std::mem::take(&mut self.events);
        if !events.is_empty() {
            self.writer.hooks.run(Moment::Rollback, &events);
        }
    }
}

impl<S: Table> Drop for Receipt<S> {
    fn drop(&mut self) {
        if !self.events.is_empty() {
            self.writer.wake_untold();
            self.writer.hint_due(&self.events);
        }
    }
}
