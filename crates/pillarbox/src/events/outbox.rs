//! The outbox: a writer, the engine that delivers its events and the purger, with one `close`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::builder::{Composition, OutboxBuilder};
use super::{
    BlockingTransaction, Current, DeadEvents, Purger, Receipt, ScopeError, TaskContext, Transaction,
    TransactionContext, WriteError, Writer,
};
use crate::engine::{Engine, EngineHealth, is_empty};
use crate::model::{EventId, IntoEvents};
use crate::port::{
    Begin, BlockingWriteOn, Cancel, Insert, Stats, Store, StoreError, Table, Transact, TransactError,
    WriteOn, WriteSql,
};
use crate::queue::Queue;

/// The first pause of [`Outbox::drained`] between two looks at the database.
const FIRST_LOOK: Duration = Duration::from_millis(10);

/// The longest pause, unless a look takes longer.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

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
    /// An outbox without order for a service of one process: what it commits goes straight to its listeners.
    ///
    /// A second process, such as during a rolling deploy, is no fault; each delivers what it wrote.
    pub fn single_node(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::SingleNode, store)
    }

    /// An outbox without order for a service of several processes: each delivers what it wrote, and its share of the
    /// rest.
    ///
    /// [`OutboxBuilder::lease`] is mandatory: it says how long the events of a process that died wait for another one.
    pub fn multi_node(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::MultiNode, store)
    }

    /// An outbox that delivers the events of each group one after another, even across failures.
    ///
    /// Any number of processes can share the store.
    pub fn ordered(store: S) -> OutboxBuilder<S> {
        Self::delivering(Composition::Ordered, store)
    }

    /// The queue in the same tables. Its workers look at once for messages that transactions of this outbox
    /// [enqueue](Transaction::enqueue).
    #[must_use]
    pub fn queue(&self) -> Queue<S> {
        Queue::beside(&self.writer)
    }

    fn delivering(composition: Composition, store: S) -> OutboxBuilder<S> {
        let store = Arc::new(store);
        let delivers = Arc::clone(&store) as Arc<dyn Store>;
        OutboxBuilder::new(composition, store, Some(delivers))
    }
}

impl<S: Table> Outbox<S> {
    /// An outbox that only writes: a relay, another service or a change-data-capture consumer delivers the events.
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

    /// Counts events and messages of the queue by status, and the age of the oldest one that is due.
    ///
    /// It reads the rows that were not purged yet, so call it now and then rather than for each request.
    pub async fn stats(&self) -> Result<Stats, StoreError> {
        self.store().admin().stats().await
    }

    /// The state of this process's deliveries, from memory; `None` if this outbox only writes.
    ///
    /// [`EngineHealth::member`] answers a readiness probe: false while this process can deliver nothing,
    /// because the database does not answer or the outbox is closed.
    #[must_use]
    pub fn health(&self) -> Option<EngineHealth> {
        self.writer.health()
    }

    /// Waits until no process has an event left to deliver.
    ///
    /// Events that wait for a retry or for their receiver count; delayed events that are not due, events of blocked
    /// and paused groups, dead events and messages of the queue do not. Asks the database again after 10 ms and then
    /// less often, down to once a second, and returns only errors that do not pass by themselves.
    pub async fn drained(&self) -> Result<(), StoreError> {
        let mut pause = FIRST_LOOK;
        loop {
            let began = Instant::now();
            match is_empty(&**self.store(), None).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "can't tell whether everything is delivered");
                }
                Err(error) => return Err(error),
            }
            // A look at a long backlog takes as much time as the pauses between two of them at most.
            sleep(pause.max(began.elapsed())).await;
            pause = (pause * 3 / 2).min(LONGEST_LOOK);
        }
    }

    /// Waits until this future ends, such as a signal or a server that stops on one, and closes the outbox.
    ///
    /// The outbox installs no signal handlers of its own.
    pub async fn run_until<F: IntoFuture>(&self, end: F) -> F::Output {
        let output = end.into_future().await;
        self.close().await;
        output
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

    /// The transaction of the scope that runs this code, locked until the guard is dropped.
    ///
    /// Fails immediately with [`WriteError::NoTransaction`] if there is none.
    pub async fn current(&self) -> Result<Current<S>, WriteError> {
        TaskContext.current().await
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
