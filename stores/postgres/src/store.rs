//! The store's handle: implements the ports of both kinds of tables over reserved connections.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{NodeId, Row, Seq, Written};
use pillarbox::port::{
    Admin, Claim, DueTopics, Facts, Fetch, Fetched, Heartbeat, ItemStore, Items, Joins, Membership, Native,
    Promote, Promoted, Reap, Recover, Register, Settle, Settled, Store, StoreFuture, Table, Take, Taken,
    Wakeups, Write,
};
use pillarbox_store_kit::{Pools, Purpose, ServerFailure as _, call, constructors, handle};
use sqlx::postgres::PgPool;
use tokio::time::timeout;

use crate::config::{PostgresStoreBuilder, PostgresWakeUp};
use crate::connection::{Connector, Session, Work};
use crate::error::DriverError;
#[cfg(any(feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
use crate::insert::Prepared;
use crate::insert::insert_rows;
use crate::joins::Fired;
use crate::kind::Kind;
use crate::notifier::Notifier;
use crate::sql::Sql;
use crate::wakeups::Listener;
use crate::{claim, fetch, flowcatalyst, membership, promote};

/// How long a shutdown waits for calls in flight.
const SHUT_DOWN: Duration = Duration::from_secs(5);

/// A database call: runs on a session, with the store's statements and a request.
pub(crate) type Call<R, T> = for<'c> fn(&'c mut Session, &'c Sql, &'c R) -> Work<'c, T>;

/// A table in a PostgreSQL database, of the kind `K`.
///
/// Clones share the table and its connections, which close when the last clone is dropped.
pub struct PostgresTable<K>(Arc<Shared>, PhantomData<fn() -> K>);

/// The native outbox table in a PostgreSQL database.
pub type PostgresStore = PostgresTable<Native>;

/// A table of another program in a PostgreSQL database, in the flowcatalyst layout.
pub type PostgresItemStore = PostgresTable<Items>;

/// State shared by all clones of a table.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) pool: PgPool,
    pub(crate) sql: Arc<Sql>,
    pub(crate) pools: Arc<Pools<Connector>>,
    channel: String,
    wake_up: PostgresWakeUp,
    notifier: Notifier,
    listener: OnceLock<Listener>,
    /// True if the last registration or heartbeat found no other node: there is no one to notify of new rows.
    alone: AtomicBool,
}

constructors!(PostgresStore, PostgresStoreBuilder, PgPool, "postgres://USER@HOST/DATABASE");
handle!(PostgresTable);

impl<K> PostgresTable<K> {
    pub(crate) fn start(builder: PostgresStoreBuilder) -> Self
    where
        K: Kind,
    {
        let names = builder.names::<K>();
        let PostgresStoreBuilder { pool, settings, server, pooler, wake_up, .. } = builder;
        let options = (*pool.connect_options()).clone();
        let shared = Shared {
            facts: settings.facts("postgres", K::LAYOUT),
            pools: Pools::new(Connector::new(options, server.statement_timeout, pooler), &server),
            pool,
            sql: Arc::new(Sql::new(&names)),
            channel: names.channel,
            wake_up,
            notifier: Notifier::default(),
            listener: OnceLock::new(),
            alone: AtomicBool::new(false),
        };
        Self(Arc::new(shared), PhantomData)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.facts.name
    }

    /// The pool on which transactions begin.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.0.pool
    }

    /// Stops listening and waits for calls in flight, including calls whose caller has stopped waiting. Then
    /// closes the store's own connections. The pool stays open.
    pub async fn close(&self) {
        if let Some(listener) = self.0.listener.get() {
            listener.stop();
        }
        self.0.pools.close().await;
    }

    /// The listener, which starts when it is first needed; `None` if notifications are off.
    fn listener(&self) -> Option<&Listener> {
        if self.0.wake_up == PostgresWakeUp::Off {
            return None;
        }
        Some(self.0.listener.get_or_init(|| Listener::start(&self.0.pools, &self.0.channel)))
    }

    /// Notifies other processes if joins enqueued continuations.
    pub(crate) fn tell_of(&self, fired: Fired)
    where
        K: Kind,
    {
        if fired.0 > 0 {
            self.notify();
        }
    }

    /// Makes a call on a connection for this purpose. An error names the operation.
    pub(crate) fn on<R, T>(
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
            let called = self.0.pools.call(purpose, Arc::clone(&self.0.sql), request, call).await;
            called.map_err(|failure| failure.into_store_error(operation, self.name()))
        })
    }

    /// Makes a call on the connections that claims, promotions and operators share.
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

    /// How to prepare statements on the application's connections. The settings of those connections decide
    /// whether they cache statements, unless a pooler is known to be in between.
    #[cfg(any(feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
    pub(crate) async fn prepared(&self) -> Prepared {
        match self.0.pools.connector().pooled().await {
            Ok(true) => Prepared::Once,
            _ => Prepared::Kept,
        }
    }

    /// Completes a membership with the waiting rows.
    async fn member(&self, membership: Membership, after: Seq) -> Membership {
        let look = |slots| self.on_general("look for rows", (slots, after), call!(membership::waiting));
        let membership = membership.look(look).await;
        self.0.alone.store(membership.nodes == 1, Ordering::Relaxed);
        membership
    }
}

