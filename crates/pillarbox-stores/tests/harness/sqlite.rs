//! The SQLite store, as it is tried: a file in a folder of its own for each outbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::port::{Admin, AnyTable, ErrorKind, StoreError};
use pillarbox_conformance::{Fixture, Foreign, ForeignRow, Harness, Later, OnTransact, Planted};
use pillarbox_sqlite::rusqlite::types::Value;
use pillarbox_sqlite::rusqlite::{Connection, params};
use pillarbox_sqlite::{SqliteStore, Synchronous};

pub(crate) struct Sqlite;

impl Harness for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn fresh(&self) -> Later<'_, Result<Fixture, String>> {
        Box::pin(async { fixture().await.map_err(|error| error.to_string()) })
    }
}

async fn fixture() -> Result<Fixture, StoreError> {
    let folder = tempfile::tempdir()
        .map_err(|error| StoreError::new(ErrorKind::Unavailable, "open", "sqlite", error.to_string()))?;
    let path = folder.path().join("outbox.db");
    let store = open(&path)?;
    store.migrate().await?;
    Ok(Fixture {
        beside: AnyTable::Native(Arc::new(open(&path)?)),
        foreign: Arc::new(Rows(path)),
        transactions: Some(Arc::new(OnTransact(store.clone()))),
        open: None,
        bare: Some(AnyTable::Native(Arc::new(open(&folder.path().join("bare.db"))?))),
        store: AnyTable::Native(Arc::new(store)),
        guard: Some(Box::new(folder)),
    })
}

/// A test outlives no power cut, so its commits need not reach the disk.
fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::builder(path).synchronous(Synchronous::Normal).open()
}

struct Rows(PathBuf);

impl Foreign for Rows {
    fn write(&self, row: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            insert(&self.0, &row).map(|()| Planted::Taken).map_err(|error| {
                StoreError::new(ErrorKind::Unexpected, "plant", "sqlite", "a foreign row").with_source(error)
            })
        })
    }
}

fn insert(path: &Path, row: &ForeignRow) -> Result<(), pillarbox_sqlite::rusqlite::Error> {
    let now = Timestamp::now().as_microsecond().to_string();
    let created_at = row.created_at.as_ref().unwrap_or(&now);
    let available_at = row.available_at.as_ref().unwrap_or(&now);
    let id = match &row.id_bytes {
        Some(bytes) => Value::Blob(bytes.clone()),
        None => Value::Text(row.event_id.clone()),
    };
    let attempts = row.attempts.as_deref().unwrap_or("0");
    Connection::open(path)?.execute(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, \
         status, attempts, available_at, created_at) VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?6, 0, ?7, ?8, ?9)",
        params![
            id,
            row.event_type,
            row.aggregate_type,
            row.aggregate_id,
            row.payload,
            row.headers,
            attempts,
            available_at,
            created_at
        ],
    )?;
    Ok(())
}
