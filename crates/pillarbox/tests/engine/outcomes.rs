//! Outcomes: settled again when the store fails, never the listener's failure, never believed too early.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::{EngineSettings, OnDead};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{EventId, GroupKey, Status};
use pillarbox::port::{GroupAction, GroupChange, OnDone, Order, Table, Verdict};

use crate::kit::{Scripted, engine, pass, record, until, write};
use crate::tampered::{Call, How, Tampered};

fn ordered(on_dead: OnDead, max_attempts: u32) -> EngineSettings {
    EngineSettings { order: Order::PerGroup, on_dead, max_attempts, ..EngineSettings::default() }
}

fn failed() -> Verdict {
    Verdict::Failed { error: "no".to_owned(), after: None }
}

/// Fails the first event of the group and takes the others.
fn failing_head() -> Arc<Scripted> {
    Scripted::new(|delivery| if delivery.event.id().as_str() == "g1" { failed() } else { Verdict::Accepted })
}

async fn skip(store: &MemoryStore) {
    let action = GroupAction::Skip;
    let group = GroupKey::new("g");
    let request = GroupChange { group, action, reason: None, by: "operator".to_owned(), now: None };
    assert!(store.admin().change_group(request).await.unwrap());
}

/// PBX-015: a settle that fails after a good delivery is tried again, and is not the listener's failure.
#[tokio::test(start_paused = true)]
async fn a_failing_settle_is_tried_again_and_nothing_is_delivered_twice() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(tampered.clone(), sink.clone(), EngineSettings::default(), 1).await;
    for how in [How::Fail, How::Lose, How::Fail, How::Fail] {
        tampered.next(Call::Settle, how);
    }
    write(&store, "a", None).await;
    let done = until(&store, "a", Status::Done).await;
    pass(Duration::from_secs(30)).await;
    assert_eq!(sink.sent(), [("a".to_owned(), 1)]);
    assert_eq!((done.attempts, done.last_error), (0, None));
    engine.close().await;
}

/// PBX-080: others are done at once; the locked one is settled when it is free, and delivered once.
#[tokio::test(start_paused = true)]
async fn a_locked_row_delays_only_its_own_outcome() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(tampered.clone(), sink.clone(), EngineSettings::default(), 1).await;
    tampered.lock(&["b"]);
    for id in ["a", "b", "c"] {
        write(&store, id, None).await;
    }
    until(&store, "a", Status::Done).await;
    until(&store, "c", Status::Done).await;
    pass(Duration::from_secs(60)).await;
    let settles = tampered.take_calls()[&Call::Settle];
    assert!((20..60).contains(&settles), "it is tried again, with pauses up to 2 s: {settles}");
    write(&store, "d", None).await;
    until(&store, "d", Status::Done).await;
    assert_eq!(record(&store, "b").await.status, Status::New);
    tampered.lock(&[]);
    until(&store, "b", Status::Done).await;
    pass(Duration::from_secs(30)).await;
    assert_eq!(sink.ids(), ["a", "b", "c", "d"]);
    engine.close().await;
}

/// PBX-080: a group waits for the outcome of its head, and no other group does.
#[tokio::test(start_paused = true)]
async fn a_locked_head_that_failed_holds_back_its_own_group_alone() {
    let (store, sink) = (MemoryStore::new(), failing_head());
    let tampered = Tampered::new(&store);
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(OnDead::Skip, 1), 1).await;
    tampered.lock(&["g1"]);
    for (id, group) in [("g1", "g"), ("g2", "g"), ("h1", "h")] {
        write(&store, id, Some(group)).await;
    }
    until(&store, "h1", Status::Done).await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(sink.ids().iter().filter(|id| id.starts_with('g')).count(), 1, "g2 waits for g1's end");
    tampered.lock(&[]);
    until(&store, "g1", Status::Dead).await;
    until(&store, "g2", Status::Done).await;
    engine.close().await;
}

