//! The handle: the store port over reserved connections.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pillarbox::model::{Layout, Limits, NodeId, Row, Seq, Written};
use pillarbox::port::{
    Admin, Answer, Beat, Change, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Hints, Join, Joins,
    Lead, Membership, Promote, Promoted, Reap, Recover, Settle, Settled, Store, StoreError, Take, Taken,
    Write,
};
use pillarbox::rules::SLOTS;
use sqlx::postgres::PgPool;
use tokio::time::timeout;

use crate::announce::Announcer;
use crate::config::{PostgresStoreBuilder, WakeUp};
use crate::connection::{Line, Session, Sessions, Work};
use crate::error::Failure;
use crate::flowcatalyst::Tables;
use crate::hints::Listener;
#[cfg(any(feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
use crate::insert::Prepared;
use crate::insert::insert_rows;
use crate::joins::Fired;
use crate::membership::Standing;
use crate::migrate::Migrations;
use crate::sql::{Locked, Sql};
use crate::{claim, fetch, flowcatalyst, membership, promote, settle};

/// How often a call is made that loses against others: the order of locks can't always be told before.
const TRIES: usize = 5;

/// How long a beat waits for a look at the rows; beyond, the reader looks for itself.
const LOOK: Duration = Duration::from_secs(2);

/// An outbox in a PostgreSQL database. A clone is the same outbox; its connections close with the last one.
#[derive(Clone)]
pub struct PostgresStore(Arc<Shared>);

/// What all clones share.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) pool: PgPool,
    pub(crate) sql: Arc<Sql>,
    pub(crate) migrations: Arc<Migrations>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    fetching: Line,
    settling: Line,
    beating: Line,
    pub(crate) desk: Arc<Line>,
    channel: String,
    wake_up: WakeUp,
    announcer: Announcer,
    listener: OnceLock<Listener>,
    /// Whether the last beat found no other node: then there is nobody to tell of new rows.
    alone: AtomicBool,
}

