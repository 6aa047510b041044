//! What the tests of the MySQL store share: an outbox in a database of its own, and locks.

use std::io::Write;
use std::time::Duration;

use pillarbox::model::Seq;
use pillarbox::port::{Admin, Cursor, Fetched, Store};
use pillarbox_conformance::fetch_all;
use pillarbox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use pillarbox_mysql::sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row, query, query_scalar, raw_sql};
use pillarbox_mysql::{MysqlStore, MysqlStoreBuilder};
use tokio::time::timeout;
use uuid::Uuid;

/// The servers that the tests run on, and what they are called where they are missing.
pub(crate) const SERVERS: [(&str, &str); 2] =
    [("mariadb", "PILLARBOX_TEST_MARIADB_URL"), ("mysql", "PILLARBOX_TEST_MYSQL_URL")];
/// What takes this long never comes.
pub(crate) const NEVER: Duration = Duration::from_secs(20);

/// A database of its own on a server, dropped in the end.
pub(crate) struct Fixture {
    pub(crate) server: MySqlConnectOptions,
    pub(crate) database: String,
    pub(crate) options: MySqlConnectOptions,
    pub(crate) pool: MySqlPool,
}

impl Fixture {
    /// One on every server that there is, and a line for every other.
    pub(crate) async fn all() -> Vec<Self> {
        let mut fixtures = Vec::new();
        for (name, variable) in SERVERS {
            match std::env::var(variable) {
                Ok(url) => fixtures.push(Self::at(&url).await),
                Err(_) => {
                    // A caught write would be lost; the summary of all tests reads this line.
                    let _ = writeln!(std::io::stdout(), "could not run: {name}: {variable} is not set");
                }
            }
        }
        fixtures
    }

    async fn at(url: &str) -> Self {
        let server: MySqlConnectOptions = url.parse().unwrap();
        let database = format!("pillarbox_s_{}", Uuid::now_v7().simple());
        let mut connection = server.connect().await.unwrap();
        run(&mut connection, &format!("CREATE DATABASE {database}")).await;
        let options = server.clone().database(&database);
        let pool = MySqlPoolOptions::new().max_connections(16).connect_lazy_with(options.clone());
        Self { server, database, options, pool }
    }

    pub(crate) fn builder(&self) -> MysqlStoreBuilder {
        MysqlStore::builder(self.pool.clone())
    }

    /// A store of its own, as another process has one.
    pub(crate) fn beside(&self) -> MysqlStore {
        self.builder().open()
    }

    /// A store with its tables.
    pub(crate) async fn store(&self) -> MysqlStore {
        let store = self.beside();
        store.migrate().await.unwrap();
        store
    }

    /// A connection of someone else.
    pub(crate) async fn connection(&self) -> MySqlConnection {
        self.options.connect().await.unwrap()
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let row = query(AssertSqlSafe(sql)).fetch_one(&mut self.connection().await).await.unwrap();
        row.try_get(0).unwrap()
    }

    /// Ends every other connection to the database; how many there were.
    pub(crate) async fn end_connections(&self) -> usize {
        let mut connection = self.connection().await;
        let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = ? AND id <> connection_id()";
        let others: Vec<i64> =
            query_scalar(others).bind(&self.database).fetch_all(&mut connection).await.unwrap();
        for id in &others {
            // One that is closing by itself is gone already.
            let _ = connection.execute(raw_sql(AssertSqlSafe(format!("KILL CONNECTION {id}")))).await;
        }
        others.len()
    }

    /// Waits until so many transactions of ours wait for a lock.
    pub(crate) async fn until_locked(&self, count: usize) {
        let mut connection = self.connection().await;
        let asking = async { while self.waiting(&mut connection).await != count {} };
        assert!(timeout(NEVER, asking).await.is_ok(), "never {count} that wait");
    }

    /// How many wait. The table of transactions that both servers have is a copy that reading it keeps old.
    async fn waiting(&self, connection: &mut MySqlConnection) -> usize {
        let version: String = query_scalar("SELECT version()").fetch_one(&mut *connection).await.unwrap();
        if !version.contains("MariaDB") {
            let waiting = "SELECT count(DISTINCT w.requesting_thread_id) FROM performance_schema.data_lock_waits w \
                JOIN performance_schema.threads t ON t.thread_id = w.requesting_thread_id WHERE t.processlist_db = ?";
            let waiting: i64 =
                query_scalar(waiting).bind(&self.database).fetch_one(connection).await.unwrap();
            return waiting.try_into().unwrap();
        }
        let ours = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = ?";
        let ours = query_scalar(ours).bind(&self.database).fetch_all(&mut *connection).await.unwrap();
        let report = connection.fetch_one(raw_sql("SHOW ENGINE INNODB STATUS")).await.unwrap();
        reported(report.try_get_unchecked(2).unwrap()).filter(|id| ours.contains(id)).count()
    }
}

/// The connections whose transactions wait for a lock, by MariaDB's report.
fn reported(report: &str) -> impl Iterator<Item = i64> {
    let blocks = report.split("---TRANSACTION ").skip(1).filter(|block| block.contains("LOCK WAIT"));
    blocks.filter_map(|block| {
        let (_, rest) = block.split_once("thread id ")?;
        rest.split([',', ' ']).next()?.parse().ok()
    })
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let (server, database) = (self.server.clone(), self.database.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let Ok(mut connection) = server.connect().await else { return };
                // A test that failed may have left locks; its failure matters more.
                let text = format!("SET SESSION lock_wait_timeout = 5; DROP DATABASE IF EXISTS {database}");
                let _ = connection.execute(raw_sql(AssertSqlSafe(text))).await;
            });
        });
        let _ = dropping.join();
    }
}

/// Runs statements that answer nothing.
pub(crate) async fn run(connection: &mut MySqlConnection, sql: &str) {
    connection.execute(raw_sql(AssertSqlSafe(sql))).await.unwrap();
}

/// Reads every slot from a cursor on.
pub(crate) async fn fetch_from(store: &dyn Store, cursor: Cursor) -> Fetched {
    fetch_all(store, cursor, 10_000).await
}

pub(crate) async fn seq(fixture: &Fixture, id: &str) -> Seq {
    Seq(fixture.number(&format!("SELECT seq FROM outbox_event WHERE event_id = '{id}'")).await)
}
