//! What the tests share: an outbox in a schema of its own, with a table of orders, reached by both drivers.

use std::io::Write as _;

use pillarbox::model::{Event, NewRow, Placement, TableName};
use pillarbox::port::Admin;
use pillarbox_postgres::deadpool_postgres::{Manager, Pool};
use pillarbox_postgres::sqlx::postgres::{PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{AssertSqlSafe, query, query_scalar};
use pillarbox_postgres::tokio_postgres::{Config, NoTls};
use pillarbox_postgres::{PipelinedStore, Pooler, PostgresStore};
use uuid::Uuid;

pub(crate) struct Kit {
    pub(crate) schema: String,
    pub(crate) pool: PgPool,
    pub(crate) store: PostgresStore,
}

/// The server's URL; none, with a line that says so, where there is no server.
pub(crate) fn url(test: &str) -> Option<String> {
    let variable = "PILLARBOX_TEST_POSTGRES_URL";
    let url = std::env::var(variable).ok();
    if url.is_none() {
        let mut out = std::io::stdout();
        writeln!(out, "could not run: {test}: {variable} is not set; `cargo xtask test` starts a server")
            .unwrap();
    }
    url
}

impl Kit {
    pub(crate) async fn new(test: &str) -> Option<Self> {
        let url = url(test)?;
        let pool = PgPoolOptions::new().max_connections(4).connect(&url).await.unwrap();
        let schema = format!("t_{}", Uuid::now_v7().simple());
        let store = PostgresStore::builder(pool.clone())
            .pooler(Pooler::None)
            .schema(TableName::new(&schema).unwrap())
            .open();
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
        let mut config: Config = std::env::var("PILLARBOX_TEST_POSTGRES_URL").unwrap().parse().unwrap();
        config.application_name(&self.schema);
        config
    }

    pub(crate) fn pipelined(&self, connections: usize) -> PipelinedStore {
        let manager = Manager::new(self.config(), NoTls);
        let pool = Pool::builder(manager).max_size(connections).build().unwrap();
        PipelinedStore::new(self.store.clone(), pool)
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

    /// Connections of the pipelined pool that are in a transaction and have nothing to do.
    pub(crate) async fn left_open(&self) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND application_name";
        self.number(format!("{sql} = '{}'", self.schema)).await
    }
}

pub(crate) fn event(id: &str) -> Event {
    Event::text("OrderPlaced", r#"{"total":1}"#).id(id).build().unwrap()
}

pub(crate) fn row(id: &str) -> NewRow {
    NewRow { event: event(id), placement: Placement::Slot }
}