impl PostgresStore {
    /// A store beside an application's own pool, with the default settings. Transactions are begun on the pool; all
    /// other work has connections of its own, made with the pool's options.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self::builder(pool).open()
    }

    /// A store with a pool of its own, from a URL `postgres://USER@HOST/DATABASE`.
    pub fn open_url(url: &str) -> Result<Self, StoreError> {
        Ok(Self::builder_from_url(url)?.open())
    }

    /// Settings for a store beside an application's own pool.
    pub fn builder(pool: PgPool) -> PostgresStoreBuilder {
        PostgresStoreBuilder::new(pool)
    }

    /// Settings for a store with a pool of its own.
    pub fn builder_from_url(url: &str) -> Result<PostgresStoreBuilder, StoreError> {
        PostgresStoreBuilder::from_url(url)
    }

    pub(crate) fn start(builder: PostgresStoreBuilder) -> Self {
        let names = builder.names();
        let PostgresStoreBuilder {
            pool, name, layout, limits, pooler, wake_up, statement_timeout, desk, ..
        } = builder;
        let options = (*pool.connect_options()).clone();
        let sessions = Arc::new(Sessions::new(options, statement_timeout, pooler));
        let line = |connections| Line::new(&sessions, connections);
        let facts = Facts {
            kind: "postgres",
            name,
            slots: match layout {
                Layout::Native => SLOTS,
                Layout::Flowcatalyst => 1,
            },
            concurrent_writers: true,
            transactions: true,
            durable: true,
            shared: true,
            limits: Limits { layout, ..limits },
        };
        Self(Arc::new(Shared {
            facts,
            pool,
            sql: Arc::new(Sql::new(&names)),
            migrations: Arc::new(Migrations::new(&names)),
            tables: Arc::new(Tables::new(&names)),
            fetching: line(1),
            settling: line(1),
            beating: line(1),
            desk: Arc::new(line(desk)),
            sessions: Arc::clone(&sessions),
            channel: names.channel,
            wake_up,
            announcer: Announcer::default(),
            listener: OnceLock::new(),
            alone: AtomicBool::new(false),
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
    pub fn pool(&self) -> &PgPool {
        &self.0.pool
    }

    /// Stops listening and waits for calls that are under way, also those that nobody waits for any more; then closes
    /// the store's own connections. The pool stays open.
    pub async fn close(&self) {
        if let Some(listener) = self.0.listener.get() {
            listener.stop();
        }
        self.0.sessions.close().await;
        for line in [&self.0.fetching, &self.0.settling, &self.0.beating, &*self.0.desk] {
            line.hang_up();
        }
    }

    /// Makes a call again that lost against another: one of two that wait for each other goes through.
    pub(crate) async fn insist<'a, T>(&self, call: impl Fn() -> Answer<'a, T>) -> Result<T, StoreError> {
        for _ in 1..TRIES {
            match call().await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                answer => return answer,
            }
        }
        call().await
    }

    /// Tells others of messages that joins ended in.
    pub(crate) fn tell_of(&self, fired: Fired) {
        if fired.0 > 0 {
            self.announce();
        }
    }

    /// Runs work on a line and names the operation in its error.
    pub(crate) fn on<'a, T, F>(&'a self, line: &'a Line, operation: &'static str, work: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session, &'c Sql) -> Work<'c, T> + Send + 'static,
    {
        let sql = Arc::clone(&self.0.sql);
        Box::pin(async move {
            let run = line.run(move |session| {
                Box::pin(async move {
                    let sql = sql;
                    work(session, &sql).await
                })
            });
            run.await.map_err(|failure: Failure| failure.into_store_error(operation, self.name()))
        })
    }

    /// On connections of others: their settings decide whether statements are kept, unless a pooler is known to be in
    /// the way.
    #[cfg(any(feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
    pub(crate) async fn prepared(&self) -> Prepared {
        match self.0.sessions.pooled().await {
            Ok(true) => Prepared::Once,
            _ => Prepared::Kept,
        }
    }

    /// Settles once; `None` where rows were locked for longer than it waits.
    fn settle_on_line<'a>(
        &'a self,
        line: &'a Line,
        request: Settle,
        locked: Locked,
    ) -> Answer<'a, Option<(Settled, Fired)>> {
        self.on(line, "settle", move |session, sql| {
            Box::pin(async move {
                match sql.layout {
                    Layout::Native => settle::settle(session, sql, &request, locked).await,
                    Layout::Flowcatalyst => {
                        let settled = flowcatalyst::settle(session, sql, &request).await?;
                        Ok(Some((settled, Fired::default())))
                    }
                }
            })
        })
    }

    /// Adds the rows that wait to where a node stands, if they are found soon.
    async fn member(&self, standing: Standing, after: Seq) -> Membership {
        let slots = standing.slots();
        let looked = self.on(&self.0.desk, "look for rows", move |session, sql| {
            Box::pin(async move { membership::waiting(session, sql, slots, after).await })
        });
        let waiting = match timeout(LOOK, looked).await {
            Ok(Ok(waiting)) => Some(waiting),
            Ok(Err(error)) => {
                tracing::debug!(%error, "could not look for waiting rows");
                None
            }
            Err(_) => None,
        };
        let membership = standing.with(waiting);
        self.0.alone.store(membership.nodes == 1, Ordering::Relaxed);
        membership
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({})", self.name())
    }
}

impl Store for PostgresStore {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched> {
        self.on(&self.0.fetching, "fetch", move |session, sql| {
            Box::pin(async move {
                match sql.layout {
                    Layout::Native => fetch::fetch(session, sql, &request).await,
                    Layout::Flowcatalyst => flowcatalyst::fetch(session, sql, &request).await,
                }
            })
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>> {
        self.on(&self.0.desk, "claim", move |session, sql| {
            Box::pin(async move {
                match sql.layout {
                    Layout::Native => claim::claim(session, sql, &request).await,
                    Layout::Flowcatalyst => flowcatalyst::claim(session, sql, &request).await,
                }
            })
        })
    }

    fn due_topics(&self, request: DueTopics) -> Answer<'_, Vec<String>> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.on(&self.0.desk, "due topics", move |session, sql| {
            Box::pin(async move { claim::due_topics(session, sql, &request).await })
        })
    }

