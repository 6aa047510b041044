//! A fixture to measure in: a schema with an outbox and business tables, and everything that is done to it from beside.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pillarbox::model::TableName;
use pillarbox::port::Table;
use pillarbox_postgres::deadpool_postgres::{Manager, Pool};
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, Postgres};
use pillarbox_postgres::sqlx::{AssertSqlSafe, Transaction, query, query_scalar, raw_sql};
use pillarbox_postgres::tokio_postgres::{Config, NoTls};
use pillarbox_postgres::{Pooler, PostgresStore, PostgresWakeUp};

use crate::database::{ACCOUNTS, Kind, MEASURED, PATIENCE, payload, unique_name};

/// A schema of its own.
pub(super) struct Fixture {
    admin: PgPool,
    options: PgConnectOptions,
    schema: String,
}

impl Fixture {
    /// A fresh one, with tables and nothing in them.
    pub(super) async fn new(url: &str) -> anyhow::Result<Self> {
        let schema = unique_name();
        let options: PgConnectOptions = url.parse()?;
        // By the name of the schema its connections are found again.
        let options = options.application_name(&schema).options([("search_path", schema.as_str())]);
        let admin =
            PgPoolOptions::new().max_connections(2).connect_with(url.parse::<PgConnectOptions>()?).await?;
        let fixture = Self { admin, options, schema };
        fixture.make().await?;
        Ok(fixture)
    }

    async fn make(&self) -> anyhow::Result<()> {
        self.admin_run(&format!("CREATE SCHEMA {}", self.schema)).await?;
        let business = format!(
            "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account_id bigint NOT NULL, \
                 amount bigint NOT NULL, note text NOT NULL); \
             CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL); \
             INSERT INTO account SELECT n, 0 FROM generate_series(0, {ACCOUNTS} - 1) n"
        );
        let store = self.store(1, PostgresWakeUp::Off).await?;
        store.admin().migrate().await?;
        raw_sql(AssertSqlSafe(business)).execute(store.pool()).await?;
        raw_sql("ANALYZE account").execute(store.pool()).await?;
        store.pool().close().await;
        Ok(())
    }

