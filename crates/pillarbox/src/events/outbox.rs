//! The outbox: a writer, the engine that delivers its events and the purger, with one `close`.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::builder::{Composition, OutboxBuilder};
use super::{BlockingTransaction, DeadEvents, Purger, Receipt, ScopeError, Transaction, WriteError, Writer};
use crate::engine::Engine;
use crate::model::{EventId, IntoEvents};
use crate::port::{
    Begin, BlockingWriteOn, Cancel, Insert, Store, StoreError, Table, Transact, TransactError, WriteOn,
    WriteSql,
};

/// The background parts of an outbox, which `close` stops.
pub(super) struct Parts {
    pub(super) engine: Option<Engine>,
    pub(super) purger: Option<Purger>,
}

/// A transactional outbox: writes events and, unless it is writer-only, delivers them to listeners.
///
/// Cheap to clone; all clones share one engine. Call [`Outbox::close`] when the service stops.
pub struct Outbox<S: Table> {
    writer: Writer<S>,
    parts: Arc<Mutex<Parts>>,
}

impl<S: Table> Clone for Outbox<S> {
    fn clone(&self) -> Self {
        Self { writer: self.writer.clone(), parts: Arc::clone(&self.parts) }
    }
}

impl<S: Store> Outbox<S> {
    /// An outbox for one process on this store.
    ///
    /// Committed events go straight to their listener; the reader is the fallback.
    pub fn single_node(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::SingleNode, store)
    }

    /// An outbox for several processes on this store, each of which delivers a share of the slots.
    ///
    /// [`OutboxBuilder::lease`] is mandatory.
    pub fn multi_node(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::MultiNode, store)
    }

    /// An outbox that delivers the events of each group one after another, even across failures.
    ///
    /// Any number of processes can share the store.
    pub fn ordered(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::Ordered, store)
    }

    fn delivering(composition: Composition, store: S) -> OutboxBuilder<S> {
        let store = Arc::new(store);
        let delivers = Arc::clone(&store) as Arc<dyn Store>;
        OutboxBuilder::new(composition, store, Some(delivers))
    }
}

impl<S: Table> Outbox<S> {
    /// An outbox that only writes; a relay or a change-data-capture consumer delivers the events.
    pub fn writer_only(store: S) -> OutboxBuilder<S> {
        OutboxBuilder::new(Composition::WriterOnly, Arc::new(store), None)
    }

    pub(super) fn new(writer: Writer<S>, parts: Parts) -> Self {
        Self { writer, parts: Arc::new(Mutex::new(parts)) }
    }

    /// The store this outbox writes to.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        self.writer.store()
    }

    /// The writer, for code that only writes events.
    #[must_use]
    pub fn writer(&self) -> &Writer<S> {
        &self.writer
    }

    /// Access to the dead events; the audit log records `by` as the actor.
    #[must_use]
    pub fn dead(&self, by: impl Into<String>) -> DeadEvents {
        DeadEvents::new(Arc::clone(self.store()) as Arc<dyn Table>, by)
    }

    /// Cancels pending events and returns the ids of the cancelled ones.
    ///
    /// An event whose delivery is under way may still arrive. The audit log records `by` as the actor.
    pub async fn cancel(&self, ids: &[EventId], by: impl Into<String>) -> Result<Vec<EventId>, StoreError> {
        self.store().admin().cancel(Cancel { ids: ids.to_vec(), by: by.into(), now: None }).await
    }

    /// Writes events on a transaction that the caller opened. Call [`Receipt::committed`] after its commit.
    pub async fn write_on<M, Tx: ?Sized, E: IntoEvents<M>>(
        &self,
        tx: &mut Tx,
        events: E,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: WriteOn<Tx>,
    {
        self.writer.write_on(tx, events).await
    }

    /// Writes events on a blocking driver's transaction that the caller opened.
    /// Call [`Receipt::committed`] after its commit.
    pub fn write_on_blocking<M, Tx: ?Sized, E: IntoEvents<M>>(
        &self,
        tx: &Tx,
        events: E,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: BlockingWriteOn<Tx>,
    {
        self.writer.write_on_blocking(tx, events)
    }

    /// Builds the INSERT statement for the events, to be run with any driver in the caller's transaction.
    ///
    /// Call [`Receipt::committed`] after its commit. The statement is `None` if there is nothing to write.
    pub fn insert_sql<M, E: IntoEvents<M>>(
        &self,
        events: E,
    ) -> Result<(Option<Insert>, Receipt<S>), WriteError>
    where
        S: WriteSql,
    {
        self.writer.insert_sql(events)
    }

    /// Stops the purge, then reading, then delivery, which drains for at most the drain timeout. Idempotent.
    pub async fn close(&self) {
        let mut parts = self.parts.lock().await;
        if let Some(purger) = &parts.purger {
            purger.close().await;
        }
        if let Some(engine) = &mut parts.engine {
            engine.close().await;
        }
    }
}

impl<S: Begin> Outbox<S> {
    /// Opens a transaction of the driver that also accepts events.
    pub async fn begin(&self) -> Result<Transaction<S>, StoreError> {
        self.writer.begin().await
    }

    /// Runs a future with a transaction as its context: commits if it returns `Ok`, rolls
    /// back if it returns `Err`.
    pub async fn scope<R, E>(&self, body: impl Future<Output = Result<R, E>>) -> Result<R, ScopeError<E>> {
        self.writer.scope(body).await
    }
}

impl<S: Transact> Outbox<S> {
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
        self.writer.transaction(body)
    }
}
