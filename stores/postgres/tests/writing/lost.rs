//! A connection that breaks during the commit.

use std::sync::Arc;

use pillarbox::model::Event;
use pillarbox::port::{Begin, CommitError, Store, WriteSql};
use pillarbox::{Failure, Outbox};
use pillarbox_postgres::sqlx::{AssertSqlSafe, query};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::kit::{Kit, event};
use crate::wire::{Cut, NEVER, Wire};

/// PBX-024, EVT-021: the outcome is unknown to the writer, and the reader decides: once if it is there, else never.
#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_unknown_with_tokio_postgres() {
    let test = "a_commit_whose_answer_is_lost_is_unknown_with_tokio_postgres";
    let Some(kit) = Kit::new(test).await else { return };
    let wire = Wire::to_server(&kit).await;
    lose_commits(&kit, &wire, kit.pipelined_through(wire.port, 2)).await;
}

/// PBX-024, EVT-021
#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_unknown_with_sqlx() {
    let Some(kit) = Kit::new("a_commit_whose_answer_is_lost_is_unknown_with_sqlx").await else { return };
    let wire = Wire::to_server(&kit).await;
    lose_commits(&kit, &wire, kit.store_through(wire.port, 2)).await;
}

async fn lose_commits<S: Store + Begin + WriteSql>(kit: &Kit, wire: &Wire, store: S) {
    let seen = Arc::new(watch::Sender::new(Vec::new()));
    let listener = Arc::clone(&seen);
    let outbox = Outbox::single_node(store)
        .listener("OrderPlaced", move |event: Event| {
            listener.send_modify(|ids: &mut Vec<String>| ids.push(event.id().to_string()));
            async { Ok::<(), Failure>(()) }
        })
        .no_purge()
        .start()
        .await
        .unwrap();
    for (cut, id, mark) in [
        (Cut::BeforeCommit, "never-sent", b"never-sent".as_slice()),
        (Cut::AfterCommit, "committed", b"committed".as_slice()),
    ] {
        let mut tx = outbox.begin().await.unwrap();
        tx.write(event(id)).unwrap();
        wire.cut(cut, mark);
        let ended = timeout(NEVER, tx.commit()).await.unwrap();
        assert!(matches!(ended, Err(CommitError::Unknown(_))), "{cut:?}: {ended:?}");
        assert!(wire.was_cut(), "{cut:?}");
    }
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("next")).unwrap();
    tx.commit().await.unwrap();
    until(&seen, 2).await;
    // Only a read finds the last one, and what an earlier read brought a second time would come before it.
    let (insert, receipt) = outbox.insert_sql([event("last")]).unwrap();
    let insert = insert.unwrap();
    query(AssertSqlSafe(insert.sql)).bind(&insert.params[0]).execute(&kit.pool).await.unwrap();
    receipt.committed();
    until(&seen, 3).await;
    outbox.close().await;
    let mut ids = seen.borrow().clone();
    ids.sort();
    assert_eq!(ids, ["committed", "last", "next"]);
    assert_eq!(kit.counts().await, (3, 0));
    let left = format!("SELECT count(*) FROM {}.outbox_event WHERE status <> 1", kit.schema);
    assert_eq!(kit.number(left).await, 0, "all are done");
}

async fn until(seen: &watch::Sender<Vec<String>>, count: usize) {
    let enough = timeout(NEVER, seen.subscribe().wait_for(|ids| ids.len() >= count)).await.is_ok();
    assert!(enough, "never {count} deliveries: {:?}", seen.borrow());
}
