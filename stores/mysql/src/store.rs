//! The store handle: implements the ports over connections that are reserved by purpose.

use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::model::{NodeId, Row, Seq, Written};
use pillarbox::port::{
    Admin, Change, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, ItemStore, Items, Joins,
    Membership, Native, Promote, Promoted, Reap, Recover, Register, Settle, Settled, Store, StoreError,
    StoreFuture, Table, Take, Taken, Wakeups, Write,
};
use pillarbox_store_kit::{Pools, Purpose, ServerFailure as _, call, constructors, handle};
use sqlx::mysql::MySqlPool;

use crate::config::{Claiming, MysqlStoreBuilder};
use crate::connection::{Connector, Session, Work};
use crate::dialect::Statements;
use crate::insert::insert_rows;
use crate::kind::Kind;
use crate::probe::{Locking, Probe};
use crate::sql::Sql;
use crate::{claim, fetch, flowcatalyst, membership, promote};

/// An outbox table in a MySQL or MariaDB database: native (`Native`) or a table of items (`Items`).
///
/// Clones share one set of connections, which close when the last clone is dropped.
pub struct MysqlTable<K>(pub(crate) Arc<Shared>, PhantomData<K>);

/// A store over Pillarbox's own tables (the native layout).
pub type MysqlStore = MysqlTable<Native>;

/// A store over a table that belongs to another program (the flowcatalyst layout).
pub type MysqlItemStore = MysqlTable<Items>;

/// The state that all clones share.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) pool: MySqlPool,
    pub(crate) statements: Arc<Statements>,
    pub(crate) pools: Arc<Pools<Connector>>,
    claiming: Claiming,
    probe: Probe,
}

/// The work of one call. It borrows its request because a call that loses a conflict runs again.
pub(crate) type Call<R, T> = for<'c> fn(&'c mut Session, &'c Sql, &'c R) -> Work<'c, T>;

/// Runs a call with the statements for the session's server.
fn in_dialect<'c, R, T>(
    session: &'c mut Session,
    statements: &'c Statements,
    (request, call): &'c (R, Call<R, T>),
) -> Work<'c, T> {
    let sql = statements.learn(session.server.dialect);
    call(session, sql, request)
}

constructors!(MysqlStore, MysqlStoreBuilder, MySqlPool, "mysql://USER@HOST/DATABASE");
handle!(MysqlTable);

impl<K> MysqlTable<K> {
    pub(crate) fn start(builder: MysqlStoreBuilder) -> Self
    where
        K: Kind,
    {
        let statements = Arc::new(builder.statements::<K>());
        let MysqlStoreBuilder { pool, settings, server, claiming } = builder;
        let options = (*pool.connect_options()).clone();
        let shared = Shared {
            facts: settings.facts("mysql", K::LAYOUT),
            pools: Pools::new(Connector::new(options, server.statement_timeout), &server),
            pool,
            statements,
            claiming,
            probe: Probe::default(),
        };
        Self(Arc::new(shared), PhantomData)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    /// The pool on which transactions begin.
    #[must_use]
    pub fn pool(&self) -> &MySqlPool {
        &self.0.pool
    }

    /// Waits for running calls, including calls whose caller has stopped waiting, then closes
    /// the store's own connections.
    ///
    /// The pool stays open.
    pub async fn close(&self) {
        self.0.pools.close().await;
    }
}

impl Shared {
    pub(crate) fn name(&self) -> &str {
        &self.facts.name
    }

    /// Runs a call on a connection for this purpose and names the operation in its error.
    fn on<R, T>(
        &self,
        purpose: Purpose,
        operation: &'static str,
        request: R,
        call: Call<R, T>,
    ) -> StoreFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(async move {
            let work = (request, call);
            let called = self.pools.call(purpose, Arc::clone(&self.statements), work, in_dialect).await;
            called.map_err(|failure| failure.into_store_error(operation, self.name()))
        })
    }

    /// Runs a call on the connections that claims, promotions and operators share.
    pub(crate) fn on_general<R, T>(
        &self,
        operation: &'static str,
        request: R,
        call: Call<R, T>,
    ) -> StoreFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.on(Purpose::General, operation, request, call)
    }

    /// Runs a call that locks rows, and tells it whether the server honours SKIP LOCKED.
    pub(crate) fn with_locking<R, T>(
        &self,
        operation: &'static str,
        request: R,
        call: Call<(R, Locking), T>,
    ) -> StoreFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(async move {
            let locking = self.locking(operation).await?;
            self.on_general(operation, (request, locking), call).await
        })
    }

    /// Whether the server honours SKIP LOCKED; probed once per store.
    async fn locking(&self, operation: &'static str) -> Result<Locking, StoreError> {
        let found = self.probe.locking(self.claiming, self.pools.connector(), &self.statements).await;
        found.map_err(|failure| failure.into_store_error(operation, self.name()))
    }

    /// Adds the pending rows of its slots to a node's membership.
    async fn member(&self, membership: Membership, after: Seq) -> Membership {
        let look = |slots| self.on_general("look for rows", (slots, after), call!(membership::waiting));
        membership.look(look).await
    }
}

