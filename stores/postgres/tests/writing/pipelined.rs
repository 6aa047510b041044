//! Transactions that are begun with tokio-postgres: what commits, what does not, and what is left in the pool.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Writer;
use pillarbox::model::Event;
use pillarbox::port::{Begin, CommitError, ErrorKind, WriteOn};
use pillarbox_postgres::tokio_postgres::error::SqlState;
use tokio::time::timeout;

use crate::kit::{Kit, event, row};

/// EVT-021, EVT-030
#[tokio::test]
async fn events_commit_with_the_business_rows() {
    let Some(kit) = Kit::new("events_commit_with_the_business_rows").await else { return };
    let writer = Writer::new(Arc::new(kit.pipelined(1)));
    let mut tx = writer.begin().await.unwrap();
    tx.batch_execute(&kit.order(1)).await.unwrap();
    tx.write_all([event("a"), event("b")]).unwrap();
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
    for flush in [false, true] {
        let writer = Writer::new(Arc::new(kit.pipelined(1)));
        let mut tx = writer.begin().await.unwrap();
        tx.write(event("a")).unwrap();
        if flush {
            tx.flush().await.unwrap();
        }
        tx.batch_execute("SELECT 1/0").await.unwrap_err();
        assert!(matches!(tx.commit().await, Err(CommitError::Refused(_))), "flushed: {flush}");
        // The same things with sqlx.
        let writer = Writer::new(Arc::new(kit.store.clone()));
        let mut tx = writer.begin().await.unwrap();
        tx.write(event("a")).unwrap();
        if flush {
            tx.flush().await.unwrap();
        }
        let failing = pillarbox_postgres::sqlx::query("SELECT 1/0");
        failing.execute(&mut **tx).await.unwrap_err();
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

/// PBX-024: wherever a call is dropped, the next user of the connection finds no transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_open_transaction_in_the_pool() {
    let Some(kit) = Kit::new("a_dropped_call_leaves_no_open_transaction_in_the_pool").await else { return };
    let store = kit.pipelined(1);
    for round in 0..150 {
        let id = format!("e{round}");
        let rows = [row(&id)];
        let whole = async {
            let mut tx = store.begin().await?;
            store.insert(&mut tx, &[row(&format!("f{round}"))]).await?;
            store.commit_with(tx, &rows, || ()).await.map_err(|error| match error {
                CommitError::Refused(error) | CommitError::Unknown(error) => error,
            })
        };
        let _ = timeout(Duration::from_micros(fastrand::u64(0..4_000)), whole).await;
        let object = store.pool().get().await.unwrap();
        let outside = object.batch_execute("SAVEPOINT here").await.unwrap_err();
        assert_eq!(outside.code(), Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION), "round {round}");
        assert_eq!(kit.left_open().await, 0, "round {round}");
    }
    let (events, _) = kit.counts().await;
    assert_eq!(events % 2, 0, "each transaction happened whole or not at all");
}
