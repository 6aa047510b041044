//! On a server without a replica set: what is refused, and what holds all the same.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::time::Duration;

use pillarbox::port::{Admin, Begin, Cursor, ErrorKind, Select, Store, Table, WriteOn};
use pillarbox::{Event, Failure, Outbox};
use tokio::sync::mpsc;
use tokio::time::timeout;

mod server;

use server::mongod::{Folder, MONGOD, Mongod, STARTED};
use server::{FERRETDB, Site, read_from, rows, say};

/// EVT-021, PBX-024: a server that takes the commands of a transaction and applies each at once is found out.
#[tokio::test]
async fn transactions_are_refused_without_a_replica_set() {
    let Some(site) = Site::new(FERRETDB).await else { return };
    refuse_transactions(&site).await;
    site.remove().await;
}

/// EVT-021, PBX-127: MongoDB itself without a replica set says what to do, and delivers what the store's own write writes.
#[tokio::test]
async fn a_server_that_is_no_replica_set_says_what_to_do() {
    let Ok(program) = std::env::var(MONGOD) else {
        return say(&format!("could not run: mongodb without a replica set: {MONGOD} is not set"));
    };
    let server = Mongod::start(&program, Folder::new().unwrap(), &[]).unwrap();
    let site = Site::at(&format!("mongodb://{}/", server.address())).await;
    refuse_transactions(&site).await;
    let (delivered, mut deliveries) = mpsc::channel(1);
    let listener = move |event: Event| {
        let delivered = delivered.clone();
        async move { delivered.send(event.id().to_string()).await.map_err(|_| Failure::retry("nobody listens")) }
    };
    let outbox =
        Outbox::ordered(site.store.clone()).listener("order-placed", listener).start().await.unwrap();
    let refused = outbox.begin().await.err().expect("no transactions here").to_string();
    assert!(refused.contains("--replSet") && refused.contains("rs.initiate()"), "{refused}");
    site.store.write(rows(["a".to_owned()])).await.unwrap();
    let delivered = timeout(STARTED, deliveries.recv()).await.unwrap();
    assert_eq!(delivered.as_deref(), Some("a"));
    outbox.close().await;
    site.remove().await;
}

async fn refuse_transactions(site: &Site) {
    assert!(!site.store.facts().transactions, "it is no replica set");
    let refused = site.store.begin().await.expect_err("no transactions here");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("replica set"), "{refused}");
    let mut session = site.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let written = rows(["a".to_owned()]).rows;
    let refused = site.store.insert(&mut session, &written).await.expect_err("no transactions here");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    drop(session);
    assert_eq!(site.store.count(Select::default()).await.unwrap(), 0, "nothing was written");
}

/// PBX-016: without a change stream a process is told of what it writes itself.
#[tokio::test]
async fn a_reader_is_told_of_rows_of_its_own_process() {
    let Some(site) = Site::new(FERRETDB).await else { return };
    assert!(!site.store.facts().transactions, "{FERRETDB} names a replica set");
    let mut hints = site.store.wakeups().expect("of its own rows").0;
    assert!(!hints.has_changed().unwrap(), "nothing was written");
    site.store.write(rows(["a".to_owned()])).await.unwrap();
    timeout(Duration::from_secs(20), hints.changed()).await.unwrap().unwrap();
    assert_eq!(site.store.fetch(read_from(Cursor::default())).await.unwrap().rows.len(), 1);
    site.remove().await;
}
