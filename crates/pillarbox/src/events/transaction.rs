//! Our transaction: buffers events and inserts them all right before its commit.

use std::ops::{Deref, DerefMut};

use super::buffer::Gathered;
use super::{WriteError, Writer};
use crate::model::{Event, EventId, IntoEvent};
use crate::port::{Begin, Cancel, CommitError, StoreError};

/// A transaction of the driver that also takes events. Dropped unfinished, it is rolled back.
pub struct Transaction<S: Begin> {
    writer: Writer<S>,
    tx: Option<S::Tx>,
    gathered: Gathered,
}

impl<S: Begin> Transaction<S> {
    pub(super) fn new(writer: Writer<S>, tx: S::Tx) -> Self {
        Self { writer, tx: Some(tx), gathered: Gathered::default() }
    }

    /// Checks an event and buffers it. Its id; none if a hook suppressed it.
    pub fn write(&mut self, event: impl IntoEvent) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all([event])?.pop())
    }

    /// Checks events and buffers them as one batch. Their ids in order; none if a hook suppressed them.
    pub fn write_all<E: IntoEvent>(
        &mut self,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Vec<EventId>, WriteError> {
        let events = self.writer.prepare(events)?;
        let ids = Writer::<S>::ids(&events);
        if !events.is_empty() {
            self.gathered.waiting.push(events);
        }
        Ok(ids)
    }

    /// Inserts what is buffered now, for those who must read their rows. Such events are looked up before delivery.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        let events = self.gathered.waiting_events();
        let Some(tx) = self.tx.as_mut().filter(|_| !events.is_empty()) else {
            return Ok(());
        };
        self.writer.store.insert(tx, &self.writer.place_unreserved(&events)).await?;
        self.gathered.inserted(&self.writer.hooks);
        Ok(())
    }

    /// Takes pending events back, if and when this commits; the ids that were still pending.
    ///
    /// Events written on this transaction can be taken back too. One that is being delivered may still arrive.
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

    /// Runs after a successful commit.
    pub fn after_commit(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.gathered.after_commit.push(Box::new(callback));
    }

    /// Runs after a rollback, or when the transaction is dropped unfinished.
    pub fn after_rollback(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.gathered.after_rollback.push(Box::new(callback));
    }

    /// Inserts all events in one statement, as the last before COMMIT, and commits; listeners run now.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        let Some(tx) = self.tx.take() else {
            return Ok(());
        };
        let events = self.gathered.waiting_events();
        let flushed = !self.gathered.flushed.is_empty();
        // One that an earlier error has aborted may seem to commit: where something depends on it, the insert is asked,
        // if need be without rows.
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

    /// Rolls back: no row is left.
    pub async fn rollback(mut self) -> Result<(), WriteError> {
        if let Some(tx) = self.tx.take() {
            self.writer.store.rollback(tx).await?;
        }
        self.gathered.rolled_back(&self.writer.hooks);
        Ok(())
    }

    /// The events written so far.
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
