//! On a server without a replica set: what is refused, and what holds all the same.

use std::time::Duration;

use pillarbox::port::{Admin, Begin, Cursor, ErrorKind, Select, Store, WriteOn};

mod server;

use server::{FERRETDB, Site, read_from, rows};

/// EVT-021, PBX-024: a server that takes the commands of a transaction and applies each at once is found out.
#[tokio::test]
async fn transactions_are_refused_without_a_replica_set() {
    let Some(site) = Site::new(FERRETDB).await else { return };
    assert!(!site.store.facts().transactions, "{FERRETDB} names a replica set");
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
    site.remove().await;
}

/// PBX-016: without a change stream a process is told of what it writes itself.
#[tokio::test]
async fn a_reader_is_told_of_rows_of_its_own_process() {
    let Some(site) = Site::new(FERRETDB).await else { return };
    assert!(!site.store.facts().transactions, "{FERRETDB} names a replica set");
    let mut hints = site.store.hints().expect("of its own rows").0;
    assert!(!hints.has_changed().unwrap(), "nothing was written");
    site.store.write(rows(["a".to_owned()])).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), hints.changed()).await.unwrap().unwrap();
    assert_eq!(site.store.fetch(read_from(Cursor::default())).await.unwrap().rows.len(), 1);
    site.remove().await;
}
