//! A store whose transactions begin on a pool of tokio-postgres clients.

use std::pin::Pin;

use deadpool_postgres::{Pool, PoolError};
use jiff::Timestamp;
use pillarbox::model::{EventId, NewRow, NodeId, Row, Written};
use pillarbox::port::{
    Admin, Begin, Cancel, Claim, CommitError, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, Insert,
    ItemStore, Items, JoinChange, JoinChanged, Joins, Membership, Native, Promote, Promoted, Reap, Recover,
    Register, Settle, Settled, Store, StoreError, StoreFuture, Table, Take, Taken, Wakeups, Write, WriteOn,
    WriteSql,
};
use pillarbox_store_kit::{Refused, ServerFailure as _};
use tokio::time::timeout_at;

use super::PipelinedTransaction;
use super::commit::Unconfirmed;
use crate::error::DriverError;
use crate::kind::Kind;
use crate::store::PostgresTable;

/// A [`PostgresTable`] that begins transactions with tokio-postgres, and sends the events' INSERT and COMMIT
/// in one pipeline: writing events costs a transaction no round trip.
///
/// The pool belongs to the application and connects to the same database. All other work uses the connections
/// of the inner store. The inner store's setting of [`Pooler`](crate::Pooler) applies to both.
///
/// ```no_run
/// use pillarbox::{Event, Outbox};
/// use pillarbox_postgres::deadpool_postgres::{Manager, Pool};
/// use pillarbox_postgres::tokio_postgres::NoTls;
/// use pillarbox_postgres::{PipelinedStore, PostgresStore};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgres://shop@localhost/shop";
/// let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(16).build()?;
/// let store = PipelinedStore::new(PostgresStore::open_url(url)?, pool);
/// let outbox = Outbox::single_node(store)
///     .listener("OrderPlaced", |event: Event| async move { Ok(drop(event)) })
///     .start()
///     .await?;
/// let mut tx = outbox.begin().await?;
/// let order = tx.prepare_cached("INSERT INTO orders (id) VALUES ($1)").await?;
/// tx.execute(&order, &[&1_i64]).await?;
/// tx.write(Event::text("OrderPlaced", r#"{"order":1}"#))?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PipelinedTable<K> {
    store: PostgresTable<K>,
    pool: Pool,
}

/// A [`PostgresStore`](crate::PostgresStore) that begins transactions with tokio-postgres.
pub type PipelinedStore = PipelinedTable<Native>;

/// A [`PostgresItemStore`](crate::PostgresItemStore) that begins transactions with tokio-postgres.
pub type PipelinedItemStore = PipelinedTable<Items>;

impl<K> PipelinedTable<K> {
    /// Wraps a store, so that its transactions begin on this pool.
    #[must_use]
    pub fn new(store: PostgresTable<K>, pool: Pool) -> Self {
        Self { store, pool }
    }

    /// The inner store, which does everything except begin transactions.
    #[must_use]
    pub fn inner(&self) -> &PostgresTable<K> {
        &self.store
    }

    /// The pool on which transactions begin.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Closes the inner store. Waits for calls in flight, including rollbacks of dropped transactions. Both
    /// pools stay open.
    pub async fn close(&self) {
        self.store.close().await;
    }

    async fn open(&self) -> Result<PipelinedTransaction, DriverError> {
        let prepared = self.store.prepared().await;
        let pools = &self.store.shared().pools;
        let object = timeout_at(pools.deadline(), self.pool.get()).await;
        let object = object.map_err(|_| Refused::late("the pool"))?.map_err(no_connection)?;
        PipelinedTransaction::begin(object, pools, prepared).await
    }
}

fn no_connection(error: PoolError) -> DriverError {
    let (kind, detail) = match error {
        PoolError::Backend(error) => return error.into(),
        PoolError::Timeout(_) => {
            (ErrorKind::Timeout, "no connection of the pool became free; make the pool larger")
        }
        PoolError::Closed => (ErrorKind::Unavailable, "the pool is closed"),
        PoolError::NoRuntimeSpecified => {
            (ErrorKind::InvalidInput, "the pool has timeouts but no runtime is configured")
        }
        PoolError::PostCreateHook(_) => (ErrorKind::Unavailable, "a hook of the pool refused the connection"),
    };
    DriverError::Refused(kind, detail.to_owned())
}

