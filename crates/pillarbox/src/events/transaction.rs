//! The outbox transaction: buffers events and inserts them right before its commit.

use std::ops::{Deref, DerefMut};

use super::buffer::Gathered;
use super::{WriteError, Writer};
use crate::model::{Event, EventId, IntoEvents};
use crate::port::{Begin, Cancel, CommitError, StoreError};

/// A transaction of the driver that also accepts events. Dropping it without a commit rolls it back.
pub struct Transaction<S: Begin> {
    writer: Writer<S>,
    tx: Option<S::Tx>,
    gathered: Gathered,
}

impl<S: Begin> Transaction<S> {
    pub(super) fn new(writer: Writer<S>, tx: S::Tx) -> Self {
        Self { writer, tx: Some(tx), gathered: Gathered::default() }
    }

    /// Checks one event, or an array, vector or iterator of events, and buffers them as one batch.
    ///
    /// Returns the id of one event (`None` if a hook suppressed it), or the ids of several in their order (none if a
    /// hook suppressed the batch).
    pub fn write<M, E: IntoEvents<M>>(&mut self, events: E) -> Result<E::Ids, WriteError> {
        let events = self.writer.prepare(events)?;
        let ids = Writer::<S>::ids(&events);
        if !events.is_empty() {
            self.gathered.waiting.push(events);
        }
        Ok(E::ids(ids))
    }

    /// Inserts the buffered events now, so that this transaction can read their rows.
    ///
    /// Flushed events do not take the hot path: the reader reads them from the store after the commit.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        let events = self.gathered.waiting_events();
        let Some(tx) = self.tx.as_mut().filter(|_| !events.is_empty()) else {
            return Ok(());
        };
        self.writer.store.insert(tx, &self.writer.place_unreserved(&events)).await?;
        self.gathered.inserted(&self.writer.hooks);
        Ok(())
    }

    /// Cancels pending events when this transaction commits. Returns the ids of the cancelled events.
    ///
    /// Events written on this transaction can be cancelled too. An event whose delivery is
    /// under way may still arrive.
    pub async fn cancel(
        &mut self,
        ids: &[EventId],
        by: impl Into<String>,
    ) -> Result<Vec<EventId>, StoreError> {
        let (mut cancelled, left) = self.gathered.take_back(ids);
        if let Some(tx) = self.tx.as_mut().filter(|_| !left.is_empty()) {
            let request = Cancel { ids: left, by: by.into(), now: None };
            cancelled.extend(self.writer.store.cancel_on(tx, request).await?);
        }
        Ok(cancelled)
    }

    /// Registers a callback that runs after a successful commit.
    pub fn after_commit(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.gathered.after_commit.push(Box::new(callback));
    }

    /// Registers a callback that runs after a rollback, or when the transaction is dropped.
    pub fn after_rollback(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.gathered.after_rollback.push(Box::new(callback));
    }

    /// Inserts all buffered events as the last statement before COMMIT, and
    /// commits. Delivery starts right after.
    ///
    /// On [`CommitError::Unknown`] no callback runs, because the transaction may or may not have committed.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        let Some(tx) = self.tx.take() else {
            return Ok(());
        };
        let events = self.gathered.waiting_events();
        let flushed = !self.gathered.flushed.is_empty();
        // COMMIT can report success for a transaction that an earlier error aborted. If events or callbacks
        // depend on the outcome, `commit_with` detects this by its insert, which runs even without rows.
        let (reservation, result) = if self.gathered.is_empty() {
            (None, self.writer.store.commit(tx).await.map(|()| Vec::new()))
        } else {
            let (rows, reservation) = match events.as_slice() {
                [] => (Vec::new(), None),
                events => self.writer.place(events),
            };
            let (gathered, hooks) = (&mut self.gathered, &self.writer.hooks);
            let inserted = || gathered.inserted(hooks);
            (reservation, self.writer.store.commit_with(tx, &rows, inserted).await)
        };
        match result {
            Ok(written) => {
                self.writer.committed(&events, &written, reservation);
                if flushed {
                    self.writer.wake();
                }
                self.gathered.committed(&self.writer.hooks);
                Ok(())
            }
            Err(error @ CommitError::Refused(_)) => {
                self.gathered.rolled_back(&self.writer.hooks);
                Err(error)
            }
            Err(error @ CommitError::Unknown(_)) => {
                self.gathered.unknown();
                Err(error)
            }
        }
    }

    /// Rolls back, so that no event is written, and then runs the rollback callbacks.
    ///
    /// They also run if the database does not answer: a transaction without a COMMIT is never committed.
    pub async fn rollback(mut self) -> Result<(), WriteError> {
        let result = match self.tx.take() {
            Some(tx) => self.writer.store.rollback(tx).await,
            None => Ok(()),
        };
        self.gathered.rolled_back(&self.writer.hooks);
        Ok(result?)
    }

    /// The events written so far, flushed or buffered.
    pub fn written(&self) -> impl Iterator<Item = &Event> {
        self.gathered.flushed.iter().chain(&self.gathered.waiting).flatten()
    }
}

impl<S: Begin> Drop for Transaction<S> {
    fn drop(&mut self) {
        if self.tx.take().is_some() {
            self.gathered.rolled_back(&self.writer.hooks);
        }
    }
}

impl<S: Begin> Deref for Transaction<S> {
    type Target = S::Tx;

    #[expect(
        clippy::expect_used,
        reason = "commit and rollback consume the transaction, so it is there until then"
    )]
    fn deref(&self) -> &S::Tx {
        self.tx.as_ref().expect("a transaction that is still open")
    }
}

impl<S: Begin> DerefMut for Transaction<S> {
    #[expect(
        clippy::expect_used,
        reason = "commit and rollback consume the transaction, so it is there until then"
    )]
    fn deref_mut(&mut self) -> &mut S::Tx {
        self.tx.as_mut().expect("a transaction that is still open")
    }
}