impl<K: Kind> Table for PostgresTable<K> {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.on(Purpose::Fetch, "tell the time", (), |session, sql, ()| Box::pin(fetch::clock(session, sql)))
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        Box::pin(async move {
            K::admit(self, &request.rows)?;
            let written = self.on_general("write", request, call!(write));
            let written = written.await?;
            self.notify();
            Ok(written)
        })
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        K::settle(self, request)
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        let registered = self.on(Purpose::Heartbeat, "register", request, call!(membership::register));
        Box::pin(async move { Ok(self.member(registered.await?, Seq(0)).await) })
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        let after = request.after;
        let renewed = self.on(Purpose::Heartbeat, "heartbeat", request, call!(membership::heartbeat));
        Box::pin(async move {
            match renewed.await? {
                Some(membership) => Ok(Some(self.member(membership, after).await)),
                None => Ok(None),
            }
        })
    }

    fn publish(&self, node: NodeId, state: String) -> StoreFuture<'_, ()> {
        self.on_general("publish", (node, state), |session, sql, (node, state)| {
            Box::pin(membership::publish(session, sql, *node, state))
        })
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.0.alone.store(false, Ordering::Relaxed);
        let channel = (self.0.wake_up == PostgresWakeUp::Notify).then(|| self.0.channel.clone());
        self.on(Purpose::Heartbeat, "leave", (node, channel), |session, sql, (node, channel)| {
            Box::pin(membership::leave(session, sql, *node, channel.as_deref()))
        })
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    fn notify(&self) {
        if self.0.wake_up == PostgresWakeUp::Notify && !self.0.alone.load(Ordering::Relaxed) {
            self.0.notifier.notify(&self.0.pools, &self.0.sql, &self.0.channel);
        }
    }

    fn wakeups(&self) -> Option<Wakeups> {
        Some(self.listener()?.wakeups())
    }

    fn departures(&self) -> Option<Wakeups> {
        Some(self.listener()?.departures())
    }

    /// Also waits for notifications that are not sent yet: a process may write and end at once.
    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            if timeout(SHUT_DOWN, self.close()).await.is_err() {
                tracing::debug!("the calls in flight did not end in time");
            }
        })
    }
}

/// Inserts rows. A single statement is its own transaction. Rows with a message id may exist already, and
/// looking them up takes a second statement, so such a batch gets an explicit transaction.
async fn write(session: &mut Session, sql: &Sql, request: &Write) -> Result<Vec<Written>, DriverError> {
    if request.rows.iter().all(|row| row.event.message_id().is_none()) {
        let prepared = session.prepared();
        return insert_rows(&mut session.connection, sql, &request.rows, request.now, prepared).await;
    }
    let mut tx = session.begin().await?;
    let prepared = tx.prepared();
    let written = insert_rows(&mut tx.tx, sql, &request.rows, request.now, prepared).await?;
    tx.commit().await?;
    Ok(written)
}

impl Store for PostgresStore {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.on(Purpose::Fetch, "fetch", request, call!(fetch::fetch))
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.on_general("claim", request, call!(claim::claim))
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.on_general("due topics", request, call!(claim::due_topics))
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.on_general("reap", request, call!(claim::reap))
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.on_general("promote", request, call!(promote::promote))
    }

    fn joins(&self) -> Option<&dyn Joins> {
        Some(self)
    }
}

impl ItemStore for PostgresItemStore {
    fn take(&self, request: Take) -> StoreFuture<'_, Taken> {
        // The fetch connection is free for this: a table with a leader has no other reads.
        self.on(Purpose::Fetch, "take", request, call!(flowcatalyst::take))
    }

    fn recover(&self, request: Recover) -> StoreFuture<'_, u64> {
        self.on_general("recover", request, call!(flowcatalyst::recover))
    }
}
