//! The SQLite store in the flowcatalyst layout, as it is tried.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use pillarbox::port::{Admin, AnyTable, ErrorKind, StoreError};
use pillarbox_conformance::{
    Fixture, Foreign, ForeignRow, Harness, ITEM_TABLES, ItemRow, Later, OnTransact, Planted,
};
use pillarbox_sqlite::rusqlite::{Connection, Error, OptionalExtension, params};
use pillarbox_sqlite::{SqliteItemStore, SqliteStore, Synchronous};

pub(crate) struct SqliteItems;

impl Harness for SqliteItems {
    fn name(&self) -> &str {
        "sqlite-flowcatalyst"
    }

    fn fresh(&self) -> Later<'_, Result<Fixture, String>> {
        Box::pin(async { fixture().await.map_err(|error| error.to_string()) })
    }
}

async fn fixture() -> Result<Fixture, StoreError> {
    let folder = tempfile::tempdir()
        .map_err(|error| StoreError::new(ErrorKind::Unavailable, "open", "sqlite", error.to_string()))?;
    let (path, bare) = (folder.path().join("items.db"), folder.path().join("bare.db"));
    let store = open(&path)?;
    store.migrate().await?;
    Ok(Fixture {
        beside: AnyTable::Items(Arc::new(open(&path)?)),
        transactions: Some(Arc::new(OnTransact(store.clone()))),
        open: None,
        bare: Some(AnyTable::Items(Arc::new(open(&bare)?))),
        foreign: Arc::new(Rows { path, bare }),
        store: AnyTable::Items(Arc::new(store)),
        guard: Some(Box::new(folder)),
    })
}

fn open(path: &Path) -> Result<SqliteItemStore, StoreError> {
    SqliteStore::builder(path).synchronous(Synchronous::Normal).open_items()
}

struct Rows {
    path: PathBuf,
    bare: PathBuf,
}

impl Foreign for Rows {
    fn write(&self, _: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async { Ok(Planted::Refused) })
    }

    fn plant(&self, row: ItemRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            if row.payload.is_none() {
                return Ok(Planted::Refused);
            }
            insert(&self.path, &row).map(|()| Planted::Taken).map_err(failed)
        })
    }

    fn look<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<ItemRow>, StoreError>> {
        Box::pin(async move { read(&self.path, id).map_err(failed) })
    }

    fn make_item_tables(&self) -> Later<'_, Result<(), StoreError>> {
        Box::pin(async move {
            Connection::open(&self.bare).and_then(|bare| bare.execute_batch(ITEM_TABLES)).map_err(failed)
        })
    }
}

fn failed(error: Error) -> StoreError {
    StoreError::new(ErrorKind::Unexpected, "plant", "sqlite", "a foreign row").with_source(error)
}

/// As `CURRENT_TIMESTAMP` has it.
fn text(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn insert(path: &Path, row: &ItemRow) -> Result<(), Error> {
    Connection::open(path)?.execute(
        "INSERT INTO outbox_events (id, type, message_group, payload, status, retry_count, created_at, processed_at, \
         error_message) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            row.id,
            row.item_type,
            row.message_group,
            row.payload,
            row.status,
            row.retry_count,
            text(row.created_at),
            row.processed_at.map(text),
            row.error_message
        ],
    )?;
    Ok(())
}

fn read(path: &Path, id: &str) -> Result<Option<ItemRow>, Error> {
    let time = |text: String| {
        let at: DateTime = text.parse().expect("a time");
        Offset::UTC.to_timestamp(at).expect("a time")
    };
    Connection::open(path)?
        .query_row(
            "SELECT id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message \
             FROM outbox_events WHERE id = ?1",
            [id],
            |row| {
                Ok(ItemRow {
                    id: row.get(0)?,
                    item_type: row.get(1)?,
                    message_group: row.get(2)?,
                    payload: row.get(3)?,
                    status: row.get(4)?,
                    retry_count: row.get(5)?,
                    created_at: time(row.get(6)?),
                    processed_at: row.get::<_, Option<String>>(7)?.map(time),
                    error_message: row.get(8)?,
                })
            },
        )
        .optional()
}
