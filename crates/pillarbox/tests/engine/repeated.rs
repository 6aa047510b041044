//! Settles that are repeated because their answer was lost: what was applied counts once.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::{EngineSettings, OnDead};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{Attempt, EventId, GroupKey, Status};
use pillarbox::port::{GroupAction, GroupChange, Order, Table, Verdict};

use crate::kit::{Scripted, engine, pass, record, until, write};
use crate::tampered::{Call, How, Tampered};

const NO: fn() -> Verdict = || Verdict::Failed { error: "no".to_owned(), after: None };

/// Fails as often as this, then accepts everything.
fn failing(mut times: u32) -> Arc<Scripted> {
    Scripted::new(move |_| match times {
        0 => Verdict::Accepted,
        _ => {
            times -= 1;
            NO()
        }
    })
}

fn ordered(on_dead: OnDead, max_attempts: u32) -> EngineSettings {
    EngineSettings { order: Order::PerGroup, on_dead, max_attempts, ..EngineSettings::default() }
}

async fn attempts(store: &MemoryStore, id: &str) -> Vec<Attempt> {
    store.admin().show(EventId::new(id).unwrap()).await.unwrap().unwrap().attempts
}

/// PBX-220
#[tokio::test(start_paused = true)]
async fn a_failure_whose_answer_was_lost_counts_once() {
    for group in [None, Some("g")] {
        let store = MemoryStore::new();
        let tampered = Tampered::new(&store);
        for how in [How::Lose, How::Lose, How::Fail] {
            tampered.next(Call::Settle, how);
        }
        let sink = failing(1);
        let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
        let mut engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
        write(&store, "a", group).await;
        let done = until(&store, "a", Status::Done).await;
        assert_eq!((done.attempts, attempts(&store, "a").await.len()), (1, 1), "{group:?}");
        assert_eq!(sink.sent(), [("a".to_owned(), 1), ("a".to_owned(), 2)], "{group:?}");
        engine.close().await;
    }
}

/// PBX-220
#[tokio::test(start_paused = true)]
async fn a_death_whose_answer_was_lost_spares_what_an_operator_replayed() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    tampered.next(Call::Settle, How::Lose);
    tampered.always(Call::Settle, How::Fail);
    let sink = failing(1);
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(OnDead::Block, 1), 1).await;
    pass(Duration::from_secs(1)).await;
    write(&store, "a", Some("g")).await;
    until(&store, "a", Status::Dead).await;
    let (group, action) = (GroupKey::new("g"), GroupAction::Unblock);
    let request = GroupChange { group, action, reason: None, by: "operator".to_owned(), now: None };
    assert!(store.admin().change_group(request).await.unwrap());
    pass(Duration::from_secs(10)).await;
    tampered.let_be();
    let done = until(&store, "a", Status::Done).await;
    assert_eq!((done.attempts, attempts(&store, "a").await.len()), (0, 1), "the replay began anew");
    assert_eq!(sink.sent(), [("a".to_owned(), 1), ("a".to_owned(), 1)]);
    engine.close().await;
}

/// PBX-220: no time has passed since the event was written, so the repeated settle cannot tell it from one that was
/// replayed.
#[tokio::test(start_paused = true)]
async fn a_failure_that_was_not_settled_is_delivered_again_in_its_place() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|delivery| match delivery.event.id().as_str() {
        "g2" => Verdict::Accepted,
        _ => NO(),
    });
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(OnDead::Skip, 1), 1).await;
    pass(Duration::from_secs(1)).await;
    tampered.next(Call::Settle, How::Fail);
    write(&store, "g1", Some("g")).await;
    write(&store, "g2", Some("g")).await;
    until(&store, "g2", Status::Done).await;
    assert_eq!(sink.ids(), ["g1", "g1", "g2"]);
    assert_eq!(record(&store, "g1").await.status, Status::Dead);
    engine.close().await;
}

/// PBX-220: one failure is settled again because the answer was lost, and waits for a lock. Another one, which waits for
/// a lock too, was not settled before.
#[tokio::test(start_paused = true)]
async fn a_failure_is_not_refused_because_another_one_is_repeated() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|_| NO());
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(OnDead::Skip, 9), 1).await;
    pass(Duration::from_secs(1)).await;
    tampered.next(Call::Settle, How::Fail);
    tampered.lock(&["a"]);
    write(&store, "a", Some("g")).await;
    pass(Duration::from_secs(10)).await;
    tampered.lock(&["a", "b"]);
    write(&store, "b", Some("h")).await;
    pass(Duration::from_secs(10)).await;
    tampered.lock(&["a"]);
    assert_eq!(until(&store, "b", Status::Retry).await.attempts, 1);
    let sent: Vec<_> = sink.sent().into_iter().filter(|(id, _)| id == "b").collect();
    assert_eq!(sent, [("b".to_owned(), 1)]);
    tampered.let_be();
    tampered.lock(&[]);
    engine.close().await;
}
