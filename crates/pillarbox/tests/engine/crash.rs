//! After a crash: take-over, careful delivery, and events that kill their process.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::{Engine, EngineSettings};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{NodeId, Status};
use pillarbox::port::{Delivery, Handed, Order, ReadScope, Register, Sink, Table, Verdict};
use tokio::sync::Notify;

use crate::gated::Gated;
use crate::kit::{Scripted, engine, pass, record, until, write};

fn settings(max_attempts: u32) -> EngineSettings {
    EngineSettings { order: Order::PerGroup, workers: 1, max_attempts, ..EngineSettings::default() }
}

/// A sink in which nothing ends: where a process is killed.
struct Deadly(Notify);

impl Sink for Deadly {
    fn deliver<'a>(&'a self, _batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            self.0.notify_one();
            std::future::pending().await
        })
    }
}

/// Runs a process until it delivers something, and kills it there.
async fn die_delivering(store: &MemoryStore, max_attempts: u32, seed: u64) {
    die(store, settings(max_attempts), seed).await;
}

async fn die(store: &MemoryStore, settings: EngineSettings, seed: u64) {
    let sink = Arc::new(Deadly(Notify::new()));
    let doomed: Engine = engine(Arc::new(store.clone()), sink.clone(), settings, seed).await;
    sink.0.notified().await;
    drop(doomed);
}

