//! What the tests of the PostgreSQL store share: an outbox in a schema of its own, listeners that remember, and locks.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::events::{Failure, OutboxBuilder};
use pillarbox::model::{Event, EventId, Seq};
use pillarbox::port::{Admin, Begin, Cursor, Fetched, Store};
use pillarbox_conformance::fetch_all;
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row, query, raw_sql};
use pillarbox_postgres::{Pooler, PostgresStore, PostgresStoreBuilder};
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

/// The server that most tests run on.
pub(crate) const MAIN: &str = "PILLARBOX_TEST_POSTGRES_URL";
/// The newest version of it.
pub(crate) const NEWEST: &str = "PILLARBOX_TEST_POSTGRES_18_URL";
/// What takes this long never comes.
pub(crate) const NEVER: Duration = Duration::from_secs(20);

/// The only event type of these tests.
pub(crate) const ORDER_PLACED: &str = "OrderPlaced";
/// The aggregate whose id is the group.
pub(crate) const ACCOUNT: &str = "Account";

/// Says that a test could not run; the summary of all tests reads the line.
pub(crate) fn could_not_run(name: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "could not run: {name}: {reason}");
}

/// A schema of its own on a server.
pub(crate) struct Fixture {
    pub(crate) schema: String,
    pub(crate) options: PgConnectOptions,
    pub(crate) pool: PgPool,
}

impl Fixture {
    /// On the server of the tests; none, and a line that says so, if there is none.
    pub(crate) async fn new() -> Option<Self> {
        Self::on(MAIN).await
    }

    /// On the server that a variable names.
    pub(crate) async fn on(variable: &str) -> Option<Self> {
        match std::env::var(variable) {
            Ok(url) => Some(Self::at(&url).await),
            Err(_) => {
                could_not_run("pillarbox-postgres", &format!("{variable} is not set"));
                None
            }
        }
    }

    /// At a URL. Everything connects under the schema's name, so that a test can tell its own connections.
    pub(crate) async fn at(url: &str) -> Self {
        let schema = format!("t_{}", Uuid::now_v7().simple());
        let options: PgConnectOptions = url.parse().unwrap();
        let mut connection = options.connect().await.unwrap();
        let create = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.orders (id bigint PRIMARY KEY)");
        connection.execute(raw_sql(AssertSqlSafe(create))).await.unwrap();
        Self::again(url, schema)
    }

    /// In a schema that is there.
    pub(crate) fn again(url: &str, schema: String) -> Self {
        let options: PgConnectOptions = url.parse().unwrap();
        let options = options.options([("search_path", &schema)]).application_name(&schema);
        let pool = PgPoolOptions::new().max_connections(8).connect_lazy_with(options.clone());
        Self { schema, options, pool }
    }

    pub(crate) fn builder(&self) -> PostgresStoreBuilder {
        PostgresStore::builder(self.pool.clone()).pooler(Pooler::None)
    }

    /// A store of its own, as another process has one.
    pub(crate) fn beside(&self) -> PostgresStore {
        self.builder().open()
    }

    /// A store with its tables.
    pub(crate) async fn store(&self) -> PostgresStore {
        let store = self.beside();
        store.migrate().await.unwrap();
        store
    }

    /// A connection of someone else.
    pub(crate) async fn connection(&self) -> PgConnection {
        self.options.clone().application_name("beside").connect().await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        run(&mut self.connection().await, sql).await;
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let row = query(AssertSqlSafe(sql)).fetch_one(&mut self.connection().await).await.unwrap();
        row.try_get(0).unwrap()
    }

    /// Waits until so many connections of ours wait for a lock.
    pub(crate) async fn until_locked(&self, count: i64) {
        self.until(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND wait_event_type = 'Lock'",
            self.schema
        ), count)
        .await;
    }

    /// Asks the server until it answers this; there is no signal for what other connections do.
    pub(crate) async fn until(&self, sql: &str, expected: i64) {
        let mut connection = self.connection().await;
        let asking = async {
            loop {
                let row = query(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap();
                if row.try_get::<i64, _>(0).unwrap() == expected {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        assert!(timeout(NEVER, asking).await.is_ok(), "never {expected}: {sql}");
    }
}

/// Runs statements that answer nothing.
pub(crate) async fn run(connection: &mut PgConnection, sql: &str) {
    connection.execute(raw_sql(AssertSqlSafe(sql))).await.unwrap();
}

/// Reads every slot from a cursor on.
pub(crate) async fn fetch_from(store: &dyn Store, cursor: Cursor) -> Fetched {
    fetch_all(store, cursor, 10_000).await
}

pub(crate) fn id(text: &str) -> EventId {
    EventId::new(text).unwrap()
}

/// What listeners have taken so far.
#[derive(Clone)]
pub(crate) struct Seen(Arc<watch::Sender<Vec<String>>>);

/// What a listener answers.
type Taking = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

impl Seen {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    /// A listener that takes everything.
    pub(crate) fn listener(&self) -> impl Fn(Event) -> Taking + Send + Sync + 'static + use<> {
        let seen = self.clone();
        move |event| {
            seen.0.send_modify(|ids| ids.push(event.id().to_string()));
            Box::pin(async { Ok(()) })
        }
    }

    /// An outbox that tells us what it delivers.
    pub(crate) fn hear<S: Store>(&self, outbox: OutboxBuilder<S>) -> OutboxBuilder<S> {
        outbox.listener(ORDER_PLACED, self.listener()).no_purge()
    }

    /// Waits until so many deliveries were made.
    pub(crate) async fn wait(&self, count: usize) -> Vec<String> {
        let mut ids = self.0.subscribe();
        let enough = timeout(NEVER, ids.wait_for(|ids| ids.len() >= count)).await;
        enough.unwrap_or_else(|_| panic!("never {count} deliveries: {:?}", self.ids())).unwrap().clone()
    }

    /// Waits until all of these were delivered.
    pub(crate) async fn wait_for(&self, wanted: &[String]) {
        let mut ids = self.0.subscribe();
        let all = |ids: &Vec<String>| wanted.iter().all(|id| ids.contains(id));
        let there = timeout(NEVER, ids.wait_for(all)).await;
        let missing = || wanted.iter().filter(|id| !self.ids().contains(id)).cloned().collect::<Vec<_>>();
        assert!(there.is_ok(), "never delivered: {:?}", missing());
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

/// Writes one event in a transaction of its own.
pub(crate) async fn commit<S: Begin>(outbox: &Outbox<S>, id: &str, group: &str) {
    let mut tx = outbox.begin().await.unwrap();
    tx.write(Event::text(ORDER_PLACED, "{}").id(id).aggregate(ACCOUNT, group)).unwrap();
    tx.commit().await.unwrap();
}

/// The number of a row.
pub(crate) async fn seq(fixture: &Fixture, id: &str) -> Seq {
    Seq(fixture.number(&format!("SELECT seq FROM outbox_event WHERE event_id = '{id}'")).await)
}
