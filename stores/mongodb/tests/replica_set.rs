//! On a replica set: events and business documents in one transaction, numbers in the order of commits, wake-up.

use std::time::Duration;

use pillarbox::port::{Admin, Begin, Cursor, ErrorKind, Select, Store, WriteOn};
use pillarbox_mongodb::mongodb::bson::{Document, doc};

mod server;

use server::{REPLICA_SET, Site, read_from, rows};

const WHAT: &str = "mongodb replica set";

/// EVT-021, PBX-024
#[tokio::test]
async fn an_event_is_there_exactly_if_its_business_document_is() {
    let Some(site) = Site::new(REPLICA_SET, WHAT).await else { return };
    assert!(site.store.facts().transactions, "{REPLICA_SET} names no replica set");
    let orders = site.database.collection::<Document>("orders");
    orders.insert_one(doc! { "_id": 0 }).await.unwrap();
    for (number, commits) in [(1, false), (2, true)] {
        let mut tx = site.store.begin().await.unwrap();
        orders.insert_one(doc! { "_id": number }).session(&mut tx).await.unwrap();
        let written = rows([format!("e{number}")]).rows;
        site.store.insert(&mut tx, &written).await.unwrap();
        assert_eq!(site.store.count(Select::default()).await.unwrap(), 0, "not before the commit");
        match commits {
            true => site.store.commit(tx).await.unwrap(),
            false => site.store.rollback(tx).await.unwrap(),
        }
    }
    assert_eq!(orders.count_documents(doc! {}).await.unwrap(), 2);
    let fetched = site.store.fetch(read_from(Cursor::default())).await.unwrap();
    assert_eq!(fetched.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["e2"]);
    site.remove().await;
}

/// EVT-021: a session without a transaction would write at once what its caller thinks can be undone.
#[tokio::test]
async fn a_session_without_an_open_transaction_is_refused() {
    let Some(site) = Site::new(REPLICA_SET, WHAT).await else { return };
    let written = rows(["a".to_owned()]).rows;
    let mut session = site.client.start_session().await.unwrap();
    let refused = site.store.insert(&mut session, &written).await.expect_err("nothing was started");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    session.start_transaction().await.unwrap();
    site.store.insert(&mut session, &written).await.unwrap();
    session.commit_transaction().await.unwrap();
    let refused = site.store.insert(&mut session, &[]).await.expect_err("it has ended");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(site.store.count(Select::default()).await.unwrap(), 1);
    site.remove().await;
}

/// PBX-010: the second of two open writers is told to try again, so that no number commits late.
#[tokio::test]
async fn numbers_come_in_the_order_of_commits() {
    let Some(site) = Site::new(REPLICA_SET, WHAT).await else { return };
    let mut first = site.store.begin().await.unwrap();
    let mut second = site.store.begin().await.unwrap();
    let (one, two) = (rows(["one".to_owned()]).rows, rows(["two".to_owned()]).rows);
    site.store.insert(&mut first, &one).await.unwrap();
    let lost = site.store.insert(&mut second, &two).await.expect_err("the counter is held");
    assert_eq!(lost.kind(), ErrorKind::Conflict);
    assert!(site.store.insert(&mut second, &[]).await.is_err(), "it can't commit any more");
    site.store.rollback(second).await.ok();
    site.store.commit(first).await.unwrap();
    let mut again = site.store.begin().await.unwrap();
    site.store.insert(&mut again, &two).await.unwrap();
    site.store.commit(again).await.unwrap();
    let fetched = site.store.fetch(read_from(Cursor::default())).await.unwrap();
    assert_eq!(fetched.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(fetched.cursor.decided, fetched.rows[1].seq);
    site.remove().await;
}

/// PBX-016
#[tokio::test]
async fn a_change_stream_tells_of_rows_written_elsewhere() {
    let Some(site) = Site::new(REPLICA_SET, WHAT).await else { return };
    let mut hints = site.store.hints().expect("a replica set has change streams").0;
    // The first hint comes once the stream is open.
    tokio::time::timeout(Duration::from_secs(20), hints.changed()).await.unwrap().unwrap();
    let beside = pillarbox_mongodb::MongodbStore::new(site.database.clone()).await.unwrap();
    beside.write(rows(["a".to_owned()])).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), hints.changed()).await.unwrap().unwrap();
    site.remove().await;
}
