//! The handle: the store port over reserved connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::{Layout, Limits, NodeId, Row, Seq, Written};
use pillarbox::port::{
    Admin, Answer, Beat, Change, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Hints, Join, Joins,
    Lead, Membership, Promote, Promoted, Reap, Recover, Settle, Settled, Store, StoreError, Take, Taken,
    Write,
};
use pillarbox::rules::SLOTS;
use sqlx::mysql::MySqlPool;
use tokio::time::timeout;

use crate::config::{Claiming, MysqlStoreBuilder};
use crate::connection::{Line, Patience, Session, Sessions, Work};
use crate::error::Failure;
use crate::flowcatalyst::Tables;
use crate::insert::insert_rows;
use crate::membership::Standing;
use crate::migrate::Migrations;
use crate::probe::{Locking, Probe};
use crate::sql::Sql;
use crate::{claim, fetch, flowcatalyst, membership, promote, settle};

/// How long a beat waits for a look at the rows; beyond, the reader looks for itself.
const LOOK: Duration = Duration::from_secs(2);

/// An outbox in a MySQL or MariaDB database. A clone is the same outbox; its connections close with the last one.
#[derive(Clone)]
pub struct MysqlStore(Arc<Shared>);

/// What all clones share.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) pool: MySqlPool,
    pub(crate) sql: Arc<Sql>,
    pub(crate) migrations: Arc<Migrations>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    fetching: Line,
    settling: Line,
    beating: Line,
    desk: Line,
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
        let MysqlStoreBuilder { pool, name, layout, limits, claiming, statement_timeout, desk, .. } = builder;
        let options = (*pool.connect_options()).clone();
        let sessions = Arc::new(Sessions::new(options, statement_timeout));
        let line = |connections| Line::new(&sessions, connections, Patience::Usual);
        let facts = Facts {
            kind: "mysql",
            name,
            slots: match layout {
                Layout::Native => SLOTS,
                Layout::Flowcatalyst => 1,
            },
            concurrent_writers: true,
            transactions: true,
            durable: true,
            shared: true,
            limits: match layout {
                Layout::Native => Limits { layout, ..limits },
                Layout::Flowcatalyst => {
                    Limits { layout, payload: limits.payload.min(flowcatalyst::PAYLOAD_MAX), ..limits }
                }
            },
        };
        Self(Arc::new(Shared {
            facts,
            pool,
            sql: Arc::new(Sql::new(&names)),
            migrations: Arc::new(Migrations::new(&names)),
            tables: Arc::new(Tables::new(&names)),
            fetching: line(1),
            settling: Line::new(&sessions, 1, Patience::Short),
            beating: line(1),
            desk: line(desk),
            sessions: Arc::clone(&sessions),
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
        self.0.sessions.close().await;
        for line in [&self.0.fetching, &self.0.settling, &self.0.beating, &self.0.desk] {
            line.hang_up();
        }
    }

    /// Runs a call on a line and names the operation in its error.
    fn on<'a, R, T>(
        &'a self,
        line: &'a Line,
        operation: &'static str,
        request: R,
        call: Call<R, T>,
    ) -> Answer<'a, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        let given = Arc::new((Arc::clone(&self.0.sql), request));
        Box::pin(async move {
            let run = line.run(move |session| {
                let given = Arc::clone(&given);
                Box::pin(async move { call(session, &given.0, &given.1).await })
            });
            run.await.map_err(|failure: Failure| failure.into_store_error(operation, self.name()))
        })
    }

    /// Runs a call on the connections that claims, promotions and operators share.
    pub(crate) fn at_desk<R, T>(&self, operation: &'static str, request: R, call: Call<R, T>) -> Answer<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.on(&self.0.desk, operation, request, call)
    }

    fn settle_on_line<'a>(
        &'a self,
        line: &'a Line,
        request: Settle,
        locking: Locking,
    ) -> Answer<'a, Settled> {
        self.on(line, "settle", (request, locking), |session, sql, (request, locking)| {
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
        let found = self.0.probe.locking(self.0.claiming, &self.0.sessions, &self.0.sql).await;
        found.map_err(|failure| failure.into_store_error(operation, self.name()))
    }

    /// Adds the rows that wait to where a node stands, if they are found soon.
    async fn member(&self, standing: Standing, after: Seq) -> Membership {
        let looked =
            self.at_desk("look for rows", (standing.slots(), after), |session, sql, (slots, after)| {
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
        self.on(&self.0.fetching, "fetch", request, |session, sql, request| {
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
            return self.at_desk("claim", request, |session, sql, request| {
                Box::pin(flowcatalyst::claim(session, sql, request))
            });
        }
        Box::pin(async move {
            let locking = self.locking("claim").await?;
            let claimed = self.at_desk("claim", (request, locking), |session, sql, (request, locking)| {
                Box::pin(claim::claim(session, sql, request, *locking))
            });
            claimed.await
        })
    }

    fn due_topics(&self, request: DueTopics) -> Answer<'_, Vec<String>> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.at_desk("due topics", request, |session, sql, request| {
            Box::pin(claim::due_topics(session, sql, request))
        })
    }

    fn reap(&self, request: Reap) -> Answer<'_, u64> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return self.at_desk("reap", request, |session, sql, request| {
                Box::pin(flowcatalyst::reap(session, sql, request))
            });
        }
        Box::pin(async move {
            let locking = self.locking("reap").await?;
            let reaped = self.at_desk("reap", (request, locking), |session, sql, (request, locking)| {
                Box::pin(claim::reap(session, sql, request, *locking))
            });
            reaped.await
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, Settled> {
        // A renewal must not wait behind a long batch, nor for a connection of a runtime that is blocked.
        let renews = request.outcomes.iter().all(|outcome| matches!(outcome.change, Change::Extend { .. }));
        let line = if renews { &self.0.beating } else { &self.0.settling };
        Box::pin(async move {
            // Items are in tables of others, where there is nothing to find out with.
            let locking = match self.0.facts.layout() {
                Layout::Native => self.locking("settle").await?,
                Layout::Flowcatalyst => Locking::Skips,
            };
            let settle = |request| self.settle_on_line(line, request, locking);
            request.in_halves(|error| error.kind() == ErrorKind::Conflict, settle).await
        })
    }

    fn join(&self, request: Join) -> Answer<'_, Membership> {
        let joined = self.on(&self.0.beating, "join", request, |session, sql, request| {
            Box::pin(membership::join(session, sql, request))
        });
        Box::pin(async move { Ok(self.member(joined.await?, Seq(0)).await) })
    }

    fn beat(&self, request: Beat) -> Answer<'_, Option<Membership>> {
        let after = request.after;
        let beaten = self.on(&self.0.beating, "beat", request, |session, sql, request| {
            Box::pin(membership::beat(session, sql, request))
        });
        Box::pin(async move {
            match beaten.await? {
                Some(standing) => Ok(Some(self.member(standing, after).await)),
                None => Ok(None),
            }
        })
    }

    fn publish(&self, node: NodeId, state: String) -> Answer<'_, ()> {
        self.at_desk("publish", (node, state), |session, sql, told| {
            Box::pin(membership::publish(session, sql, told))
        })
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.on(&self.0.beating, "leave", node, |session, sql, node| {
            Box::pin(membership::leave(session, sql, *node))
        })
    }

    fn promote(&self, request: Promote) -> Answer<'_, Promoted> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Err(StoreError::no_numbers("promote", self.name())) });
        }
        Box::pin(async move {
            let locking = self.locking("promote").await?;
            let moved = self.at_desk("promote", (request, locking), |session, sql, (request, locking)| {
                Box::pin(promote::promote(session, sql, request, *locking))
            });
            moved.await
        })
    }

    fn write(&self, request: Write) -> Answer<'_, Vec<Written>> {
        self.at_desk("write", request, |session, sql, request| {
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
    fn announce(&self) {}

    fn hints(&self) -> Option<Hints> {
        None
    }
}

impl Lead for MysqlStore {
    fn take(&self, request: Take) -> Answer<'_, Taken> {
        // Nothing else is fetched where there is a leader.
        self.on(&self.0.fetching, "take", request, |session, sql, request| {
            Box::pin(flowcatalyst::take(session, sql, request))
        })
    }

    fn recover(&self, request: Recover) -> Answer<'_, u64> {
        self.at_desk("recover", request, |session, sql, request| {
            Box::pin(flowcatalyst::recover(session, sql, request))
        })
    }
}