/// PBX-080: what stays locked does not keep an engine from its end.
#[tokio::test(start_paused = true)]
async fn an_engine_closes_while_a_row_stays_locked() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(tampered.clone(), sink.clone(), EngineSettings::default(), 1).await;
    tampered.lock(&["b"]);
    write(&store, "a", None).await;
    write(&store, "b", None).await;
    until(&store, "a", Status::Done).await;
    sink.until_sent(2).await;
    engine.close().await;
    assert_eq!(record(&store, "b").await.status, Status::New, "it is delivered again by the next");
}

/// PBX-010: the second try of a settle whose answer was lost finds the head dead; its group stays blocked.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_death_does_not_free_its_group() {
    let (store, sink) = (MemoryStore::new(), failing_head());
    let tampered = Tampered::new(&store);
    tampered.next(Call::Settle, How::Lose);
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(OnDead::Block, 1), 1).await;
    write(&store, "g1", Some("g")).await;
    write(&store, "g2", Some("g")).await;
    until(&store, "g1", Status::Dead).await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(sink.ids(), ["g1"], "the group is blocked");
    skip(&store).await;
    until(&store, "g2", Status::Done).await;
    engine.close().await;
}

/// PBX-010: a block is lifted before the settle that made it is confirmed, and a heartbeat tells of it meanwhile.
#[tokio::test(start_paused = true)]
async fn a_block_that_is_lifted_at_once_is_lifted_here_too() {
    let (store, sink) = (MemoryStore::new(), failing_head());
    let tampered = Tampered::new(&store);
    tampered.next(Call::Settle, How::HoldAnswer);
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(OnDead::Block, 1), 1).await;
    write(&store, "g1", Some("g")).await;
    write(&store, "g2", Some("g")).await;
    until(&store, "g1", Status::Dead).await;
    skip(&store).await;
    pass(Duration::from_secs(10)).await;
    tampered.release();
    until(&store, "g2", Status::Done).await;
    engine.close().await;
}

/// PBX-012: a retry is due, promoted and read again before the settle that made it is confirmed.
#[tokio::test(start_paused = true)]
async fn a_retry_that_overtakes_its_settle_is_not_lost() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let mut first = true;
    let sink = Scripted::new(move |_| if std::mem::take(&mut first) { failed() } else { Verdict::Accepted });
    tampered.next(Call::Settle, How::HoldAnswer);
    let mut engine = engine(tampered.clone(), sink.clone(), EngineSettings::default(), 1).await;
    write(&store, "a", None).await;
    sink.until_sent(1).await;
    pass(Duration::from_secs(20)).await;
    tampered.release();
    assert_eq!(until(&store, "a", Status::Done).await.attempts, 1);
    engine.close().await;
}

/// PBX-010: under skip the next event waits until the death of the head is in the store.
#[tokio::test(start_paused = true)]
async fn with_skip_the_next_is_sent_once_the_death_is_in_the_store() {
    let (store, sink) = (MemoryStore::new(), failing_head());
    let tampered = Tampered::new(&store);
    tampered.next(Call::Settle, How::HoldRequest);
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(OnDead::Skip, 1), 1).await;
    write(&store, "g1", Some("g")).await;
    write(&store, "g2", Some("g")).await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(sink.ids(), ["g1"], "a crash now would bring the head back");
    tampered.release();
    until(&store, "g2", Status::Done).await;
    assert_eq!(record(&store, "g1").await.status, Status::Dead);
    engine.close().await;
}

/// PBX-011: the store fails over while an event is out, and gives its number to another.
#[tokio::test(start_paused = true)]
async fn an_event_with_the_number_of_one_that_is_gone_is_delivered() {
    for on_done in [OnDone::Keep, OnDone::Delete] {
        let store = MemoryStore::new();
        let tampered = Tampered::new(&store);
        let sink = Scripted::new(|_| Verdict::Accepted);
        tampered.next(Call::Settle, How::HoldRequest);
        let settings = EngineSettings { on_done, ..EngineSettings::default() };
        let mut engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
        write(&store, "old", None).await;
        sink.until_sent(1).await;
        assert_eq!(store.put_back(1), [EventId::new("old").unwrap()]);
        write(&store, "new", None).await;
        tampered.release();
        sink.until_sent(2).await;
        assert_eq!(sink.ids(), ["old", "new"], "{on_done:?}");
        engine.close().await;
    }
}
