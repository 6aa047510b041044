//! The handle: the store port over reserved connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::{Layout, NodeId, Row, Seq, Written};
use pillarbox::port::{
    Admin, Answer, Change, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, Joins, Lead,
    Membership, Promote, Promoted, Reap, Recover, Register, Settle, Settled, Store, StoreError, Take, Taken,
    Wakeups, Write,
};
use pillarbox_store_kit::{Pools, Purpose, ServerFailure as _};
use sqlx::mysql::MySqlPool;
use tokio::time::timeout;

use crate::config::{Claiming, MysqlStoreBuilder};
use crate::connection::{Connector, Session, Work};
use crate::insert::insert_rows;
use crate::membership::Standing;
use crate::probe::{Locking, Probe};
use crate::sql::Sql;
use crate::{claim, fetch, flowcatalyst, membership, promote, settle};

/// How long a heartbeat waits for a look at the rows; beyond, the reader looks for itself.
const LOOK: Duration = Duration::from_secs(2);

/// An outbox in a MySQL or MariaDB database. A clone is the same outbox; its connections close with the last one.
#[derive(Clone)]
pub struct MysqlStore(Arc<Shared>);

/// What all clones share.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) pool: MySqlPool,
    pub(crate) sql: Arc<Sql>,
    pub(crate) pools: Arc<Pools<Connector>>,
    claiming: Claiming,
    probe: Probe,
}

/// What a call does with its request; it may be done again.
pub(crate) type Call<R, T> = for<'c> fn(&'c mut Session, &'c Sql, &'c R) -> Work<'c, T>;

impl MysqlStore {
    /// A store beside an application's own pool, with the default settings. Transactions are begun on the pool; all
    /// other work has connections of its own, made with the pool's options.
    #[must_use]
    pub fn new(pool: MySqlPool) -> Self {
        Self::builder(pool).open()
    }

    /// A store with a pool of its own, from a URL `mysql://USER@HOST/DATABASE`.
    pub fn open_url(url: &str) -> Result<Self, StoreError> {
        Ok(Self::builder_from_url(url)?.open())
    }

    /// Settings for a store beside an application's own pool.
    pub fn builder(pool: MySqlPool) -> MysqlStoreBuilder {
        MysqlStoreBuilder::new(pool)
    }

    /// Settings for a store with a pool of its own.
    pub fn builder_from_url(url: &str) -> Result<MysqlStoreBuilder, StoreError> {
        MysqlStoreBuilder::from_url(url)
    }

    pub(crate) fn start(builder: MysqlStoreBuilder) -> Self {
        let names = builder.names();
        let MysqlStoreBuilder { pool, settings, server, claiming, .. } = builder;
        let options = (*pool.connect_options()).clone();
        let mut facts = settings.facts("mysql");
        if settings.layout == Layout::Flowcatalyst {
            facts.limits.payload = facts.limits.payload.min(flowcatalyst::PAYLOAD_MAX);
        }
        Self(Arc::new(Shared {
            facts,
            pools: Pools::new(Connector::new(options, server.statement_timeout), &server),
            pool,
            sql: Arc::new(Sql::new(&names)),
            claiming,
            probe: Probe::default(),
        }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.facts.name
    }

    /// The pool that transactions are begun on.
    #[must_use]
    pub fn pool(&self) -> &MySqlPool {
        &self.0.pool
    }

    /// Waits for calls that are under way, also those that nobody waits for any more; then closes the store's own
    /// connections. The pool stays open.
    pub async fn close(&self) {
        self.0.pools.close().await;
    }

    /// Makes a call on a connection for this purpose and names the operation in its error.
    fn on<R, T>(
        &self,
        purpose: Purpose,
        operation: &'static str,
        request: R,
        call: Call<R, T>,
    ) -> Answer<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(async move {
            let called = self.0.pools.call(purpose, Arc::clone(&self.0.sql), request, call).await;
            called.map_err(|failure| failure.into_store_error(operation, self.name()))
        })
    }

    /// The same on the connections that claims, promotions and operators share.
    pub(crate) fn on_general<R, T>(
        &self,
        operation: &'static str,
        request: R,
        call: Call<R, T>,
    ) -> Answer<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.on(Purpose::General, operation, request, call)
    }

    fn settle_once(&self, purpose: Purpose, request: Settle, locking: Locking) -> Answer<'_, Settled> {
        self.on(purpose, "settle", (request, locking), |session, sql, (request, locking)| {
            Box::pin(async move {
                let (locking, settled) = match sql.layout {
                    Layout::Native => (*locking, settle::settle(session, sql, request, *locking).await),
                    Layout::Flowcatalyst => {
                        let locking = flowcatalyst::locking(session);
                        (locking, flowcatalyst::settle(session, sql, request, locking).await)
                    }
                };
                settled.map_err(|failure| match locking {
                    // No row was waited for, so that none can be set aside.
                    Locking::Skips => failure,
                    Locking::Waits => failure.into_locked(),
                })
            })
        })
    }

    /// Whether the server honours SKIP LOCKED.
    pub(crate) async fn locking(&self, operation: &'static str) -> Result<Locking, StoreError> {
        let found = self.0.probe.locking(self.0.claiming, self.0.pools.connector(), &self.0.sql).await;
        found.map_err(|failure| failure.into_store_error(operation, self.name()))
    }

    /// Adds the rows that wait to where a node stands, if they are found soon.
    async fn member(&self, standing: Standing, after: Seq) -> Membership {
        let looked =
            self.on_general("look for rows", (standing.slots(), after), |session, sql, (slots, after)| {
                Box::pin(membership::waiting(session, sql, slots.clone(), *after))
            });
        let waiting = match timeout(LOOK, looked).await {
            Ok(Ok(waiting)) => Some(waiting),
            Ok(Err(error)) => {
                tracing::debug!(%error, "could not look for waiting rows");
                None
            }
            Err(_) => None,
        };
        standing.with(waiting)
    }
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MysqlStore({})", self.name())
    }
}

