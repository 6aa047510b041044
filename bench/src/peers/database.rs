//! A database of its own for each measurement, on the server that all contenders share.

use std::time::{Duration, Instant};

use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{AssertSqlSafe, ConnectOptions, Connection, query_as, query_scalar, raw_sql};

use crate::database::unique_name;
use crate::postgres::server::{Server, Times, wal};

/// What is asked of a server of our own; its other settings are those of its start.
const SETTINGS: &str = "ALTER SYSTEM SET max_wal_size = '8GB'; ALTER SYSTEM SET checkpoint_timeout = '1h'";
/// What a reader must know of a server.
const SHOWN: &str = "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', \
    'shared_buffers', 'max_wal_size', 'checkpoint_timeout', 'wal_level', 'autovacuum', 'full_page_writes', \
    'max_connections') ORDER BY name";
const BUSINESS: &str = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
    account_id bigint NOT NULL, amount bigint NOT NULL, note text NOT NULL)";
const LOOK: Duration = Duration::from_millis(1);
const RELOADED: Duration = Duration::from_millis(500);

/// Whether the server was started for this run and may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    Theirs,
}

/// The server.
pub(crate) struct Host {
    admin: PgPool,
    options: PgConnectOptions,
    pub(crate) version: String,
    pub(crate) settings: Vec<(String, String)>,
}

impl Host {
    pub(crate) async fn open(url: &str, ownership: Ownership) -> anyhow::Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        let admin = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        if ownership == Ownership::Ours {
            for setting in SETTINGS.split("; ") {
                raw_sql(setting).execute(&admin).await?;
            }
            raw_sql("SELECT pg_reload_conf()").execute(&admin).await?;
            // The main process reloads when it gets to it; a connection made after that has the new settings.
            tokio::time::sleep(RELOADED).await;
        }
        let mut later = options.connect().await?;
        let version = query_scalar("SHOW server_version").fetch_one(&mut later).await?;
        let settings = query_as(SHOWN).fetch_all(&mut later).await?;
        later.close().await?;
        Ok(Self { admin, options, version, settings })
    }

    /// A fresh database with a table of orders.
    pub(crate) async fn database(&self) -> anyhow::Result<Database> {
        let name = unique_name();
        raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&self.admin).await?;
        let options = self.options.clone().database(&name);
        let mut connection = options.connect().await?;
        raw_sql(BUSINESS).execute(&mut connection).await?;
        let own = query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
        let (host, port, user) = (options.get_host(), options.get_port(), options.get_username());
        let url = format!("postgres://{user}@{host}:{port}/{name}?sslmode=disable");
        let admin = self.admin.clone();
        Ok(Database { admin, connection, server: Server::find(&self.admin).await?, own, name, url })
    }
}

/// What the server has spent so far.
pub(crate) struct Spent {
    pub(crate) cpu: Times,
    pub(crate) wal: i64,
}

/// One database.
pub(crate) struct Database {
    admin: PgPool,
    connection: PgConnection,
    server: Server,
    /// The process of our own connection, whose looks are not the contender's work.
    own: i32,
    name: String,
    pub(crate) url: String,
}

impl Database {
    /// Writes everything out, so that what follows writes each page to the log as a whole first.
    pub(crate) async fn checkpoint(&mut self) -> anyhow::Result<()> {
        raw_sql("CHECKPOINT").execute(&mut self.connection).await?;
        Ok(())
    }

    pub(crate) async fn vacuum(&mut self) -> anyhow::Result<()> {
        raw_sql("VACUUM (ANALYZE)").execute(&mut self.connection).await?;
        Ok(())
    }

    pub(crate) async fn spent(&self) -> anyhow::Result<Spent> {
        Ok(Spent { cpu: self.server.processes()?.without(self.own), wal: wal(&self.admin).await? })
    }

    /// How many jobs are not finished.
    pub(crate) async fn pending(&mut self, sql: &'static str) -> anyhow::Result<i64> {
        Ok(query_scalar(sql).fetch_one(&mut self.connection).await?)
    }

    /// Waits until no job is pending.
    pub(crate) async fn finished(&mut self, sql: &'static str, patience: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        loop {
            let left = self.pending(sql).await?;
            if left == 0 {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < until, "{left} jobs are pending after {patience:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        self.connection.close().await?;
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        raw_sql(AssertSqlSafe(sql)).execute(&self.admin).await?;
        Ok(())
    }
}
