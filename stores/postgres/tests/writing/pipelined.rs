//! Transactions that are begun with tokio-postgres: what commits, what does not, and what is left in the pool.

use std::sync::Arc;

use pillarbox::Writer;
use pillarbox::model::Event;
use pillarbox::port::{Begin, CommitError, ErrorKind};
use pillarbox_postgres::sqlx::query;

use crate::kit::{Kit, event, row};

/// EVT-021, EVT-030
#[tokio::test]
async fn events_commit_with_the_business_rows() {
    let Some(kit) = Kit::new("events_commit_with_the_business_rows").await else { return };
    let writer = Writer::new(Arc::new(kit.pipelined(1)));
    let mut tx = writer.begin().await.unwrap();
    tx.batch_execute(&kit.order(1)).await.unwrap();
    tx.write([event("a"), event("b")]).unwrap();
    tx.commit().await.unwrap();
    let mut tx = writer.begin().await.unwrap();
    tx.write(Event::bytes("OrderPlaced", vec![0, 255]).id("c")).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(kit.counts().await, (3, 1));
}

/// EVT-180
#[tokio::test]
async fn a_rollback_leaves_nothing() {
    let Some(kit) = Kit::new("a_rollback_leaves_nothing").await else { return };
    let writer = Writer::new(Arc::new(kit.pipelined(1)));
    let mut tx = writer.begin().await.unwrap();
    tx.batch_execute(&kit.order(1)).await.unwrap();
    tx.write(event("a")).unwrap();
    tx.flush().await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(kit.counts().await, (0, 0));
}

/// PBX-024
#[tokio::test]
async fn a_transaction_that_an_error_aborted_is_refused() {
    let Some(kit) = Kit::new("a_transaction_that_an_error_aborted_is_refused").await else { return };
    let writer = Writer::new(Arc::new(kit.pipelined(1)));
    // The first time the connection prepares the statements, which an aborted transaction refuses before COMMIT is sent.
    for fresh in [true, false] {
        for flush in [false, true] {
            let mut tx = writer.begin().await.unwrap();
            tx.write(event("a")).unwrap();
            if flush {
                tx.flush().await.unwrap();
            }
            tx.batch_execute("SELECT 1/0").await.unwrap_err();
            let ended = tx.commit().await;
            assert!(matches!(ended, Err(CommitError::Refused(_))), "flushed: {flush}, fresh: {fresh}");
        }
        for flush in [false, true] {
            let mut tx = writer.begin().await.unwrap();
            tx.write(event(&format!("{fresh}-{flush}"))).unwrap();
            if flush {
                tx.flush().await.unwrap();
            }
            tx.commit().await.unwrap();
        }
    }
    assert_eq!(kit.counts().await, (4, 0), "only those that were not aborted");
}

/// PBX-024: the same with sqlx.
#[tokio::test]
async fn a_transaction_of_sqlx_that_an_error_aborted_is_refused() {
    let Some(kit) = Kit::new("a_transaction_of_sqlx_that_an_error_aborted_is_refused").await else { return };
    let writer = Writer::new(Arc::new(kit.store.clone()));
    for flush in [false, true] {
        let mut tx = writer.begin().await.unwrap();
        tx.write(event("a")).unwrap();
        if flush {
            tx.flush().await.unwrap();
        }
        query("SELECT 1/0").execute(tx.conn()).await.unwrap_err();
        assert!(matches!(tx.commit().await, Err(CommitError::Refused(_))), "flushed: {flush}");
    }
    assert_eq!(kit.counts().await, (0, 0));
}

/// EVT-021: a conflict is told as one, and takes the business rows with it.
#[tokio::test]
async fn an_event_id_that_is_there_is_a_conflict() {
    let Some(kit) = Kit::new("an_event_id_that_is_there_is_a_conflict").await else { return };
    let store = kit.pipelined(1);
    let tx = store.begin().await.unwrap();
    store.commit_with(tx, &[row("a")], || ()).await.unwrap();
    let tx = store.begin().await.unwrap();
    tx.batch_execute(&kit.order(1)).await.unwrap();
    let refused = store.commit_with(tx, &[row("a")], || panic!("nothing was inserted")).await;
    let Err(CommitError::Refused(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(kit.counts().await, (1, 0));
}

/// A message id is written once; the second answers with the first one's id.
#[tokio::test]
async fn a_message_id_is_written_once() {
    let Some(kit) = Kit::new("a_message_id_is_written_once").await else { return };
    let store = kit.pipelined(1);
    let mut rows = Vec::new();
    for id in ["a", "b"] {
        let mut row = row(id);
        row.event = Event::text("OrderPlaced", "{}").id(id).message_id("m").build().unwrap();
        rows.push(row);
    }
    let tx = store.begin().await.unwrap();
    let written = store.commit_with(tx, &rows, || ()).await.unwrap();
    let told: Vec<_> = written.iter().map(|one| (one.id.as_str(), one.fresh)).collect();
    assert_eq!(told, [("a", true), ("a", false)]);
    assert_eq!(kit.counts().await, (1, 0));
}
