//! The MySQL store, as it is tried: a database of its own for each outbox, on a server that is named by a variable.

use std::sync::Arc;

use pillarbox::port::{Admin, AnyTable, ErrorKind, StoreError};
use pillarbox_conformance::{Fixture, Foreign, ForeignRow, Harness, Later, OnBegin, Planted, Unlock};
use pillarbox_mysql::MysqlStore;
use pillarbox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use pillarbox_mysql::sqlx::{AssertSqlSafe, Error, query};
use uuid::Uuid;

pub(crate) struct Mysql {
    name: &'static str,
    variable: &'static str,
}

impl Mysql {
    /// The one that is always there.
    pub(crate) fn mariadb() -> Self {
        Self { name: "mariadb", variable: "PILLARBOX_TEST_MARIADB_URL" }
    }

    /// MySQL's own.
    pub(crate) fn main() -> Self {
        Self { name: "mysql", variable: "PILLARBOX_TEST_MYSQL_URL" }
    }
}

impl Harness for Mysql {
    fn name(&self) -> &str {
        self.name
    }

    fn fresh(&self) -> Later<'_, Result<Fixture, String>> {
        Box::pin(async {
            let url = std::env::var(self.variable)
                .map_err(|_| format!("{} is not set; `cargo xtask test` starts a server", self.variable))?;
            fixture(&url, self.name == "mariadb").await.map_err(|error| error.to_string())
        })
    }
}

async fn fixture(url: &str, is_mariadb: bool) -> Result<Fixture, StoreError> {
    let options: MySqlConnectOptions = url.parse().map_err(failed)?;
    let databases = Databases::make(&options).await?;
    let [pool, bare] = [&databases.name, &databases.bare].map(|name| pool(&options, name));
    let store = MysqlStore::new(pool.clone());
    store.migrate().await?;
    Ok(Fixture {
        beside: AnyTable::Native(Arc::new(MysqlStore::new(pool.clone()))),
        foreign: Arc::new(Rows { pool, is_mariadb }),
        transactions: Some(Arc::new(OnBegin(store.clone()))),
        open: Some(Arc::new(OnBegin(store.clone()))),
        bare: Some(AnyTable::Native(Arc::new(MysqlStore::new(bare)))),
        store: AnyTable::Native(Arc::new(store)),
        guard: Some(Box::new(databases)),
    })
}

pub(crate) fn pool(options: &MySqlConnectOptions, database: &str) -> MySqlPool {
    MySqlPoolOptions::new().max_connections(16).connect_lazy_with(options.clone().database(database))
}

pub(crate) fn failed(error: Error) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "prepare", "mysql", "a fresh outbox").with_source(error)
}

/// Two databases that go when the fixture goes.
pub(crate) struct Databases {
    server: MySqlPool,
    pub(crate) name: String,
    pub(crate) bare: String,
}

impl Databases {
    pub(crate) async fn make(options: &MySqlConnectOptions) -> Result<Self, StoreError> {
        let server = MySqlPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
        let name = format!("pillarbox_t_{}", Uuid::now_v7().simple());
        let databases = Self { server, bare: format!("{name}_bare"), name };
        for name in [&databases.name, &databases.bare] {
            let make = query(AssertSqlSafe(format!("CREATE DATABASE {name}")));
            make.execute(&databases.server).await.map_err(failed)?;
        }
        Ok(databases)
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        let (server, names) = (self.server.clone(), [self.name.clone(), self.bare.clone()]);
        // A runtime of its own: that of the case may be about to end.
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let again = MySqlPoolOptions::new()
                    .max_connections(1)
                    .connect_lazy_with((*server.connect_options()).clone());
                for name in names {
                    // A case that has failed may have left locks; its failure matters more.
                    let _ =
                        query(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).execute(&again).await;
                }
                again.close().await;
            });
        });
        let _ = dropped.join();
    }
}

struct Rows {
    pool: MySqlPool,
    is_mariadb: bool,
}

impl Foreign for Rows {
    fn lock<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<Unlock>, StoreError>> {
        Box::pin(async move {
            let mut tx = self.pool.begin().await.map_err(failed)?;
            let find = query("SELECT 1 FROM outbox_event WHERE event_id = ? FOR UPDATE");
            find.bind(id).fetch_one(&mut *tx).await.map_err(failed)?;
            let unlock = move || -> Later<'static, ()> {
                Box::pin(async move { tx.rollback().await.expect("a transaction that is open") })
            };
            Ok(Some(Box::new(unlock) as Unlock))
        })
    }

    fn locks_reach_neighbours(&self) -> bool {
        self.is_mariadb
    }

    fn write(&self, row: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            // Typed columns: what is no text can't be in a text column, nor text where a number should be.
            if row.id_bytes.is_some()
                || [&row.attempts, &row.created_at, &row.available_at].iter().any(|t| t.is_some())
            {
                return Ok(Planted::Refused);
            }
            let insert = query(
                "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, \
                 headers, status, attempts, available_at, created_at) \
                 VALUES (?, ?, ?, ?, NULL, ?, ?, 0, 0, utc_timestamp(6), utc_timestamp(6))",
            );
            let insert = insert
                .bind(&row.event_id)
                .bind(&row.event_type)
                .bind(&row.aggregate_type)
                .bind(&row.aggregate_id)
                .bind(&row.payload)
                .bind(&row.headers);
            insert.execute(&self.pool).await.map(|_| Planted::Taken).map_err(failed)
        })
    }
}
