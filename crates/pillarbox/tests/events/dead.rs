//! Dead events at the door: look, count, bring back; errors stay errors.

use pillarbox::events::DeadFilter;
use pillarbox::model::{EventId, Status};
use pillarbox::{Event, Outbox};

use crate::kit::{Seen, Watched, event, seen::commit};

async fn with_dead() -> (Watched, Outbox<Watched>) {
    let store = Watched::new();
    let outbox =
        Outbox::single_node(store.clone()).listener("t", Seen::new().listener()).start().await.unwrap();
    for n in 0..5 {
        commit(&outbox, Event::text("x", "{}").id(format!("x{n}")).aggregate_type("A")).await;
    }
    commit(&outbox, Event::text("y", "{}").id("y")).await;
    commit(&outbox, event("fine")).await;
    for id in ["x0", "x1", "x2", "x3", "x4", "y"] {
        store.until(id, Status::Dead).await;
    }
    outbox.close().await;
    (store, outbox)
}

/// EVT-140, EVT-143
#[tokio::test(start_paused = true)]
async fn dead_events_are_found_by_type_and_aggregate_oldest_first() {
    let (_, outbox) = with_dead().await;
    let dead = outbox.dead("me");
    let ids = async |filter: DeadFilter, limit| {
        let found = dead.query(&filter, limit).await.unwrap();
        found.iter().map(|record| record.id.to_string()).collect::<Vec<_>>()
    };
    let x = DeadFilter { event_type: Some("x".to_owned()), ..DeadFilter::default() };
    assert_eq!(ids(x, 2).await, ["x0", "x1"]);
    let a = DeadFilter { aggregate_type: Some("__GLOBAL__".to_owned()), ..DeadFilter::default() };
    assert_eq!(ids(a, 10).await, ["y"]);
    assert_eq!(ids(DeadFilter::default(), 10).await.len(), 6);
    assert_eq!((dead.count(None).await.unwrap(), dead.count(Some("x")).await.unwrap()), (6, 5));
}

/// EVT-141
#[tokio::test(start_paused = true)]
async fn one_comes_back_to_new_with_its_attempts_reset_and_it_is_told_whether() {
    let (store, outbox) = with_dead().await;
    let dead = outbox.dead("me");
    assert!(dead.replay(&EventId::from_row("y")).await.unwrap());
    let record = store.record("y").await.unwrap();
    assert_eq!((record.status, record.attempts, record.last_error), (Status::New, 0, None));
    assert!(!dead.replay(&EventId::from_row("y")).await.unwrap(), "no longer dead");
    assert!(!dead.replay(&EventId::from_row("none")).await.unwrap());
}

/// EVT-142
#[tokio::test(start_paused = true)]
async fn all_that_match_come_back_in_batches() {
    let (store, outbox) = with_dead().await;
    let x = DeadFilter { event_type: Some("x".to_owned()), ..DeadFilter::default() };
    assert_eq!(outbox.dead("me").replay_all(&x, 2).await.unwrap(), 5);
    assert_eq!(store.count("replay"), 3);
    assert_eq!(outbox.dead("me").count(None).await.unwrap(), 1);
}

/// EVT-141, EVT-142
#[tokio::test(start_paused = true)]
async fn what_was_replayed_is_delivered() {
    let (store, _) = with_dead().await;
    let seen = Seen::new();
    let outbox = Outbox::single_node(store.clone())
        .listener_for("A", "x", seen.listener())
        .listener("y", seen.listener())
        .start()
        .await
        .unwrap();
    assert_eq!(outbox.dead("me").replay_all(&DeadFilter::default(), 100).await.unwrap(), 6);
    seen.wait(6).await;
    store.until("y", Status::Done).await;
    outbox.close().await;
}

/// EVT-143
#[tokio::test(start_paused = true)]
async fn a_database_error_is_never_an_empty_list_or_a_zero() {
    let (store, outbox) = with_dead().await;
    for call in ["list", "count", "replay"] {
        store.fail(call);
    }
    let dead = outbox.dead("me");
    assert!(dead.query(&DeadFilter::default(), 1).await.is_err());
    assert!(dead.count(None).await.is_err());
    assert!(dead.replay(&EventId::from_row("y")).await.is_err());
    assert!(dead.replay_all(&DeadFilter::default(), 1).await.is_err());
}