impl Store for MysqlStore {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched> {
        self.on(Purpose::Fetch, "fetch", request, |session, sql, request| {
            Box::pin(async move {
                match sql.layout {
                    Layout::Native => fetch::fetch(session, sql, request).await,
                    Layout::Flowcatalyst => flowcatalyst::fetch(session, sql, request).await,
                }
            })
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return self.on_general("claim", request, |session, sql, request| {
                Box::pin(flowcatalyst::claim(session, sql, request))
            });
        }
        Box::pin(async move {
            let locking = self.locking("claim").await?;
            let claimed = self.on_general("claim", (request, locking), |session, sql, (request, locking)| {
                Box::pin(claim::claim(session, sql, request, *locking))
            });
            claimed.await
        })
    }

    fn due_topics(&self, request: DueTopics) -> Answer<'_, Vec<String>> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.on_general("due topics", request, |session, sql, request| {
            Box::pin(claim::due_topics(session, sql, request))
        })
    }

    fn reap(&self, request: Reap) -> Answer<'_, u64> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return self.on_general("reap", request, |session, sql, request| {
                Box::pin(flowcatalyst::reap(session, sql, request))
            });
        }
        Box::pin(async move {
            let locking = self.locking("reap").await?;
            let reaped = self.on_general("reap", (request, locking), |session, sql, (request, locking)| {
                Box::pin(claim::reap(session, sql, request, *locking))
            });
            reaped.await
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, Settled> {
        // A renewal must not wait behind a long batch, nor for a connection of a runtime that is blocked.
        let renews = request.outcomes.iter().all(|outcome| matches!(outcome.change, Change::Extend { .. }));
        let purpose = if renews { Purpose::Heartbeat } else { Purpose::Settle };
        Box::pin(async move {
            // Items are in tables of others, where there is nothing to find out with.
            let locking = match self.0.facts.layout() {
                Layout::Native => self.locking("settle").await?,
                Layout::Flowcatalyst => Locking::Skips,
            };
            let settle = |request| self.settle_once(purpose, request, locking);
            request.in_halves(|error| error.kind() == ErrorKind::Conflict, settle).await
        })
    }

    fn register(&self, request: Register) -> Answer<'_, Membership> {
        let joined = self.on(Purpose::Heartbeat, "join", request, |session, sql, request| {
            Box::pin(membership::join(session, sql, request))
        });
        Box::pin(async move { Ok(self.member(joined.await?, Seq(0)).await) })
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, Option<Membership>> {
        let after = request.after;
        let renewed = self.on(Purpose::Heartbeat, "heartbeat", request, |session, sql, request| {
            Box::pin(membership::heartbeat(session, sql, request))
        });
        Box::pin(async move {
            match renewed.await? {
                Some(standing) => Ok(Some(self.member(standing, after).await)),
                None => Ok(None),
            }
        })
    }

    fn publish(&self, node: NodeId, state: String) -> Answer<'_, ()> {
        self.on_general("publish", (node, state), |session, sql, told| {
            Box::pin(membership::publish(session, sql, told))
        })
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.on(Purpose::Heartbeat, "leave", node, |session, sql, node| {
            Box::pin(membership::leave(session, sql, *node))
        })
    }

    fn promote(&self, request: Promote) -> Answer<'_, Promoted> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Err(StoreError::no_numbers("promote", self.name())) });
        }
        Box::pin(async move {
            let locking = self.locking("promote").await?;
            let moved = self.on_general("promote", (request, locking), |session, sql, (request, locking)| {
                Box::pin(promote::promote(session, sql, request, *locking))
            });
            moved.await
        })
    }

    fn write(&self, request: Write) -> Answer<'_, Vec<Written>> {
        self.on_general("write", request, |session, sql, request| {
            Box::pin(async move {
                session.begin().await?;
                let rows = insert_rows(&mut session.connection, sql, &request.rows, request.now).await?;
                session.commit().await?;
                Ok(rows)
            })
        })
    }

    fn joins(&self) -> Option<&dyn Joins> {
        (self.0.facts.layout() == Layout::Native).then_some(self as &dyn Joins)
    }

    fn lead(&self) -> Option<&dyn Lead> {
        (self.0.facts.layout() == Layout::Flowcatalyst).then_some(self as &dyn Lead)
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    /// There is nobody to tell: rows are found by polling.
    fn notify(&self) {}

    fn wakeups(&self) -> Option<Wakeups> {
        None
    }
}

impl Lead for MysqlStore {
    fn take(&self, request: Take) -> Answer<'_, Taken> {
        // Nothing else is fetched where there is a leader.
        self.on(Purpose::Fetch, "take", request, |session, sql, request| {
            Box::pin(flowcatalyst::take(session, sql, request))
        })
    }

    fn recover(&self, request: Recover) -> Answer<'_, u64> {
        self.on_general("recover", request, |session, sql, request| {
            Box::pin(flowcatalyst::recover(session, sql, request))
        })
    }
}