impl<K: Kind> Table for MysqlTable<K> {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.0
            .on(Purpose::Fetch, "tell the time", (), |session, sql, ()| Box::pin(fetch::clock(session, sql)))
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.0.on_general("write", request, |session, sql, request| {
            Box::pin(async move {
                session.begin().await?;
                let rows = insert_rows::<K>(&mut session.connection, sql, &request.rows, request.now).await?;
                session.commit().await?;
                Ok(rows)
            })
        })
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        // A lease renewal must not queue behind a long batch. It must not use a connection that
        // belongs to the application's runtime either: heartbeats run on their own thread because
        // that runtime may be blocked.
        let renews = request.outcomes.iter().all(|outcome| matches!(outcome.change, Change::Extend { .. }));
        let purpose = if renews { Purpose::Heartbeat } else { Purpose::Settle };
        Box::pin(async move {
            let locking = self.0.locking("settle").await?;
            let settle = |request| self.0.on(purpose, "settle", (request, locking), settle_once::<K>);
            request.in_halves(|error| error.kind() == ErrorKind::Conflict, settle).await
        })
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        let registered = self.0.on(Purpose::Heartbeat, "register", request, call!(membership::register));
        Box::pin(async move { Ok(self.0.member(registered.await?, Seq(0)).await) })
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        let after = request.after;
        let renewed = self.0.on(Purpose::Heartbeat, "heartbeat", request, call!(membership::heartbeat));
        Box::pin(async move {
            match renewed.await? {
                Some(membership) => Ok(Some(self.0.member(membership, after).await)),
                None => Ok(None),
            }
        })
    }

    fn publish(&self, node: NodeId, state: String) -> StoreFuture<'_, ()> {
        self.0.on_general("publish", (node, state), |session, sql, told| {
            Box::pin(membership::publish(session, sql, told))
        })
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.0.on(Purpose::Heartbeat, "leave", node, |session, sql, node| {
            Box::pin(membership::leave(session, sql, *node))
        })
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    /// MySQL has no channel for wake-ups, so other nodes find rows by polling.
    fn notify(&self) {}

    fn wakeups(&self) -> Option<Wakeups> {
        None
    }
}

fn settle_once<'c, K: Kind>(
    session: &'c mut Session,
    sql: &'c Sql,
    (request, probed): &'c (Settle, Locking),
) -> Work<'c, Settled> {
    Box::pin(async move {
        let locking = K::locking(session, *probed);
        K::settle(session, sql, request, locking).await.map_err(|failure| match locking {
            // The settle skipped locked rows, so the failure is not about one of its rows.
            Locking::Skips => failure,
            // A lock timeout becomes a conflict, which `in_halves` narrows down to the locked row.
            Locking::Waits => failure.into_locked(),
        })
    })
}

impl Store for MysqlStore {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.0.on(Purpose::Fetch, "fetch", request, call!(fetch::fetch))
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.0.with_locking("claim", request, |session, sql, (request, locking)| {
            Box::pin(claim::claim(session, sql, request, *locking))
        })
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.0.on_general("due topics", request, call!(claim::due_topics))
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.0.with_locking("reap", request, |session, sql, (request, locking)| {
            Box::pin(claim::reap(session, sql, request, *locking))
        })
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.0.with_locking("promote", request, |session, sql, (request, locking)| {
            Box::pin(promote::promote(session, sql, request, *locking))
        })
    }

    fn joins(&self) -> Option<&dyn Joins> {
        Some(self)
    }
}

impl ItemStore for MysqlItemStore {
    fn take(&self, request: Take) -> StoreFuture<'_, Taken> {
        // An item store has no other fetches, so the fetch connection is free for this.
        self.0.on(Purpose::Fetch, "take", request, call!(flowcatalyst::take))
    }

    fn recover(&self, request: Recover) -> StoreFuture<'_, u64> {
        self.0.on_general("recover", request, call!(flowcatalyst::recover))
    }
}
