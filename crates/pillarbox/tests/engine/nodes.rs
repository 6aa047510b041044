//! Several nodes: sharing, handing over, taking over, fencing, and how a node ends.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::EngineSettings;
use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::port::{Order, Table, Verdict};
use tokio::time::Instant;

use crate::gated::Gated;
use crate::kit::{Scripted, engine, pass, record, until, write};
use crate::tampered::{Call, How, Tampered};

fn ordered() -> EngineSettings {
    EngineSettings { order: Order::PerGroup, ..EngineSettings::default() }
}

/// PBX-011
#[tokio::test(start_paused = true)]
async fn nodes_share_the_groups_and_deliver_nothing_twice_while_they_come_and_go() {
    let store = MemoryStore::new();
    let sinks: Vec<_> = (0..3).map(|_| Scripted::new(|_| Verdict::Accepted)).collect();
    let mut nodes = Vec::new();
    for n in 0..300_usize {
        write(&store, &format!("e{n}"), Some(&format!("g{}", n % 40))).await;
        pass(Duration::from_millis(200)).await;
        if n % 60 == 0 && nodes.len() < 3 {
            let sink = sinks[nodes.len()].clone();
            nodes.push(engine(Arc::new(store.clone()), sink, ordered(), n as u64).await);
        }
        if n == 220 {
            nodes[0].close().await;
        }
    }
    for n in 0..300 {
        until(&store, &format!("e{n}"), Status::Done).await;
    }
    let mut all: Vec<String> = sinks.iter().flat_map(|sink| sink.ids()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 300);
    assert_eq!(sinks.iter().map(|sink| sink.sent().len()).sum::<usize>(), 300, "nothing twice");
    assert!(sinks.iter().all(|sink| sink.sent().len() > 30), "each had its share");
    for mut node in nodes {
        node.close().await;
    }
    assert!(store.admin().nodes().await.unwrap().is_empty());
}

/// PBX-011: a node that slept through its lease changes no row when it wakes, and starts anew.
#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_lease_changes_nothing() {
    let store = MemoryStore::new();
    let asleep = Tampered::new(&store);
    let (first, second) = (Scripted::new(|_| Verdict::Accepted), Scripted::new(|_| Verdict::Accepted));
    let mut sleeper = engine(asleep.clone(), first.clone(), ordered(), 1).await;
    asleep.always(Call::Settle, How::HoldRequest);
    asleep.always(Call::Heartbeat, How::HoldRequest);
    write(&store, "g1", Some("g")).await;
    first.until_sent(1).await;
    let mut other = engine(Arc::new(store.clone()), second.clone(), ordered(), 2).await;
    let done = until(&store, "g1", Status::Done).await;
    assert_eq!(second.ids(), ["g1"], "taken over when the lease ended");
    asleep.let_be();
    (0..10).for_each(|_| asleep.release());
    pass(Duration::from_secs(60)).await;
    assert_eq!(record(&store, "g1").await.done_at, done.done_at, "the late outcome changed nothing");
    assert_eq!(store.admin().nodes().await.unwrap().len(), 2, "it has joined again");
    other.close().await;
    write(&store, "g2", Some("g")).await;
    until(&store, "g2", Status::Done).await;
    assert_eq!(first.ids(), ["g1", "g2"]);
    sleeper.close().await;
}

/// PBX-011: a read that was under way while its slot went to another node and came back brings nothing of it.
#[tokio::test(start_paused = true)]
async fn a_read_older_than_the_holding_of_a_slot_counts_for_nothing() {
    let store = MemoryStore::new();
    let slow = Tampered::new(&store);
    let (first, second) = (Scripted::new(|_| Verdict::Accepted), Scripted::new(|_| Verdict::Accepted));
    let mut one = engine(slow.clone(), first.clone(), ordered(), 1).await;
    pass(Duration::from_secs(1)).await;
    slow.next(Call::Fetch, How::HoldAnswer);
    // The second node to join gets the upper half of the slots.
    let mut groups = (0..).map(|n| format!("g{n}"));
    let id = loop {
        let group = groups.next().unwrap();
        let other = MemoryStore::new();
        write(&other, &group, Some(&group)).await;
        if record(&other, &group).await.slot.0 >= 32 {
            write(&store, &group, Some(&group)).await;
            break group;
        }
    };
    pass(Duration::from_millis(10)).await;
    let mut two = engine(Arc::new(store.clone()), second.clone(), ordered(), 2).await;
    until(&store, &id, Status::Done).await;
    assert_eq!(second.ids(), [id.as_str()]);
    two.close().await;
    pass(Duration::from_secs(30)).await;
    slow.release();
    pass(Duration::from_secs(30)).await;
    assert!(first.ids().is_empty(), "the other node had delivered it");
    one.close().await;
}

