//! What the tests share: an outbox in a schema of its own, with a table of orders, reached by both drivers.

use std::io::Write as _;

use pillarbox::model::{Event, NewRow, Placement, TableName};
use pillarbox::port::Admin;
use pillarbox_postgres::deadpool_postgres::{Manager, Pool};
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{AssertSqlSafe, query, query_scalar};
use pillarbox_postgres::tokio_postgres::{Config, NoTls};
use pillarbox_postgres::{PipelinedStore, Pooler, PostgresStore, PostgresWakeUp};
use tokio::time::timeout;
use uuid::Uuid;

use crate::wire::NEVER;

/// The server that the tests run on.
pub(crate) const URL: &str = "PILLARBOX_TEST_POSTGRES_URL";

pub(crate) struct Kit {
    pub(crate) schema: String,
    pub(crate) pool: PgPool,
    pub(crate) store: PostgresStore,
}

/// Says that a test could not run; the summary of all tests reads the line.
pub(crate) fn could_not_run(test: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "could not run: {test}: {reason}");
}

/// The server's URL; none, with a line that says so, where there is no server.
fn url(test: &str) -> Option<String> {
    let url = std::env::var(URL).ok();
    if url.is_none() {
        could_not_run(test, &format!("{URL} is not set; `cargo xtask test` starts a server"));
    }
    url
}

impl Kit {
    pub(crate) async fn new(test: &str) -> Option<Self> {
        let url = url(test)?;
        let pool = PgPoolOptions::new().max_connections(4).connect(&url).await.unwrap();
        let schema = format!("t_{}", Uuid::now_v7().simple());
        let store = store_on(&schema, pool.clone());
        let kit = Self { schema, pool, store };
        kit.run(format!("CREATE SCHEMA {}", kit.schema)).await;
        kit.store.migrate().await.unwrap();
        kit.run(format!("CREATE TABLE {}.orders (id bigint PRIMARY KEY)", kit.schema)).await;
        Some(kit)
    }

    async fn run(&self, sql: String) {
        query(AssertSqlSafe(sql)).execute(&self.pool).await.unwrap();
    }

    pub(crate) fn config(&self) -> Config {
        let mut config: Config = std::env::var(URL).unwrap().parse().unwrap();
        config.application_name(&self.schema);
        config
    }

    pub(crate) fn pipelined(&self, connections: usize) -> PipelinedStore {
        self.pipelined_with(self.config(), connections)
    }

    /// A store whose transactions go over this port; all else goes straight to the server.
    pub(crate) fn pipelined_through(&self, port: u16, connections: usize) -> PipelinedStore {
        let straight = self.config();
        let mut through = Config::new();
        through.host("127.0.0.1").port(port).user(straight.get_user().unwrap());
        through.dbname(straight.get_dbname().unwrap()).application_name(&self.schema);
        self.pipelined_with(through, connections)
    }

    fn pipelined_with(&self, config: Config, connections: usize) -> PipelinedStore {
        let pool = Pool::builder(Manager::new(config, NoTls)).max_size(connections).build().unwrap();
        PipelinedStore::new(self.store.clone(), pool)
    }

    /// A store on a pool of its own.
    pub(crate) fn own_pool(&self, connections: u32) -> (PostgresStore, PgPool) {
        let pool = PgPoolOptions::new().max_connections(connections).connect_lazy_with(self.options());
        (store_on(&self.schema, pool.clone()), pool)
    }

    /// A store all of whose connections go over this port.
    pub(crate) fn store_through(&self, port: u16, connections: u32) -> PostgresStore {
        let through = self.options().host("127.0.0.1").port(port);
        store_on(&self.schema, PgPoolOptions::new().max_connections(connections).connect_lazy_with(through))
    }

    /// The same, and it tells nobody of new rows.
    pub(crate) fn quiet_store_through(&self, port: u16, connections: u32) -> PostgresStore {
        let through = self.options().host("127.0.0.1").port(port);
        let pool = PgPoolOptions::new().max_connections(connections).connect_lazy_with(through);
        let builder = PostgresStore::builder(pool).pooler(Pooler::None).wake_up(PostgresWakeUp::Off);
        builder.schema(TableName::new(&*self.schema).unwrap()).open()
    }

    fn options(&self) -> PgConnectOptions {
        let options: PgConnectOptions = std::env::var(URL).unwrap().parse().unwrap();
        options.application_name(&self.schema)
    }

    pub(crate) fn order(&self, id: i64) -> String {
        format!("INSERT INTO {}.orders VALUES ({id})", self.schema)
    }

    pub(crate) async fn number(&self, sql: String) -> i64 {
        query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.unwrap()
    }

    /// How many events and orders there are.
    pub(crate) async fn counts(&self) -> (i64, i64) {
        let count = |table| format!("SELECT count(*) FROM {}.{table}", self.schema);
        (self.number(count("outbox_event")).await, self.number(count("orders")).await)
    }

    /// Asks until no connection of the test's own pools is in a transaction with nothing to do; whether that came to be.
    /// A call that was dropped may end in a task of the store's, and there is no signal for that.
    pub(crate) async fn none_left_open(&self) -> bool {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND application_name";
        let sql = format!("{sql} = '{}'", self.schema);
        let asking = async { while self.number(sql.clone()).await > 0 {} };
        timeout(NEVER, asking).await.is_ok()
    }
}

fn store_on(schema: &str, pool: PgPool) -> PostgresStore {
    let schema = TableName::new(schema).unwrap();
    PostgresStore::builder(pool).pooler(Pooler::None).schema(schema).open()
}

pub(crate) fn event(id: &str) -> Event {
    Event::text("OrderPlaced", r#"{"total":1}"#).id(id).build().unwrap()
}

pub(crate) fn row(id: &str) -> NewRow {
    NewRow { event: event(id), placement: Placement::Slot }
}
