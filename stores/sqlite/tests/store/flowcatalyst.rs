//! The flowcatalyst layout at the events door, and on transactions of the user's own.

use pillarbox::model::{EventId, TableName};
use pillarbox::port::{Admin, List};
use pillarbox::{Event, Outbox};
use pillarbox_sqlite::{SqliteItemStore, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

async fn items(folder: &TempDir, table: &str) -> SqliteItemStore {
    let builder = SqliteStore::builder(folder.path().join("items.db"));
    let store = builder.table(TableName::new(table).unwrap()).open_items().unwrap();
    store.migrate().await.unwrap();
    store
}

async fn listed(store: &SqliteItemStore) -> Vec<EventId> {
    let records = store.list(List { limit: 9, ..List::default() }).await.unwrap();
    records.into_iter().map(|record| record.id).collect()
}

/// RLY-001, RLY-004
#[tokio::test]
async fn a_writer_puts_items_with_tsids_into_the_transaction_of_the_business_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = items(&folder, "outbox_events").await;
    let outbox = Outbox::writer_only(store.clone()).start().await.unwrap();
    let id = outbox
        .transaction(|tx| {
            tx.execute_batch("CREATE TABLE orders (id INTEGER)").map_err(|error| error.to_string())?;
            tx.write(Event::text("EVENT", "{}").group("order-1")).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
    let written = listed(&store).await;
    assert_eq!((written.len(), written.first()), (1, id.as_ref()));
    assert_eq!(written[0].as_str().len(), 13);
    outbox.close().await;
}

/// RLY-001
#[tokio::test]
async fn items_go_in_on_a_transaction_of_a_connection_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = items(&folder, "outbox_dispatch_jobs").await;
    let outbox = Outbox::writer_only(store.clone()).start().await.unwrap();
    let mut connection = Connection::open(folder.path().join("items.db")).unwrap();
    let tx = connection.transaction().unwrap();
    let receipt = outbox.write_on_blocking(&tx, [Event::text("DISPATCH_JOB", "{}")]).unwrap();
    tx.commit().unwrap();
    receipt.committed();
    let tx = connection.transaction().unwrap();
    assert!(outbox.write_on_blocking(&tx, [Event::text("EVENT", "{}")]).is_err(), "not in this table");
    drop(tx);
    assert_eq!(listed(&store).await.len(), 1);
    outbox.close().await;
}

/// RLY-052
#[tokio::test]
async fn a_table_that_lacks_columns_is_named_with_them_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("items.db");
    let theirs = "CREATE TABLE outbox_events (id TEXT, type TEXT, payload TEXT, status TEXT, retry_count INT, created_at TIMESTAMP)";
    Connection::open(&path).unwrap().execute_batch(theirs).unwrap();
    let store = SqliteStore::builder(&path).open_items().unwrap();
    for error in [store.check().await.unwrap_err(), store.migrate().await.unwrap_err()] {
        let told = error.to_string();
        assert!(told.contains("message_group, processed_at, error_message"), "{told}");
    }
}