/// PBX-011: whose slots they were is lost with a heartbeat's answer; they are tried with care all the same.
#[tokio::test(start_paused = true)]
async fn slots_taken_by_a_heartbeat_whose_answer_was_lost_are_tried_with_care() {
    let (store, dead) = (MemoryStore::new(), Gated::shut());
    let alone = EngineSettings { workers: 1, ..ordered() };
    let doomed = engine(Arc::new(store.clone()), dead.clone(), ordered(), 1).await;
    write(&store, "g1", Some("g")).await;
    dead.until_begun(1).await;
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut heir = engine(tampered.clone(), sink.clone(), alone, 2).await;
    drop(doomed);
    tampered.always(Call::Heartbeat, How::Lose);
    pass(Duration::from_secs(20)).await;
    tampered.let_be();
    let done = until(&store, "g1", Status::Done).await;
    assert_eq!(done.attempts, 1, "its attempt was written before it was sent");
    heir.close().await;
}

/// PBX-016: a store that fails is not hammered, whatever there is to tell it.
#[tokio::test(start_paused = true)]
async fn failing_heartbeats_are_not_repeated_without_a_pause() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut one = engine(tampered.clone(), sink.clone(), ordered(), 1).await;
    let mut two = engine(Arc::new(store.clone()), sink.clone(), ordered(), 2).await;
    // The first node learns that it is to give slots, and can't tell that they are free.
    pass(Duration::from_millis(5_050)).await;
    tampered.always(Call::Heartbeat, How::Fail);
    tampered.take_calls();
    pass(Duration::from_secs(10)).await;
    let heartbeats = tampered.take_calls().get(&Call::Heartbeat).copied().unwrap_or_default();
    assert!((1..=11).contains(&heartbeats), "{heartbeats} heartbeats in ten seconds");
    tampered.let_be();
    one.close().await;
    two.close().await;
}

/// EVT-166: dropping an engine that was not closed stops it; its rows stay pending.
#[tokio::test(start_paused = true)]
async fn a_dropped_engine_is_silent_and_leaves_its_rows_pending() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let tampered = Tampered::new(&store);
    let engine = engine(tampered.clone(), sink.clone(), ordered(), 1).await;
    write(&store, "g1", Some("g")).await;
    sink.until_begun(1).await;
    drop(engine);
    pass(Duration::from_millis(1)).await;
    tampered.take_calls();
    write(&store, "g2", Some("g")).await;
    pass(Duration::from_secs(60)).await;
    assert!(tampered.take_calls().is_empty());
    assert_eq!(sink.seen().begun, ["g1"]);
    assert!(record(&store, "g1").await.status.is_pending());
}

/// EVT-166: a close that its caller gives up is not a close.
#[tokio::test(start_paused = true)]
async fn an_engine_dropped_in_the_midst_of_its_close_ends_too() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let tampered = Tampered::new(&store);
    let mut engine = engine(tampered.clone(), sink.clone(), ordered(), 1).await;
    write(&store, "g1", Some("g")).await;
    sink.until_begun(1).await;
    let given_up = tokio::time::timeout(Duration::from_secs(1), engine.close()).await;
    assert!(given_up.is_err());
    drop(engine);
    pass(Duration::from_millis(1)).await;
    tampered.take_calls();
    pass(Duration::from_secs(60)).await;
    assert!(tampered.take_calls().is_empty(), "nobody renews a lease that nobody uses");
}

/// Closing waits for what is out, settles it though the store fails at first, and leaves no lease behind.
#[tokio::test(start_paused = true)]
async fn closing_drains_settles_and_leaves() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let tampered = Tampered::new(&store);
    let mut closing = engine(tampered.clone(), sink.clone(), ordered(), 1).await;
    write(&store, "g1", Some("g")).await;
    write(&store, "g2", Some("g")).await;
    sink.until_begun(1).await;
    tampered.next(Call::Settle, How::Fail);
    tampered.next(Call::Settle, How::Fail);
    let began = Instant::now();
    let opens = async {
        pass(Duration::from_secs(2)).await;
        sink.open(2);
    };
    tokio::join!(closing.close(), opens);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(record(&store, "g1").await.status, Status::Done);
    assert_eq!(record(&store, "g2").await.status, Status::Done, "what was in memory is delivered");
    assert!(store.admin().nodes().await.unwrap().is_empty());
    closing.close().await;
}

/// Closing waits no longer than its deadline; what was out stays pending and is delivered by the next.
#[tokio::test(start_paused = true)]
async fn closing_gives_back_what_does_not_end_in_time() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let mut closing = engine(Arc::new(store.clone()), sink.clone(), ordered(), 1).await;
    write(&store, "g1", Some("g")).await;
    sink.until_begun(1).await;
    let began = Instant::now();
    closing.close().await;
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
    assert_eq!(sink.seen().at_once, 0);
    assert!(store.admin().nodes().await.unwrap().is_empty());
    let next = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(Arc::new(store.clone()), next.clone(), ordered(), 2).await;
    let done = until(&store, "g1", Status::Done).await;
    assert_eq!(done.attempts, 0, "it was given back untouched");
    engine.close().await;
}
