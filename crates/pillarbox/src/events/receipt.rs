//! The receipt for events written on a transaction that the caller commits.

use super::Writer;
use super::hook::Moment;
use crate::model::{Event, EventId, Written};
use crate::port::Table;

/// Receipt for events written on a transaction that the caller commits.
///
/// Call [`Receipt::committed`] after the commit. Without that call the events wait for the next poll, and the
/// after-commit hooks do not run.
#[must_use = "call committed() after the transaction's commit, or the events wait for the next poll"]
pub struct Receipt<S: Table> {
    writer: Writer<S>,
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
    pub fn committed(self) {
        self.writer.wake();
        self.writer.hint_due(&self.events);
        if !self.events.is_empty() {
            match &self.written {
                Confirmed::Now(rows) => self.writer.hooks.run_with_rows(&self.events, rows),
                Confirmed::WithCommit => self.writer.hooks.run(Moment::Write, &self.events),
            }
            self.writer.hooks.run(Moment::Commit, &self.events);
        }
    }

    /// Reports the rollback and runs the rollback hooks.
    pub fn rolled_back(self) {
        if !self.events.is_empty() {
            self.writer.hooks.run(Moment::Rollback, &self.events);
        }
    }
}
