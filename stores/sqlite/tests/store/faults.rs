//! Files that can't be used: each gets an error a caller can act on, and the store goes on once it can.

use std::time::Duration;

use pillarbox::port::{Admin, CommitError, ErrorKind, TransactError};
use pillarbox_sqlite::{Access, Missing, SqliteStore};
use rusqlite::{Connection, TransactionBehavior};

use crate::kit::{Outbox, Seen, event, fetch_all, place_order, transact, write};

#[tokio::test]
async fn missing_tables_are_told_with_what_to_do() {
    let outbox = Outbox::bare();
    let mut connection = outbox.connection();
    let tx = connection.transaction().unwrap();
    let errors = [
        write(&outbox.store, vec![event("a")]).await.unwrap_err(),
        outbox.store.stats().await.unwrap_err(),
        outbox.store.check().await.unwrap_err(),
        pillarbox::port::BlockingWriteOn::insert_blocking(&outbox.store, &tx, &[event("a")]).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Schema, "{error:?}");
        assert!(error.to_string().contains("pillarbox migrate"), "{error}");
    }
    tx.rollback().unwrap();
    outbox.store.migrate().await.unwrap();
    write(&outbox.store, vec![event("a")]).await.unwrap();
}

#[tokio::test]
async fn a_missing_file_is_made_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    let error = SqliteStore::builder(&path).missing(Missing::Refuse).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!path.exists());
    assert_eq!(
        SqliteStore::open(folder.path().join("no/folder.db")).unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    SqliteStore::open(&path).unwrap();
    assert!(path.exists());
}

#[tokio::test]
async fn a_store_opened_read_only_looks_and_changes_nothing() {
    let outbox = Outbox::new().await;
    write(&outbox.store, vec![event("a")]).await.unwrap();
    let looking = SqliteStore::builder(outbox.path()).access(Access::ReadOnly).open().unwrap();
    assert_eq!(fetch_all(&looking).await.rows.len(), 1);
    looking.check().await.unwrap();
    assert_eq!(write(&looking, vec![event("b")]).await.unwrap_err().kind(), ErrorKind::Permission);
    assert_eq!(looking.migrate().await.unwrap_err().kind(), ErrorKind::Permission);
    let end = transact(&looking, &Seen::default(), place_order(&looking, 1)).await;
    assert!(matches!(end, Err(TransactError::Commit(CommitError::Refused(_)))), "{end:?}");
    assert_eq!(outbox.counts(), (1, 0));
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let outbox = Outbox::new().await;
    let limit_pages = |pages: i64| {
        transact(&outbox.store, &Seen::default(), move |tx| {
            tx.pragma_update(None, "max_page_count", pages).unwrap();
            Ok(())
        })
    };
    let used = outbox.number("PRAGMA page_count");
    limit_pages(used).await.unwrap();
    let large = |id: &str| {
        let event = pillarbox::model::Event::text("T", format!("\"{}\"", "x".repeat(100_000))).id(id);
        pillarbox::model::NewRow {
            event: event.build().unwrap(),
            placement: pillarbox::model::Placement::Slot,
        }
    };
    let error = write(&outbox.store, vec![large("a")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(!format!("{error:?}").contains("xxx"));
    let error = write(&outbox.store, vec![event("b"), large("c")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(outbox.counts(), (0, 0));
    limit_pages(1_000_000).await.unwrap();
    write(&outbox.store, vec![large("a"), event("b")]).await.unwrap();
    assert_eq!(outbox.counts(), (2, 0));
}

#[tokio::test]
async fn a_lock_held_too_long_is_a_time_out_and_one_released_in_time_is_none() {
    let outbox = Outbox::new().await;
    let hurried = SqliteStore::builder(outbox.path()).busy_timeout(Duration::from_millis(20)).open().unwrap();
    let mut connection = outbox.connection();
    let held = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let error = write(&hurried, vec![event("a")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(error.is_transient());
    assert_eq!(fetch_all(&hurried).await.rows.len(), 0, "reads do not wait for writers");
    let (waited, ()) =
        tokio::join!(write(&outbox.store, vec![event("a")]), async { held.rollback().unwrap() });
    waited.unwrap();
    write(&hurried, vec![event("b")]).await.unwrap();
}

#[tokio::test]
async fn a_users_transaction_that_loses_is_a_conflict() {
    let outbox = Outbox::new().await;
    let mut connection = outbox.connection();
    let tx = connection.transaction().unwrap();
    let _: i64 = tx.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
    write(&outbox.store, vec![event("a")]).await.unwrap();
    let error =
        pillarbox::port::BlockingWriteOn::insert_blocking(&outbox.store, &tx, &[event("b")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "not a database at all, but long enough to look like one".repeat(100)).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.to_string().contains("not an SQLite database"), "{error}");
}

#[tokio::test]
async fn the_log_mode_is_kept_by_the_file() {
    let outbox = Outbox::new().await;
    let mode: String = Connection::open(outbox.path())
        .unwrap()
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}