impl<K: Kind> Begin for PipelinedTable<K> {
    type Tx = PipelinedTransaction;
    type Conn = PipelinedTransaction;

    fn conn(tx: &mut PipelinedTransaction) -> &mut PipelinedTransaction {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, PipelinedTransaction> {
        Box::pin(async move {
            self.open().await.map_err(|failure| failure.into_store_error("begin", self.store.name()))
        })
    }

    async fn commit(&self, tx: PipelinedTransaction) -> Result<(), CommitError> {
        self.commit_with(tx, &[], || ()).await.map(drop)
    }

    async fn commit_with(
        &self,
        tx: PipelinedTransaction,
        rows: &[NewRow],
        inserted: impl FnOnce() + Send,
    ) -> Result<Vec<Written>, CommitError> {
        K::admit(&self.store, rows).map_err(CommitError::Refused)?;
        let said = |failure: DriverError| failure.into_store_error("commit", self.store.name());
        tx.commit(&self.store.shared().sql, rows, inserted).await.map_err(|ended| match ended {
            Unconfirmed::Refused(failure) => CommitError::Refused(said(failure)),
            Unconfirmed::Unknown(failure) => CommitError::Unknown(said(failure)),
        })
    }

    fn rollback(&self, tx: PipelinedTransaction) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let ended = tx.rollback().await;
            ended.map_err(|failure| failure.into_store_error("roll back", self.store.name()))
        })
    }
}

/// Writes in every kind of transaction that the inner store supports.
impl<Tx: ?Sized, K: Kind> WriteOn<Tx> for PipelinedTable<K>
where
    PostgresTable<K>: WriteOn<Tx>,
{
    fn insert<'a>(&'a self, tx: &'a mut Tx, rows: &'a [NewRow]) -> StoreFuture<'a, Vec<Written>> {
        self.store.insert(tx, rows)
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut Tx, request: Cancel) -> StoreFuture<'a, Vec<EventId>> {
        self.store.cancel_on(tx, request)
    }

    fn settle_on<'a>(&'a self, tx: &'a mut Tx, request: Settle) -> StoreFuture<'a, Settled> {
        self.store.settle_on(tx, request)
    }

    fn change_join_on<'a>(&'a self, tx: &'a mut Tx, request: JoinChange) -> StoreFuture<'a, JoinChanged> {
        self.store.change_join_on(tx, request)
    }
}

impl<K: Kind> WriteSql for PipelinedTable<K> {
    fn insert_sql(&self, rows: &[NewRow]) -> Result<Insert, StoreError> {
        self.store.insert_sql(rows)
    }
}

impl<K: Kind> Table for PipelinedTable<K> {
    fn facts(&self) -> &Facts {
        self.store.facts()
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.store.now()
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.store.write(request)
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        self.store.settle(request)
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        self.store.register(request)
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        self.store.heartbeat(request)
    }

    fn publish(&self, node: NodeId, state: String) -> StoreFuture<'_, ()> {
        self.store.publish(node, state)
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.store.leave(node)
    }

    fn admin(&self) -> &dyn Admin {
        self.store.admin()
    }

    fn notify(&self) {
        self.store.notify();
    }

    fn wakeups(&self) -> Option<Wakeups> {
        self.store.wakeups()
    }

    fn departures(&self) -> Option<Wakeups> {
        self.store.departures()
    }

    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.store.shut_down()
    }
}

impl Store for PipelinedStore {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.store.fetch(request)
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.store.claim(request)
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.store.due_topics(request)
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.store.reap(request)
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.store.promote(request)
    }

    fn joins(&self) -> Option<&dyn Joins> {
        self.store.joins()
    }
}

impl ItemStore for PipelinedItemStore {
    fn take(&self, request: Take) -> StoreFuture<'_, Taken> {
        self.store.take(request)
    }

    fn recover(&self, request: Recover) -> StoreFuture<'_, u64> {
        self.store.recover(request)
    }
}
