//! The MySQL store in the flowcatalyst layout, as it is tried: a database of its own for each outbox.

use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::port::{Admin, AnyTable, StoreError};
use pillarbox_conformance::{
    Fixture, Foreign, ForeignRow, Harness, ITEM_TABLES, ItemRow, Later, OnBegin, Planted, Unlock,
};
use pillarbox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlRow};
use pillarbox_mysql::sqlx::{Error, Executor, Row, query, raw_sql};
use pillarbox_mysql::{MysqlItemStore, MysqlStore};

use super::mysql::{Databases, failed, pool};

pub(crate) struct MysqlItems {
    name: &'static str,
    variable: &'static str,
}

impl MysqlItems {
    /// The one that is always there.
    pub(crate) fn mariadb() -> Self {
        Self { name: "mariadb-flowcatalyst", variable: "PILLARBOX_TEST_MARIADB_URL" }
    }

    /// MySQL's own.
    pub(crate) fn main() -> Self {
        Self { name: "mysql-flowcatalyst", variable: "PILLARBOX_TEST_MYSQL_URL" }
    }
}

impl Harness for MysqlItems {
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
    let options: MySqlConnectOptions = url.parse().map_err(failed)?;
    let databases = Databases::make(&options).await?;
    let [items, bare] = [&databases.name, &databases.bare].map(|name| pool(&options, name));
    let store = open(&items);
    store.migrate().await?;
    Ok(Fixture {
        beside: AnyTable::Items(Arc::new(open(&items))),
        transactions: Some(Arc::new(OnBegin(store.clone()))),
        open: Some(Arc::new(OnBegin(store.clone()))),
        bare: Some(AnyTable::Items(Arc::new(open(&bare)))),
        foreign: Arc::new(Rows { pool: items, bare }),
        store: AnyTable::Items(Arc::new(store)),
        guard: Some(Box::new(databases)),
    })
}

fn open(pool: &MySqlPool) -> MysqlItemStore {
    MysqlStore::builder(pool.clone()).open_items()
}

struct Rows {
    pool: MySqlPool,
    bare: MySqlPool,
}

impl Foreign for Rows {
    fn lock<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<Unlock>, StoreError>> {
        Box::pin(async move {
            let mut tx = self.pool.begin().await.map_err(failed)?;
            let find = query("SELECT 1 FROM outbox_events WHERE id = ? FOR UPDATE");
            find.bind(id).fetch_one(&mut *tx).await.map_err(failed)?;
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
            let insert = query(
                "INSERT INTO outbox_events (id, type, message_group, payload, status, retry_count, created_at, \
                 processed_at, error_message) VALUES (?, ?, ?, ?, ?, ?, from_unixtime(?), from_unixtime(?), ?)",
            );
            let insert = insert
                .bind(&row.id)
                .bind(&row.item_type)
                .bind(&row.message_group)
                .bind(&row.payload)
                .bind(&row.status)
                .bind(row.retry_count)
                .bind(row.created_at.as_second())
                .bind(row.processed_at.map(Timestamp::as_second))
                .bind(&row.error_message);
            insert.execute(&self.pool).await.map(|_| Planted::Taken).map_err(failed)
        })
    }

    fn look<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<ItemRow>, StoreError>> {
        Box::pin(async move {
            let select = query(
                "SELECT id, type, message_group, payload, status, retry_count, \
                 CAST(unix_timestamp(created_at) AS signed), CAST(unix_timestamp(processed_at) AS signed), \
                 error_message FROM outbox_events WHERE id = ?",
            );
            let row = select.bind(id).fetch_optional(&self.pool).await;
            row.and_then(|row| row.as_ref().map(item).transpose()).map_err(failed)
        })
    }

    fn make_item_tables(&self) -> Later<'_, Result<(), StoreError>> {
        Box::pin(async move { self.bare.execute(raw_sql(ITEM_TABLES)).await.map(drop).map_err(failed) })
    }
}

fn item(row: &MySqlRow) -> Result<ItemRow, Error> {
    let time = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
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