/// PBX-011
#[tokio::test(start_paused = true)]
async fn a_dead_nodes_events_are_delivered_by_another_when_its_lease_ends() {
    let store = MemoryStore::new();
    write(&store, "g1", Some("g")).await;
    write(&store, "g2", Some("g")).await;
    die_delivering(&store, 10, 1).await;
    let began = tokio::time::Instant::now();
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut next = engine(Arc::new(store.clone()), sink.clone(), settings(10), 2).await;
    until(&store, "g2", Status::Done).await;
    assert!(began.elapsed() >= Duration::from_secs(10), "not before the lease of 15 s has ended");
    assert!(began.elapsed() <= Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(sink.ids(), ["g1", "g2"]);
    assert_eq!(sink.sent()[0], ("g1".to_owned(), 1), "its attempt was written before it was sent");
    assert_eq!(record(&store, "g1").await.attempts, 1, "and stays counted");
    assert_eq!(record(&store, "g2").await.attempts, 0, "the one behind it was not suspect");
    next.close().await;
    assert!(store.admin().nodes().await.unwrap().is_empty());
}

/// PBX-011: an event that ends its process each time dies of its attempts, and the rest goes on.
#[tokio::test(start_paused = true)]
async fn an_event_that_kills_its_process_dies_too() {
    let store = MemoryStore::new();
    write(&store, "killer", Some("g")).await;
    for life in 0..4 {
        die_delivering(&store, 3, life).await;
        if record(&store, "killer").await.attempts == 3 {
            break;
        }
    }
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut next = engine(Arc::new(store.clone()), sink.clone(), settings(3), 9).await;
    write(&store, "other", Some("h")).await;
    let dead = until(&store, "killer", Status::Dead).await;
    assert_eq!(dead.attempts, 3);
    assert!(dead.last_error.unwrap().contains("process ended"));
    until(&store, "other", Status::Done).await;
    assert_eq!(sink.ids(), ["other"]);
    next.close().await;
}

/// PBX-011: what is handed over in order is trusted, and goes on at once.
#[tokio::test(start_paused = true)]
async fn a_clean_stop_leaves_nothing_to_wait_for() {
    let store = MemoryStore::new();
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut first = engine(Arc::new(store.clone()), sink.clone(), settings(10), 1).await;
    write(&store, "g1", Some("g")).await;
    until(&store, "g1", Status::Done).await;
    first.close().await;
    write(&store, "g2", Some("g")).await;
    let began = tokio::time::Instant::now();
    let mut second = engine(Arc::new(store.clone()), sink.clone(), settings(10), 2).await;
    let record = until(&store, "g2", Status::Done).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(record.attempts, 0, "no attempt is written ahead for slots that were handed over");
    second.close().await;
}

/// PBX-063: with several workers the culprit is looked for among several, half as many after each crash, and only what was sent
/// alone has an attempt counted.
#[tokio::test(start_paused = true)]
async fn crashes_narrow_down_to_the_one_that_causes_them() {
    let store = MemoryStore::new();
    let wide = EngineSettings { workers: 4, ..settings(3) };
    for n in 0..8 {
        write(&store, &format!("e{n}"), Some(&format!("g{n}"))).await;
    }
    let mut out = Vec::new();
    for life in 0..12 {
        let sink = Gated::shut();
        let doomed = engine(Arc::new(store.clone()), sink.clone(), wide.clone(), life).await;
        sink.until_begun(1).await;
        pass(Duration::from_secs(40)).await;
        out.push(sink.seen().begun.len());
        drop(doomed);
    }
    assert_eq!(out[..4], [4, 4, 2, 1], "{out:?}");
    let mut died = 0;
    for n in 0..8 {
        let record = record(&store, &format!("e{n}")).await;
        assert!(record.attempts == 0 || record.attempts <= 3, "{record:?}");
        died += usize::from(record.status == Status::Dead);
    }
    assert!((1..8).contains(&died), "those that were alone each time died, the others did not: {died}");
}

/// PBX-063
#[tokio::test(start_paused = true)]
async fn what_is_written_after_a_crash_is_not_quarantined() {
    let store = MemoryStore::new();
    write(&store, "old", Some("old")).await;
    for life in 0..3 {
        die(&store, settings(10), life).await;
        pass(Duration::from_secs(60)).await;
    }
    let began = Gated::shut();
    let wide = EngineSettings { workers: 8, ..settings(10) };
    let mut next = engine(Arc::new(store.clone()), began.clone(), wide, 9).await;
    pass(Duration::from_secs(60)).await;
    for n in 0..7 {
        write(&store, &format!("new{n}"), Some(&format!("g{n}"))).await;
    }
    began.until_begun(8).await;
    for n in 0..7 {
        assert_eq!(record(&store, &format!("new{n}")).await.attempts, 0, "new{n}");
    }
    began.open(8);
    until(&store, "old", Status::Done).await;
    next.close().await;
}

/// PBX-063: where numbers are given again, they do not tell what was written later.
#[tokio::test(start_paused = true)]
async fn where_numbers_went_back_everything_is_quarantined() {
    let store = MemoryStore::new();
    for n in 0..3 {
        write(&store, &format!("e{n}"), Some(&format!("g{n}"))).await;
    }
    die_delivering(&store, 10, 1).await;
    store.put_back(3);
    for n in 0..3 {
        write(&store, &format!("again{n}"), Some(&format!("g{n}"))).await;
    }
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut next = engine(Arc::new(store.clone()), sink, settings(10), 2).await;
    for n in 0..3 {
        assert_eq!(until(&store, &format!("again{n}"), Status::Done).await.attempts, 1);
    }
    next.close().await;
}

/// Whether the next node to join finds slots in quarantine.
async fn is_quarantined(store: &MemoryStore) -> bool {
    let (node, lease) = (NodeId::from_random(77), Duration::from_secs(15));
    let join = Register { node, label: "next".to_owned(), reads: ReadScope::Share, lease, now: None };
    let membership = store.register(join).await.unwrap();
    membership.held.iter().any(|held| held.quarantine.is_some())
}

/// PBX-063: a process that tries everything and ends before its first heartbeat hands no crash on.
#[tokio::test(start_paused = true)]
async fn a_clean_stop_after_everything_was_tried_ends_the_quarantine() {
    let store = MemoryStore::new();
    write(&store, "g1", Some("g")).await;
    die_delivering(&store, 10, 1).await;
    pass(Duration::from_secs(60)).await;
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut next = engine(Arc::new(store.clone()), sink, settings(10), 2).await;
    let began = tokio::time::Instant::now();
    until(&store, "g1", Status::Done).await;
    next.close().await;
    assert!(began.elapsed() < Duration::from_secs(5), "before its first heartbeat: {:?}", began.elapsed());
    assert!(!is_quarantined(&store).await);
}

/// PBX-063: what was read and not tried is given back as suspect as it was.
#[tokio::test(start_paused = true)]
async fn a_clean_stop_before_everything_was_tried_keeps_the_quarantine() {
    let store = MemoryStore::new();
    write(&store, "g1", Some("g")).await;
    write(&store, "h1", Some("h")).await;
    die_delivering(&store, 10, 1).await;
    pass(Duration::from_secs(60)).await;
    let sink = Gated::shut();
    let brief = EngineSettings { drain: Duration::ZERO, ..settings(10) };
    let mut next = engine(Arc::new(store.clone()), sink.clone(), brief, 2).await;
    sink.until_begun(1).await;
    next.close().await;
    assert!(is_quarantined(&store).await);
}
