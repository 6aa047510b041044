//! The PostgreSQL store in the flowcatalyst layout, as it is tried: a schema of its own for each outbox.

use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::model::TableName;
use pillarbox::port::{Admin, AnyTable, ErrorKind, StoreError};
use pillarbox_conformance::{
    Fixture, Foreign, ForeignRow, Harness, ITEM_TABLES, ItemRow, Later, OnBegin, Planted, Unlock,
};
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use pillarbox_postgres::sqlx::{AssertSqlSafe, Error, Executor, Row, query, raw_sql};
use pillarbox_postgres::{Pooler, PostgresItemStore, PostgresStore};
use uuid::Uuid;

const VARIABLE: &str = "PILLARBOX_TEST_POSTGRES_URL";

pub(crate) struct PostgresItems;

impl Harness for PostgresItems {
    fn name(&self) -> &str {
        "postgres-flowcatalyst"
    }

    fn fresh(&self) -> Later<'_, Result<Fixture, String>> {
        Box::pin(async {
            let url = std::env::var(VARIABLE)
                .map_err(|_| format!("{VARIABLE} is not set; `cargo xtask test` starts a server"))?;
            fixture(&url).await.map_err(|error| error.to_string())
        })
    }
}

async fn fixture(url: &str) -> Result<Fixture, StoreError> {
    // A test outlives no power cut, so its commits need not reach the disk. The zone shows whether times are in UTC.
    let options: PgConnectOptions = url.parse().map_err(failed)?;
    let options = options.options([("synchronous_commit", "off"), ("timezone", "Asia/Tokyo")]);
    let pool = PgPoolOptions::new().max_connections(16).connect_with(options).await.map_err(failed)?;
    let schema = format!("t_{}", Uuid::now_v7().simple());
    let bare = format!("{schema}_bare");
    for schema in [&schema, &bare] {
        let create = format!("CREATE SCHEMA {schema}");
        query(AssertSqlSafe(create)).execute(&pool).await.map_err(failed)?;
    }
    let store = open(&pool, &schema)?;
    store.migrate().await?;
    Ok(Fixture {
        beside: AnyTable::Items(Arc::new(open(&pool, &schema)?)),
        transactions: Some(Arc::new(OnBegin(store.clone()))),
        open: Some(Arc::new(OnBegin(store.clone()))),
        bare: Some(AnyTable::Items(Arc::new(open(&pool, &bare)?))),
        foreign: Arc::new(Rows { pool: pool.clone(), schema, bare }),
        store: AnyTable::Items(Arc::new(store)),
        guard: Some(Box::new(pool)),
    })
}

fn open(pool: &PgPool, schema: &str) -> Result<PostgresItemStore, StoreError> {
    let builder = PostgresStore::builder(pool.clone()).pooler(Pooler::None);
    Ok(builder.schema(TableName::new(schema)?).open_items())
}

fn failed(error: Error) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "prepare", "postgres", "a fresh outbox").with_source(error)
}

struct Rows {
    pool: PgPool,
    schema: String,
    bare: String,
}

impl Foreign for Rows {
    fn lock<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<Unlock>, StoreError>> {
        Box::pin(async move {
            let sql = format!("SELECT 1 FROM {}.outbox_events WHERE id = $1 FOR UPDATE", self.schema);
            let mut tx = self.pool.begin().await.map_err(failed)?;
            query(AssertSqlSafe(sql)).bind(id).fetch_one(&mut *tx).await.map_err(failed)?;
            let unlock = move || -> Later<'static, ()> {
                Box::pin(async move { tx.rollback().await.expect("a transaction that is open") })
            };
            Ok(Some(Box::new(unlock) as Unlock))
        })
    }

    fn write(&self, _: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async { Ok(Planted::Refused) })
    }

    fn plant(&self, row: ItemRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            if row.payload.is_none() {
                return Ok(Planted::Refused);
            }
            let sql = format!(
                "INSERT INTO {}.outbox_events (id, type, message_group, payload, status, retry_count, created_at, \
                 processed_at, error_message) \
                 VALUES ($1, $2, $3, $4, $5, $6, to_timestamp($7) AT TIME ZONE 'UTC', to_timestamp($8) AT TIME ZONE 'UTC', $9)",
                self.schema
            );
            let insert = query(AssertSqlSafe(sql))
                .bind(&row.id)
                .bind(&row.item_type)
                .bind(&row.message_group)
                .bind(&row.payload)
                .bind(&row.status)
                .bind(row.retry_count)
                .bind(row.created_at.as_second() as f64)
                .bind(row.processed_at.map(|at| at.as_second() as f64))
                .bind(&row.error_message);
            insert.execute(&self.pool).await.map(|_| Planted::Taken).map_err(failed)
        })
    }

    fn look<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<ItemRow>, StoreError>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT id, type, message_group, payload, status, retry_count, \
                 (extract(epoch FROM created_at) * 1000000)::bigint, \
                 (extract(epoch FROM processed_at) * 1000000)::bigint, error_message \
                 FROM {}.outbox_events WHERE id = $1",
                self.schema
            );
            let row = query(AssertSqlSafe(sql)).bind(id).fetch_optional(&self.pool).await;
            row.and_then(|row| row.as_ref().map(item).transpose()).map_err(failed)
        })
    }

    fn make_item_tables(&self) -> Later<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let mut tx = self.pool.begin().await.map_err(failed)?;
            let script = format!("SET LOCAL search_path = {};{ITEM_TABLES}", self.bare);
            tx.execute(raw_sql(AssertSqlSafe(script))).await.map_err(failed)?;
            tx.commit().await.map_err(failed)
        })
    }
}

fn item(row: &PgRow) -> Result<ItemRow, Error> {
    let time = |us: i64| Timestamp::from_microsecond(us).expect("a time");
    Ok(ItemRow {
        id: row.try_get(0)?,
        item_type: row.try_get(1)?,
        message_group: row.try_get(2)?,
        payload: row.try_get(3)?,
        status: row.try_get(4)?,
        retry_count: row.try_get(5)?,
        created_at: time(row.try_get(6)?),
        processed_at: row.try_get::<Option<i64>, _>(7)?.map(time),
        error_message: row.try_get(8)?,
    })
}
