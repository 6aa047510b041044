//! The outbox transaction for blocking drivers: a closure that runs on the store's writer thread.

use std::future::Future;
use std::ops::Deref;

use super::buffer::Gathered;
use super::{WriteError, Writer};
use crate::engine::Reservation;
use crate::model::{Event, EventId, IntoEvents, Written};
use crate::port::{Body, Cancel, CommitError, Store, StoreError, Transact, TransactError};

/// A transaction of a blocking driver that also accepts events; passed
/// to the closure of [`Writer::transaction`].
pub struct BlockingTransaction<'a, S: Transact> {
    writer: &'a Writer<S>,
    tx: &'a S::Tx,
    gathered: Gathered,
}

impl<S: Transact> BlockingTransaction<'_, S> {
    /// The driver's connection, to run statements in this transaction.
    #[must_use]
    pub fn conn(&self) -> &S::Tx {
        self.tx
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

    /// Cancels pending events when this transaction commits. Returns the ids of the cancelled events.
    ///
    /// Events written on this transaction can be cancelled too. An event whose delivery is
    /// under way may still arrive.
    pub fn cancel(&mut self, ids: &[EventId], by: impl Into<String>) -> Result<Vec<EventId>, StoreError> {
        let (mut cancelled, left) = self.gathered.take_back(ids);
        if !left.is_empty() {
            let request = Cancel { ids: left, by: by.into(), now: None };
            cancelled.extend(self.writer.store.cancel_blocking(self.tx, &request)?);
        }
        Ok(cancelled)
    }

    /// Registers a callback that runs after a successful commit. It runs on the store's
    /// writer thread: keep it short.
    pub fn after_commit(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.gathered.after_commit.push(Box::new(callback));
    }

    /// Registers a callback that runs after a rollback. If the outcome of the commit is unknown, neither kind
    /// of callback runs.
    pub fn after_rollback(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.gathered.after_rollback.push(Box::new(callback));
    }
}

impl<S: Transact + Store> BlockingTransaction<'_, S> {
    /// Checks one message of the queue, or an array, vector or iterator of messages, and buffers them. The event type
    /// is the topic.
    ///
    /// They are inserted with the events before the commit, and workers look for them right after it; those of this
    /// process do if their queue is [`Outbox::queue`](super::Outbox::queue). Returns the ids as
    /// [`write`](Self::write) does. No writer hook sees messages.
    pub fn enqueue<M, E: IntoEvents<M>>(&mut self, messages: E) -> Result<E::Ids, WriteError> {
        let messages = self.writer.check(messages)?;
        let ids = Writer::<S>::ids(&messages);
        self.gathered.messages.extend(messages);
        Ok(E::ids(ids))
    }
}

impl<S: Transact> Deref for BlockingTransaction<'_, S> {
    type Target = S::Tx;

    fn deref(&self) -> &S::Tx {
        self.tx
    }
}

/// One transaction on the writer thread: runs the user's closure, then the insert; after
/// the commit, the hot path.
struct Run<S: Transact, F> {
    writer: Writer<S>,
    body: Option<F>,
    gathered: Gathered,
    events: Vec<Event>,
    written: Vec<Written>,
    reservation: Option<Reservation>,
}

impl<S, F, R, E> Body<S::Tx> for Run<S, F>
where
    S: Transact,
    F: FnOnce(&mut BlockingTransaction<'_, S>) -> Result<R, E> + Send + 'static,
    R: Send + 'static,
    E: Send + 'static,
{
    type Output = R;
    type Error = E;

    fn run(&mut self, tx: &S::Tx) -> Result<R, TransactError<E>> {
        let Some(body) = self.body.take() else {
            return Err(TransactError::Panicked);
        };
        let gathered = std::mem::take(&mut self.gathered);
        let mut scope = BlockingTransaction { writer: &self.writer, tx, gathered };
        let result = body(&mut scope);
        self.gathered = scope.gathered;
        let output = result.map_err(TransactError::Body)?;
        self.events = self.gathered.waiting_events();
        let mut rows = Vec::new();
        if !self.events.is_empty() {
            (rows, self.reservation) = self.writer.place(&self.events);
        }
        rows.extend(self.gathered.queued_rows());
        if !rows.is_empty() {
            let written = self.writer.store.insert_blocking(tx, &rows);
            self.written = written.map_err(|error| TransactError::Commit(CommitError::Refused(error)))?;
            // The rows of messages come after those of events.
            self.written.truncate(self.events.len());
        }
        self.gathered.inserted(&self.writer.hooks);
        Ok(output)
    }

    fn committed(&mut self) {
        let reservation = self.reservation.take();
        if !self.events.is_empty() {
            self.writer.committed(&self.events, &self.written, reservation);
        }
        if self.gathered.has_messages() {
            self.writer.wake_workers();
        }
        self.gathered.committed(&self.writer.hooks);
    }

    fn failed(&mut self) {
        self.reservation = None;
        self.gathered.rolled_back(&self.writer.hooks);
    }

    fn unknown(&mut self) {
        // Without the reservation the reader looks for the rows, in case they were committed.
        self.reservation = None;
        self.gathered.unknown();
    }
}

impl<S: Transact> Writer<S> {
    /// Runs a closure in a transaction on the store's writer thread, inserts its events and commits.
    ///
    /// Delivery starts right after the commit. A transaction that has begun runs to its end even if the
    /// returned future is dropped.
    pub fn transaction<R, E, F>(&self, body: F) -> impl Future<Output = Result<R, TransactError<E>>> + Send
    where
        F: FnOnce(&mut BlockingTransaction<'_, S>) -> Result<R, E> + Send + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        let run = Run {
            writer: self.clone(),
            body: Some(body),
            gathered: Gathered::default(),
            events: Vec::new(),
            written: Vec::new(),
            reservation: None,
        };
        self.store.transact(run)
    }
}
