//! A fixture to measure in: a database with an outbox and business tables.

use pillarbox::port::Table;
use pillarbox_mysql::MysqlStore;
use pillarbox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use pillarbox_mysql::sqlx::{AssertSqlSafe, query_scalar, raw_sql};

use super::reader::Bare;
use crate::database::{ACCOUNTS, Database, Kind, MEASURED, Reads, add_by_store, payload, unique_name};

/// Rows of one insert.
const PAGE: usize = 1_000;

/// A database of its own.
pub(crate) struct Fixture {
    admin: MySqlPool,
    options: MySqlConnectOptions,
    name: String,
}

impl Fixture {
    /// Connections for business transactions.
    pub(super) async fn pool(&self, connections: u32) -> anyhow::Result<MySqlPool> {
        let options = MySqlPoolOptions::new().max_connections(connections).min_connections(connections);
        Ok(options.test_before_acquire(false).connect_with(self.options.clone()).await?)
    }

    /// How its connections are made.
    pub(super) fn options(&self) -> &MySqlConnectOptions {
        &self.options
    }

    /// Connections to look from.
    pub(super) fn admin(&self) -> &MySqlPool {
        &self.admin
    }

    /// Creates a lean table of jobs, with its primary key as the only index, and fills it.
    pub(super) async fn fill_jobs(&self, jobs: usize) -> anyhow::Result<()> {
        let name = &self.name;
        self.admin_run(format!(
            "CREATE TABLE {name}.job (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, topic varchar(255) NOT NULL, \
             payload text NOT NULL, run_at datetime(6) NOT NULL, locked_by varchar(255), locked_until datetime(6), \
             attempts int NOT NULL DEFAULT 0)"
        ))
        .await?;
        let row = format!("('{MEASURED}', '{}', utc_timestamp(6))", payload());
        for first in (0..jobs).step_by(PAGE) {
            let rows = vec![row.as_str(); PAGE.min(jobs - first)].join(", ");
            self.admin_run(format!("INSERT INTO {name}.job (topic, payload, run_at) VALUES {rows}")).await?;
        }
        self.admin_run(format!("ANALYZE TABLE {name}.job")).await
    }

    async fn admin_run(&self, sql: String) -> anyhow::Result<()> {
        raw_sql(AssertSqlSafe(sql)).execute(&self.admin).await?;
        Ok(())
    }

    async fn make(&self) -> anyhow::Result<()> {
        let name = &self.name;
        self.admin_run(format!("CREATE DATABASE {name}")).await?;
        let store = self.open_store(1).await?;
        store.admin().migrate().await?;
        Self::close_store(&store).await;
        let accounts: Vec<String> = (0..ACCOUNTS).map(|number| format!("({number}, 0)")).collect();
        for sql in [
            format!(
                "CREATE TABLE {name}.orders (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, \
                 account_id bigint NOT NULL, amount bigint NOT NULL, note text NOT NULL)"
            ),
            format!("CREATE TABLE {name}.account (id bigint NOT NULL PRIMARY KEY, balance bigint NOT NULL)"),
            format!("INSERT INTO {name}.account (id, balance) VALUES {}", accounts.join(", ")),
        ] {
            self.admin_run(sql).await?;
        }
        Ok(())
    }
}

impl Database for Fixture {
    type Store = MysqlStore;
    type Reader = Bare;

    const BARE: &'static str = "bare SQL";

    async fn fresh(url: &str) -> anyhow::Result<Self> {
        let options: MySqlConnectOptions = url.parse()?;
        let admin = MySqlPoolOptions::new().max_connections(2).connect_with(options.clone()).await?;
        let name = unique_name();
        let fixture = Self { admin, options: options.database(&name), name };
        fixture.make().await?;
        Ok(fixture)
    }

    async fn open_store(&self, connections: u32) -> anyhow::Result<MysqlStore> {
        Ok(MysqlStore::builder(self.pool(connections).await?).open())
    }

    async fn close_store(store: &MysqlStore) {
        store.close().await;
        store.pool().close().await;
    }

    async fn reader(&self, reads: Reads) -> anyhow::Result<Bare> {
        Bare::connect(&self.options, reads).await
    }

    async fn add(&self, rows: usize, kind: Kind) -> anyhow::Result<()> {
        let store = self.open_store(1).await?;
        add_by_store(&store, rows, kind).await?;
        Self::close_store(&store).await;
        Ok(())
    }

    async fn calmed(&self) -> anyhow::Result<()> {
        self.admin_run(format!("ANALYZE TABLE {}.outbox_event", self.name)).await
    }

    async fn waiting(&self) -> anyhow::Result<usize> {
        let sql = format!("SELECT count(*) FROM {}.outbox_event WHERE status IN (0, 2)", self.name);
        let count: i64 = query_scalar(AssertSqlSafe(sql)).fetch_one(&self.admin).await?;
        Ok(usize::try_from(count)?)
    }

    async fn drop_all(self) -> anyhow::Result<()> {
        self.admin_run(format!("DROP DATABASE {}", self.name)).await?;
        self.admin.close().await;
        Ok(())
    }
}
