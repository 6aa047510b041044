//! Taking pending events back: outside of a transaction, or as part of one.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::{EventId, Status};
use pillarbox::port::{Admin, Begin, CommitError};
use pillarbox::{Outbox, Writer};

use crate::kit::{Seen, Watched, event, seen::commit};

fn ids<const N: usize>(ids: [&str; N]) -> [EventId; N] {
    ids.map(EventId::from_row)
}

async fn with_pending(pending: &[&str]) -> Writer<Watched> {
    let writer = Writer::new(Arc::new(Watched::new()));
    let mut tx = writer.begin().await.unwrap();
    tx.write(pending.iter().map(|id| event(id))).unwrap();
    tx.commit().await.unwrap();
    writer
}

/// PBX-027
#[tokio::test(start_paused = true)]
async fn a_delayed_event_is_taken_back_by_its_id_and_never_delivered() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    commit(&outbox, event("a").due(Duration::from_secs(60))).await;
    commit(&outbox, event("b").due(Duration::from_secs(60))).await;
    assert_eq!(outbox.cancel(&ids(["a", "none"]), "clerk").await.unwrap(), ids(["a"]));
    store.until("b", Status::Done).await;
    assert_eq!(outbox.cancel(&ids(["b"]), "clerk").await.unwrap(), [], "done is done");
    outbox.close().await;
    assert_eq!((seen.ids(), store.status("a").await), (vec!["b".to_owned()], None));
    let audit = store.inner.audit(10).await.unwrap();
    assert_eq!((audit.len(), audit[0].by.as_str(), audit[0].target.as_str()), (1, "clerk", "a"));
}

/// PBX-027
#[tokio::test]
async fn inside_a_transaction_events_go_and_the_record_comes_with_its_commit() {
    let writer = with_pending(&["a", "b"]).await;
    let store = writer.store();
    let mut tx = writer.begin().await.unwrap();
    assert_eq!(tx.cancel(&ids(["a", "none"]), "clerk").await.unwrap(), ids(["a"]));
    assert_eq!(tx.cancel(&ids(["a"]), "clerk").await.unwrap(), [], "gone in here already");
    assert_eq!(store.rows().await, 2, "others see it until the commit");
    assert!(store.inner.audit(10).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    assert_eq!((store.rows().await, store.status("a").await), (1, None));
    assert_eq!(store.inner.audit(10).await.unwrap().len(), 1);
}

/// PBX-027
#[tokio::test]
async fn a_rollback_takes_nothing_back() {
    let writer = with_pending(&["a"]).await;
    let mut tx = writer.begin().await.unwrap();
    tx.cancel(&ids(["a"]), "clerk").await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = writer.begin().await.unwrap();
    tx.cancel(&ids(["a"]), "clerk").await.unwrap();
    drop(tx);
    assert_eq!(writer.store().status("a").await, Some(Status::New));
    assert!(writer.store().inner.audit(10).await.unwrap().is_empty());
}

/// PBX-027
#[tokio::test(start_paused = true)]
async fn what_the_transaction_wrote_itself_is_taken_back_buffered_or_flushed() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    tx.write(["flushed", "kept"].map(event)).unwrap();
    tx.flush().await.unwrap();
    tx.write(["buffered", "kept too"].map(event)).unwrap();
    assert_eq!(tx.cancel(&ids(["flushed", "buffered"]), "me").await.unwrap(), ids(["buffered", "flushed"]));
    tx.commit().await.unwrap();
    store.until("kept", Status::Done).await;
    store.until("kept too", Status::Done).await;
    outbox.close().await;
    assert_eq!((store.rows().await, seen.count()), (2, 2));
}

/// PBX-027
#[tokio::test]
async fn an_event_settled_meanwhile_refuses_the_commit_that_promised_to_take_it_back() {
    let writer = with_pending(&["a"]).await;
    let store = writer.store();
    let mut tx = writer.begin().await.unwrap();
    tx.cancel(&ids(["a"]), "clerk").await.unwrap();
    tx.write(event("b")).unwrap();
    assert_eq!(
        store
            .inner
            .clone()
            .cancel(pillarbox::port::Cancel { ids: ids(["a"]).to_vec(), by: "another".to_owned(), now: None })
            .await
            .unwrap()
            .len(),
        1
    );
    assert!(matches!(tx.commit().await, Err(CommitError::Refused(_))));
    assert_eq!(store.rows().await, 0);
}

/// PBX-027
#[tokio::test]
async fn events_are_taken_back_on_the_callers_own_transaction_too() {
    let writer = with_pending(&["a"]).await;
    let mut tx = writer.store().inner.begin().await.unwrap();
    assert_eq!(writer.cancel_on(&mut tx, &ids(["a"]), "clerk").await.unwrap(), ids(["a"]));
    writer.store().inner.commit(tx).await.unwrap();
    assert_eq!(writer.store().rows().await, 0);
}