    async fn admin_run(&self, sql: &str) -> anyhow::Result<()> {
        raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.admin).await?;
        Ok(())
    }

    /// Clients of tokio-postgres for business transactions.
    pub(super) fn clients(&self, connections: usize) -> anyhow::Result<Pool> {
        let mut config = Config::new();
        config.host(self.options.get_host()).port(self.options.get_port()).user(self.options.get_username());
        config.options(format!("-c search_path={}", self.schema)).application_name(&self.schema);
        if let Some(database) = self.options.get_database() {
            config.dbname(database);
        }
        Ok(Pool::builder(Manager::new(config, NoTls)).max_size(connections).build()?)
    }

    /// Connections for business transactions.
    pub(super) async fn pool(&self, connections: u32) -> anyhow::Result<PgPool> {
        let options = PgPoolOptions::new().max_connections(connections).min_connections(connections);
        Ok(options.test_before_acquire(false).connect_with(self.options.clone()).await?)
    }

    /// The store, beside a pool of so many connections.
    pub(super) async fn store(
        &self,
        connections: u32,
        wake_up: PostgresWakeUp,
    ) -> anyhow::Result<PostgresStore> {
        let builder = PostgresStore::builder(self.pool(connections).await?).pooler(Pooler::None);
        Ok(builder.schema(TableName::new(&self.schema)?).wake_up(wake_up).open())
    }

    /// The same, reached through another address.
    pub(super) fn through(&self, address: SocketAddr) -> Self {
        let options = self.options.clone().host(&address.ip().to_string()).port(address.port());
        Self { admin: self.admin.clone(), options, schema: self.schema.clone() }
    }

    /// How its connections are made.
    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Connections to look from.
    pub(super) fn admin(&self) -> &PgPool {
        &self.admin
    }

    /// The name of the schema, and of its connections.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Adds rows that wait, by one statement on the server.
    pub(super) async fn fill(&self, rows: usize, kind: Kind) -> anyhow::Result<()> {
        Ok(self.fill_open(rows, kind).await?.commit().await?)
    }

    /// Adds rows that wait on a transaction that the caller commits, for nodes that are already looking.
    pub(super) async fn fill_open(
        &self,
        rows: usize,
        kind: Kind,
    ) -> anyhow::Result<Transaction<'static, Postgres>> {
        let (lane, group) = match kind {
            Kind::Lane => ("64".to_owned(), "NULL".to_owned()),
            Kind::Groups(groups) => ("NULL".to_owned(), format!("'group ' || n % {groups}")),
            Kind::Queue => ("-2".to_owned(), "NULL".to_owned()),
        };
        let mut tx = self.admin.begin().await?;
        raw_sql(AssertSqlSafe(self.insert(rows, &lane, &group, "0, NULL"))).execute(&mut *tx).await?;
        Ok(tx)
    }

    /// Adds rows that are done.
    pub(super) async fn fill_done(&self, rows: usize) -> anyhow::Result<()> {
        self.admin_run(&self.insert(rows, "64", "NULL", "1, now()")).await
    }

    /// Creates a lean table of jobs, with its primary key as the only index, and fills it.
    pub(super) async fn fill_jobs(&self, jobs: usize) -> anyhow::Result<()> {
        let schema = &self.schema;
        let sql = format!(
            "CREATE TABLE {schema}.job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, \
                 payload text NOT NULL, run_at timestamptz NOT NULL, locked_by text, locked_until timestamptz, \
                 attempts integer NOT NULL DEFAULT 0); \
             INSERT INTO {schema}.job (topic, payload, run_at) \
                 SELECT '{MEASURED}', '{}', now() FROM generate_series(1, {jobs})",
            payload()
        );
        self.admin_run(&sql).await?;
        self.admin_run(&format!("VACUUM (ANALYZE) {schema}.job")).await
    }

    fn insert(&self, rows: usize, lane: &str, group: &str, ended: &str) -> String {
        let schema = &self.schema;
        format!(
            "INSERT INTO {schema}.outbox_event (event_id, event_type, aggregate_type, lane, message_group, payload, \
                 occurred_at, available_at, created_at, status, done_at) \
             SELECT lpad((n + (SELECT last_value FROM {schema}.outbox_event_seq))::text, 26, '0'), '{MEASURED}', \
                 '__GLOBAL__', {lane}, {group}, '{}', now(), now(), now(), {ended} FROM generate_series(1, {rows}) n",
            payload()
        )
    }

    /// Vacuums the outbox and writes everything out, so that a round does not pay for what came before it.
    pub(super) async fn calm(&self) -> anyhow::Result<()> {
        self.vacuum().await?;
        self.admin_run("CHECKPOINT").await
    }

    /// Vacuums the outbox.
    pub(super) async fn vacuum(&self) -> anyhow::Result<()> {
        self.admin_run(&format!("VACUUM (ANALYZE) {}.outbox_event", self.schema)).await
    }

    /// How many rows wait.
    pub(super) async fn pending(&self) -> anyhow::Result<usize> {
        let sql = format!("SELECT count(*) FROM {}.outbox_event WHERE status IN (0, 2)", self.schema);
        let count: i64 = query_scalar(AssertSqlSafe(sql)).fetch_one(&self.admin).await?;
        Ok(usize::try_from(count)?)
    }

    /// Waits until no more than so many rows wait.
    pub(super) async fn settled(&self, left: usize) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.pending().await? > left {
            anyhow::ensure!(Instant::now() < until, "events were not settled");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Tells listening nodes that there are rows, as a writer would.
    pub(super) async fn notify(&self) -> anyhow::Result<()> {
        query("SELECT pg_notify('outbox_event', '')").execute(&self.admin).await?;
        Ok(())
    }

    /// Drops everything.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        let sql = format!("SET client_min_messages = warning; DROP SCHEMA {} CASCADE", self.schema);
        self.admin_run(&sql).await?;
        self.admin.close().await;
        Ok(())
    }
}
