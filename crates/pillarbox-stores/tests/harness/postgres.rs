//! The PostgreSQL store, as it is tried: a schema of its own for each outbox, on a server that is named by a variable.

use std::sync::Arc;

use pillarbox::model::TableName;
use pillarbox::port::{Admin, AnyTable, ErrorKind, StoreError};
use pillarbox_conformance::{Fixture, Foreign, ForeignRow, Harness, Later, OnBegin, Planted, Unlock};
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{AssertSqlSafe, Error, query};
use pillarbox_postgres::{Pooler, PostgresStore};
use uuid::Uuid;

pub(crate) struct Postgres {
    name: &'static str,
    variable: &'static str,
}

impl Postgres {
    /// The version that most people run.
    pub(crate) fn main() -> Self {
        Self { name: "postgres", variable: "PILLARBOX_TEST_POSTGRES_URL" }
    }

    /// The newest version.
    pub(crate) fn newest() -> Self {
        Self { name: "postgres-18", variable: "PILLARBOX_TEST_POSTGRES_18_URL" }
    }
}

impl Harness for Postgres {
    fn name(&self) -> &str {
        self.name
    }

    fn fresh(&self) -> Later<'_, Result<Fixture, String>> {
        Box::pin(async {
            let url = std::env::var(self.variable)
                .map_err(|_| format!("{} is not set; `cargo xtask test` starts a server", self.variable))?;
            fixture(&url).await.map_err(|error| error.to_string())
        })
    }
}

async fn fixture(url: &str) -> Result<Fixture, StoreError> {
    // A test outlives no power cut, so its commits need not reach the disk.
    let options: PgConnectOptions = url.parse().map_err(failed)?;
    let options = options.options([("synchronous_commit", "off")]);
    let pool = PgPoolOptions::new().max_connections(16).connect_with(options).await.map_err(failed)?;
    let schema = format!("t_{}", Uuid::now_v7().simple());
    make_schema(&pool, &schema).await?;
    let bare = format!("{schema}_bare");
    make_schema(&pool, &bare).await?;
    let store = open(&pool, &schema)?;
    store.migrate().await?;
    Ok(Fixture {
        beside: AnyTable::Native(Arc::new(open(&pool, &schema)?)),
        foreign: Arc::new(Rows { pool: pool.clone(), schema: schema.clone() }),
        transactions: Some(Arc::new(OnBegin(store.clone()))),
        open: Some(Arc::new(OnBegin(store.clone()))),
        bare: Some(AnyTable::Native(Arc::new(open(&pool, &bare)?))),
        store: AnyTable::Native(Arc::new(store)),
        guard: Some(Box::new(pool)),
    })
}

fn open(pool: &PgPool, schema: &str) -> Result<PostgresStore, StoreError> {
    let builder = PostgresStore::builder(pool.clone()).pooler(Pooler::None);
    Ok(builder.schema(TableName::new(schema)?).open())
}

async fn make_schema(pool: &PgPool, schema: &str) -> Result<(), StoreError> {
    query(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(pool).await.map_err(failed)?;
    Ok(())
}

fn failed(error: Error) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "prepare", "postgres", "a fresh outbox").with_source(error)
}

struct Rows {
    pool: PgPool,
    schema: String,
}

impl Foreign for Rows {
    fn lock<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<Unlock>, StoreError>> {
        Box::pin(async move {
            let sql = format!("SELECT 1 FROM {}.outbox_event WHERE event_id = $1 FOR UPDATE", self.schema);
            let mut tx = self.pool.begin().await.map_err(failed)?;
            query(AssertSqlSafe(sql)).bind(id).fetch_one(&mut *tx).await.map_err(failed)?;
            let unlock = move || -> Later<'static, ()> {
                Box::pin(async move { tx.rollback().await.expect("a transaction that is open") })
            };
            Ok(Some(Box::new(unlock) as Unlock))
        })
    }

    fn write(&self, row: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            // Typed columns: what is no text can't be in a text column, nor text where a number should be.
            if row.id_bytes.is_some()
                || [&row.attempts, &row.created_at, &row.available_at].iter().any(|t| t.is_some())
            {
                return Ok(Planted::Refused);
            }
            let sql = format!(
                "INSERT INTO {}.outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, \
                 headers, status, attempts, available_at, created_at) \
                 VALUES ($1, $2, $3, $4, NULL, $5, $6, 0, 0, now(), now())",
                self.schema
            );
            let insert = query(AssertSqlSafe(sql))
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
