//! Transactions that the caller already has.

use std::sync::Arc;

use pillarbox::Writer;
use pillarbox_postgres::tokio_postgres::NoTls;
use tokio_util::task::TaskTracker;

use crate::kit::{Kit, event};

/// EVT-021, EVT-023
#[tokio::test]
async fn events_go_in_on_the_callers_transaction() {
    let Some(kit) = Kit::new("events_go_in_on_the_callers_transaction").await else { return };
    let writer = Writer::new(Arc::new(kit.pipelined(1)));
    let (mut client, connection) = kit.config().connect(NoTls).await.unwrap();
    let tasks = TaskTracker::new();
    tasks.spawn(connection);
    let mut tx = client.transaction().await.unwrap();
    let undone = writer.write_on(&mut tx, [event("a")]).await.unwrap();
    tx.rollback().await.unwrap();
    undone.rolled_back();
    let mut tx = client.transaction().await.unwrap();
    let receipt = writer.write_on(&mut tx, [event("b"), event("c")]).await.unwrap();
    let cancelled = writer.cancel_on(&mut tx, &receipt.ids()[..1], "test").await.unwrap();
    assert_eq!(cancelled[0].as_str(), "b");
    tx.commit().await.unwrap();
    receipt.committed();

    let mut object = writer.store().pool().get().await.unwrap();
    let mut tx = object.transaction().await.unwrap();
    let receipt = writer.write_on(&mut tx, [event("d")]).await.unwrap();
    tx.commit().await.unwrap();
    receipt.committed();
    let mut tx = kit.pool.begin().await.unwrap();
    let receipt = writer.write_on(&mut tx, [event("e")]).await.unwrap();
    tx.commit().await.unwrap();
    receipt.committed();
    assert_eq!(kit.counts().await, (3, 0));
}
