//! The buffer of a transaction: batches of events, messages, and callbacks for its end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::hook::{Hooks, Moment};
use crate::model::{Event, EventId, NewRow, Placement};

/// A callback that runs when a transaction has ended.
pub type Callback = Box<dyn FnOnce() + Send>;

/// The events, messages and callbacks of one transaction.
#[derive(Default)]
pub(super) struct Gathered {
    /// Batches that are not inserted yet, one for each write.
    pub(super) waiting: Vec<Vec<Event>>,
    /// Batches that are inserted, by a flush or by the commit.
    pub(super) flushed: Vec<Vec<Event>>,
    /// Messages of the queue that are not inserted yet.
    pub(super) messages: Vec<Event>,
    /// Whether messages are inserted.
    enqueued: bool,
    pub(super) after_commit: Vec<Callback>,
    pub(super) after_rollback: Vec<Callback>,
}

impl Gathered {
    pub(super) fn waiting_events(&self) -> Vec<Event> {
        self.waiting.iter().flatten().cloned().collect()
    }

    /// The rows of the messages that are not inserted yet.
    pub(super) fn queued_rows(&self) -> impl Iterator<Item = NewRow> {
        self.messages.iter().map(|event| NewRow { event: event.clone(), placement: Placement::Queue })
    }

    /// Whether there are messages of the queue, inserted or not.
    pub(super) fn has_messages(&self) -> bool {
        self.enqueued || !self.messages.is_empty()
    }

    /// Whether there are no rows and no callbacks, so that nothing depends on the transaction's outcome.
    pub(super) fn is_empty(&self) -> bool {
        let rows = self.waiting.is_empty() && self.flushed.is_empty() && !self.has_messages();
        rows && self.after_commit.is_empty() && self.after_rollback.is_empty()
    }

    /// Drops events and messages that are not inserted yet. Returns the dropped ids and the remaining ids.
    pub(super) fn take_back(&mut self, ids: &[EventId]) -> (Vec<EventId>, Vec<EventId>) {
        let own = || self.waiting.iter().flatten().chain(&self.messages);
        let waits = |id: &&EventId| own().any(|event| event.id() == *id);
        let (dropped, others): (Vec<_>, Vec<_>) = ids.iter().partition(waits);
        for batch in &mut self.waiting {
            batch.retain(|event| !dropped.contains(&event.id()));
        }
        self.waiting.retain(|batch| !batch.is_empty());
        self.messages.retain(|message| !dropped.contains(&message.id()));
        (dropped.into_iter().cloned().collect(), others.into_iter().cloned().collect())
    }

    /// Runs the after-write hooks for the batches that were just inserted.
    pub(super) fn inserted(&mut self, hooks: &Hooks) {
        for batch in &self.waiting {
            hooks.run(Moment::Write, batch);
        }
        self.flushed.append(&mut self.waiting);
        self.enqueued |= !self.messages.is_empty();
        self.messages.clear();
    }

    pub(super) fn committed(&mut self, hooks: &Hooks) {
        self.end(hooks, Moment::Commit);
    }

    pub(super) fn rolled_back(&mut self, hooks: &Hooks) {
        self.end(hooks, Moment::Rollback);
    }

    /// Drops all callbacks unrun, because the outcome of the commit is unknown.
    pub(super) fn unknown(&mut self) {
        *self = Self::default();
    }

    fn end(&mut self, hooks: &Hooks, moment: Moment) {
        let gathered = std::mem::take(self);
        for batch in gathered.flushed.iter().chain(&gathered.waiting) {
            hooks.run(moment, batch);
        }
        let callbacks = match moment {
            Moment::Commit => gathered.after_commit,
            _ => gathered.after_rollback,
        };
        for callback in callbacks {
            if catch_unwind(AssertUnwindSafe(callback)).is_err() {
                tracing::warn!(?moment, "transaction callback panicked");
            }
        }
    }
}
