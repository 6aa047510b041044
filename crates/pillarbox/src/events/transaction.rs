//! The outbox transaction: buffers events and inserts them right before its commit.

use std::ops::{Deref, DerefMut};

use super::buffer::Gathered;
use super::{WriteError, Writer};
use crate::model::{Event, EventId, IntoEvents, NewRow, Written};
use crate::port::{
    Begin, Cancel, CommitError, JoinChange, JoinChanged, Settle, Settled, Store, StoreError, StoreFuture,
    WriteOn,
};

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

    /// The driver's connection, to run statements in this transaction.
    pub fn conn(&mut self) -> &mut S::Conn {
        S::conn(self)
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

    /// Inserts the buffered events and messages now, so that this transaction can read their rows.
    ///
    /// Flushed events do not take the hot path: the reader reads them from the store after the commit.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        let mut rows = self.writer.place_unreserved(&self.gathered.waiting_events());
        rows.extend(self.gathered.queued_rows());
        let Some(tx) = self.tx.as_mut().filter(|_| !rows.is_empty()) else {
            return Ok(());
        };
        WriteOn::<S::Tx>::insert(&*self.writer.store, tx, &rows).await?;
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
            cancelled.extend(WriteOn::<S::Tx>::cancel_on(&*self.writer.store, tx, request).await?);
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
        let enqueued = self.gathered.has_messages();
        // COMMIT can report success for a transaction that an earlier error aborted. If events or callbacks
        // depend on the outcome, `commit_with` detects this by its insert, which runs even without rows.
        let (reservation, result) = if self.gathered.is_empty() {
            (None, self.writer.store.commit(tx).await.map(|()| Vec::new()))
        } else {
            let (mut rows, reservation) = match events.as_slice() {
                [] => (Vec::new(), None),
                events => self.writer.place(events),
            };
            rows.extend(self.gathered.queued_rows());
            let (gathered, hooks) = (&mut self.gathered, &self.writer.hooks);
            let inserted = || gathered.inserted(hooks);
            (reservation, self.writer.store.commit_with(tx, &rows, inserted).await)
        };
        match result {
            Ok(written) => {
                // The rows of messages come after those of events.
                self.writer.committed(&events, &written[..written.len().min(events.len())], reservation);
                if flushed {
                    self.writer.wake();
                }
                if enqueued {
                    self.writer.wake_workers();
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

impl<S: Begin + Store> Transaction<S> {
    /// Checks one message of the queue, or an array, vector or iterator of messages, and buffers them. The event type
    /// is the topic.
    ///
    /// They are inserted with the events before the commit, and workers look for them right after it; those of this
    /// process do if their queue is [`Outbox::queue`](super::Outbox::queue), or the one that began the transaction.
    /// Returns the ids as [`write`](Self::write) does. No writer hook sees messages.
    pub fn enqueue<M, E: IntoEvents<M>>(&mut self, messages: E) -> Result<E::Ids, WriteError> {
        let messages = self.writer.check(messages)?;
        let ids = Writer::<S>::ids(&messages);
        self.gathered.messages.extend(messages);
        Ok(E::ids(ids))
    }
}

/// Lets calls on a driver's transaction, such as those of the queue, take a transaction of the outbox.
impl<S: Begin> WriteOn<Transaction<S>> for S {
    fn insert<'a>(&'a self, tx: &'a mut Transaction<S>, rows: &'a [NewRow]) -> StoreFuture<'a, Vec<Written>> {
        WriteOn::<S::Tx>::insert(self, tx, rows)
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut Transaction<S>, request: Cancel) -> StoreFuture<'a, Vec<EventId>> {
        WriteOn::<S::Tx>::cancel_on(self, tx, request)
    }

    fn settle_on<'a>(&'a self, tx: &'a mut Transaction<S>, request: Settle) -> StoreFuture<'a, Settled> {
        WriteOn::<S::Tx>::settle_on(self, tx, request)
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut Transaction<S>,
        request: JoinChange,
    ) -> StoreFuture<'a, JoinChanged> {
        WriteOn::<S::Tx>::change_join_on(self, tx, request)
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