    fn reap(&self, request: Reap) -> Answer<'_, u64> {
        self.on(&self.0.desk, "reap", move |session, sql| {
            Box::pin(async move { claim::reap(session, sql, &request).await })
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, Settled> {
        // A renewal must not wait behind a long batch, nor for a connection of a runtime that is blocked.
        let renews = request.outcomes.iter().all(|outcome| matches!(outcome.change, Change::Extend { .. }));
        let line = if renews { &self.0.beating } else { &self.0.settling };
        Box::pin(async move {
            let request = &request;
            let settle = |locked| self.insist(move || self.settle_on_line(line, request.clone(), locked));
            let settled = match settle(Locked::Briefly).await? {
                None => settle(Locked::Skipped).await?,
                settled => settled,
            };
            let (settled, fired) =
                settled.unwrap_or_else(|| (Settled::all_but(Vec::new()), Fired::default()));
            self.tell_of(fired);
            Ok(settled)
        })
    }

    fn join(&self, request: Join) -> Answer<'_, Membership> {
        let joined = self.on(&self.0.beating, "join", move |session, sql| {
            Box::pin(async move { membership::join(session, sql, &request).await })
        });
        Box::pin(async move { Ok(self.member(joined.await?, Seq(0)).await) })
    }

    fn beat(&self, request: Beat) -> Answer<'_, Option<Membership>> {
        let after = request.after;
        let beaten = self.on(&self.0.beating, "beat", move |session, sql| {
            Box::pin(async move { membership::beat(session, sql, &request).await })
        });
        Box::pin(async move {
            match beaten.await? {
                Some(standing) => Ok(Some(self.member(standing, after).await)),
                None => Ok(None),
            }
        })
    }

    fn publish(&self, node: NodeId, state: String) -> Answer<'_, ()> {
        self.on(&self.0.desk, "publish", move |session, sql| {
            Box::pin(async move { membership::publish(session, sql, node, &state).await })
        })
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.0.alone.store(false, Ordering::Relaxed);
        self.on(&self.0.beating, "leave", move |session, sql| {
            Box::pin(async move { membership::leave(session, sql, node).await })
        })
    }

    fn promote(&self, request: Promote) -> Answer<'_, Promoted> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Err(StoreError::no_numbers("promote", self.name())) });
        }
        self.on(&self.0.desk, "promote", move |session, sql| {
            Box::pin(async move { promote::promote(session, sql, &request).await })
        })
    }

    fn write(&self, request: Write) -> Answer<'_, Vec<Written>> {
        let written = self.on(&self.0.desk, "write", move |session, sql| {
            Box::pin(async move {
                // One statement is a transaction; only rows that may be there already take a second one.
                if request.rows.iter().all(|row| row.event.message_id().is_none()) {
                    let prepared = session.prepared();
                    let connection = &mut session.connection;
                    return insert_rows(connection, sql, &request.rows, request.now, prepared).await;
                }
                let mut tx = session.begin().await?;
                let prepared = tx.prepared();
                let written = insert_rows(&mut tx.tx, sql, &request.rows, request.now, prepared).await?;
                tx.commit().await?;
                Ok(written)
            })
        });
        Box::pin(async move {
            let written = written.await?;
            self.announce();
            Ok(written)
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

    fn announce(&self) {
        if self.0.wake_up == WakeUp::Notify && !self.0.alone.load(Ordering::Relaxed) {
            self.0.announcer.announce(&self.0.desk, &self.0.sessions, &self.0.sql, &self.0.channel);
        }
    }

    fn hints(&self) -> Option<Hints> {
        if self.0.wake_up == WakeUp::Off {
            return None;
        }
        let listener = self.0.listener.get_or_init(|| Listener::start(&self.0.sessions, &self.0.channel));
        Some(listener.hints())
    }
}

impl Lead for PostgresStore {
    fn take(&self, request: Take) -> Answer<'_, Taken> {
        // Nothing else is fetched where there is a leader.
        self.on(&self.0.fetching, "take", move |session, sql| {
            Box::pin(async move { flowcatalyst::take(session, sql, &request).await })
        })
    }

    fn recover(&self, request: Recover) -> Answer<'_, u64> {
        self.on(&self.0.desk, "recover", move |session, sql| {
            Box::pin(async move { flowcatalyst::recover(session, sql, &request).await })
        })
    }
}
