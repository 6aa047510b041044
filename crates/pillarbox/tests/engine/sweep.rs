//! The sweep: a row that the read position has passed is found, whatever the store believed, and nothing comes twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{GroupKey, Status};
use pillarbox::port::{
    AnyTable, GroupAction, GroupChange, MetricsExporter, Order, Sink, Store, Table, Verdict,
};

use crate::gated::Gated;
use crate::kit::{Scripted, pass, record, until, write};
use crate::tampered::{Call, How, Tampered};

const SWEEP: Duration = Duration::from_secs(300);

/// Counts rows that sweeps found.
#[derive(Default)]
struct Passed(AtomicU64);

impl Passed {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl MetricsExporter for Passed {
    fn read_passed(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

async fn engine(
    store: &Arc<Tampered>,
    sink: Arc<dyn Sink>,
    settings: EngineSettings,
) -> (Engine, Arc<Passed>) {
    let passed = Arc::new(Passed::default());
    let metrics = Arc::clone(&passed) as Arc<dyn MetricsExporter>;
    let table = AnyTable::Native(Arc::clone(store) as Arc<dyn Store>);
    (Engine::start(EngineParts { table, sink, metrics, settings, seed: 1 }).await.unwrap(), passed)
}

/// Waits until the read that was to pass rows by has done so.
async fn until_passed_by(tampered: &Tampered) {
    while tampered.is_to_pass_by() {
        pass(Duration::from_millis(10)).await;
    }
}

async fn change_group(store: &MemoryStore, group: &str, action: GroupAction) {
    let group = GroupKey::new(group);
    let change = GroupChange { group, action, reason: None, by: "operator".to_owned(), now: None };
    store.admin().change_group(change).await.unwrap();
}

/// PBX-035
#[tokio::test(start_paused = true)]
async fn a_row_that_was_passed_by_in_an_idle_outbox_comes_with_the_next_sweep() {
    let store = MemoryStore::new();
    let (tampered, sink) = (Tampered::without_hints(&store), Scripted::new(|_| Verdict::Accepted));
    let (mut engine, passed) = engine(&tampered, sink.clone(), EngineSettings::default()).await;
    tampered.pass_by();
    write(&store, "lost", None).await;
    until_passed_by(&tampered).await;
    pass(SWEEP / 2).await;
    assert_eq!(record(&store, "lost").await.status, Status::New, "no ordinary read finds it");
    pass(SWEEP).await;
    assert_eq!(record(&store, "lost").await.status, Status::Done);
    assert_eq!((sink.ids(), passed.count()), (vec!["lost".to_owned()], 1));
    engine.close().await;
}

/// PBX-035, PBX-012: rows in flight, in memory and not yet settled lie below the read position too.
#[tokio::test(start_paused = true)]
async fn a_sweep_delivers_nothing_twice() {
    for order in [Order::None, Order::PerGroup] {
        let (store, sink) = (MemoryStore::new(), Gated::shut());
        let tampered = Tampered::new(&store);
        let settings = EngineSettings {
            order,
            cold_rows: 8,
            sweep_interval: Duration::from_millis(500),
            ..EngineSettings::default()
        };
        for n in 0..40 {
            write(&store, &n.to_string(), Some(&(n % 3).to_string())).await;
        }
        tampered.next(Call::Settle, How::HoldAnswer);
        let (mut engine, passed) = engine(&tampered, sink.clone(), settings).await;
        sink.until_begun(3).await;
        pass(Duration::from_secs(5)).await;
        sink.open(5);
        pass(Duration::from_secs(5)).await;
        tampered.release();
        sink.open(35);
        for n in 0..40 {
            until(&store, &n.to_string(), Status::Done).await;
        }
        let mut accepted = sink.seen().accepted;
        accepted.sort_unstable();
        accepted.dedup();
        assert_eq!((accepted.len(), sink.seen().begun.len()), (40, 40), "{order:?}");
        assert_eq!(passed.count(), 0, "{order:?}: nothing was passed by");
        engine.close().await;
    }
}

/// PBX-035, PBX-010: the row is found while a batch of its group is out and others wait in memory.
#[tokio::test(start_paused = true)]
async fn a_row_that_was_passed_by_goes_before_what_its_group_has_waiting() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let tampered = Tampered::new(&store);
    let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
    let (mut engine, passed) = engine(&tampered, sink.clone(), settings).await;
    tampered.pass_by();
    write(&store, "1", Some("g")).await;
    until_passed_by(&tampered).await;
    for id in ["2", "3", "4"] {
        write(&store, id, Some("g")).await;
    }
    sink.until_begun(1).await;
    // A delivery is given up and made again when its deadline has passed.
    pass(SWEEP - Duration::from_secs(1)).await;
    sink.open(1);
    sink.until_begun(2).await;
    assert_eq!(passed.count(), 0);
    pass(Duration::from_secs(2)).await;
    sink.open(3);
    until(&store, "1", Status::Done).await;
    until(&store, "4", Status::Done).await;
    assert_eq!((sink.seen().accepted, passed.count()), (["2", "3", "1", "4"].map(String::from).to_vec(), 1));
    engine.close().await;
}

/// PBX-035, PBX-013: rows of a paused group lie below the read position for as long as it is paused.
#[tokio::test(start_paused = true)]
async fn a_sweep_passes_held_groups_in_bounded_pages() {
    let store = MemoryStore::new();
    change_group(&store, "held", GroupAction::Pause).await;
    for n in 0..2_500 {
        write(&store, &format!("{n:04}"), Some("held")).await;
    }
    let (tampered, sink) = (Tampered::new(&store), Scripted::new(|_| Verdict::Accepted));
    let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
    let (mut engine, passed) = engine(&tampered, sink.clone(), settings).await;
    pass(SWEEP / 2).await;
    let (asked, read) = (tampered.rows_asked().len(), tampered.rows_read());
    tampered.take_calls();
    pass(SWEEP).await;
    assert_eq!(tampered.rows_read() - read, 2_500, "one sweep reads each row once");
    assert_eq!(tampered.rows_asked()[asked..], [1_000; 3]);
    assert_eq!((tampered.take_calls()[&Call::Fetch], passed.count()), (3, 0));
    change_group(&store, "held", GroupAction::Resume).await;
    until(&store, "2499", Status::Done).await;
    assert!(sink.ids().is_sorted() && sink.ids().len() == 2_500);
    engine.close().await;
}

/// PBX-035: a sweep that can't be read waits, and ordinary reads go on.
#[tokio::test(start_paused = true)]
async fn a_sweep_that_fails_keeps_no_event_waiting() {
    let store = MemoryStore::new();
    let (tampered, sink) = (Tampered::new(&store), Scripted::new(|_| Verdict::Accepted));
    let (mut engine, _) = engine(&tampered, sink.clone(), EngineSettings::default()).await;
    pass(SWEEP - Duration::from_millis(10)).await;
    tampered.take_calls();
    tampered.next(Call::Fetch, How::Fail);
    pass(Duration::from_millis(20)).await;
    assert_eq!(tampered.take_calls()[&Call::Fetch], 1, "the sweep");
    write(&store, "a", None).await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(record(&store, "a").await.status, Status::Done);
    tampered.take_calls();
    pass(Duration::from_secs(60)).await;
    assert_eq!(tampered.take_calls()[&Call::Fetch], 1, "the sweep again");
    engine.close().await;
}
