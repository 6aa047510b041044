//! The outbox: a writer and everything that delivers, as one thing that is closed once.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::builder::{Composition, OutboxBuilder};
use super::{BlockingTransaction, DeadEvents, Purger, Receipt, ScopeError, Transaction, WriteError, Writer};
use crate::engine::Engine;
use crate::model::{EventId, IntoEvent};
use crate::port::{
    Begin, BlockingWriteOn, Cancel, Insert, Store, StoreError, Table, Transact, TransactError, WriteOn,
    WriteSql,
};

/// What an outbox owns beside its writer.
pub(super) struct Parts {
    pub(super) engine: Option<Engine>,
    pub(super) purger: Option<Purger>,
}

/// An outbox. Cheap to clone; close it when the service stops.
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
    /// One process on this store: committed events go straight to their listener; the reader is the fallback.
    pub fn single_node(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::SingleNode, store)
    }

    /// Several processes on this store, each with its share; set a lease.
    pub fn multi_node(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::MultiNode, store)
    }

    /// Events of one group are delivered one after another, whatever fails, by any number of processes.
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
    /// Only writes; a relay or a change-data consumer delivers.
    pub fn writer_only(store: S) -> OutboxBuilder<S> {
        OutboxBuilder::new(Composition::WriterOnly, Arc::new(store), None)
    }

    pub(super) fn new(writer: Writer<S>, parts: Parts) -> Self {
        Self { writer, parts: Arc::new(Mutex::new(parts)) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        self.writer.store()
    }

    /// The writer.
    #[must_use]
    pub fn writer(&self) -> &Writer<S> {
        &self.writer
    }

    /// The dead events; `by` is who the audit names.
    #[must_use]
    pub fn dead(&self, by: impl Into<String>) -> DeadEvents {
        DeadEvents::new(Arc::clone(self.store()) as Arc<dyn Table>, by)
    }

    /// Takes pending events back; the ids that were still pending. One that is being delivered may still arrive.
    pub async fn cancel(&self, ids: &[EventId], by: impl Into<String>) -> Result<Vec<EventId>, StoreError> {
        self.store().admin().cancel(Cancel { ids: ids.to_vec(), by: by.into(), now: None }).await
    }

    /// Writes on a transaction the caller already has. Tell the receipt when it has committed.
    pub async fn write_on<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &mut Tx,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: WriteOn<Tx>,
    {
        self.writer.write_on(tx, events).await
    }

    /// Writes on a transaction of a blocking driver that the caller already has.
    pub fn write_on_blocking<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &Tx,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: BlockingWriteOn<Tx>,
    {
        self.writer.write_on_blocking(tx, events)
    }

    /// The statement that writes the events, for the caller to run with any driver, in a transaction of its own. Tell the
    /// receipt when that has committed. None where there is nothing to write.
    pub fn insert_sql<E: IntoEvent>(
        &self,
        events: impl IntoIterator<Item = E>,
    ) -> Result<(Option<Insert>, Receipt<S>), WriteError>
    where
        S: WriteSql,
    {
        self.writer.insert_sql(events)
    }

    /// Stops: purge, then reading, then delivery, which drains to its deadline. Harmless when repeated.
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
    /// Opens a transaction: the driver's own, that also takes events.
    pub async fn begin(&self) -> Result<Transaction<S>, StoreError> {
        self.writer.begin().await
    }

    /// Runs a future with a transaction as its context: commits if it succeeds, rolls back if it fails.
    pub async fn scope<R, E>(&self, body: impl Future<Output = Result<R, E>>) -> Result<R, ScopeError<E>> {
        self.writer.scope(body).await
    }
}

impl<S: Transact> Outbox<S> {
    /// Runs a closure in a transaction on the store's writer, inserts its events, commits; listeners run now.
    pub fn transaction<R, E, F>(&self, body: F) -> impl Future<Output = Result<R, TransactError<E>>> + Send
    where
        F: FnOnce(&mut BlockingTransaction<'_, S>) -> Result<R, E> + Send + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        self.writer.transaction(body)
    }
}
