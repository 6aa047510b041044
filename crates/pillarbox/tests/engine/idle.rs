//! An idle engine costs nothing but its heartbeats; a busy one settles in batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use pillarbox::engine::EngineSettings;
use pillarbox::memory::MemoryStore;
use pillarbox::model::{NewRow, NodeId, Placement, Row, Status, Written};
use pillarbox::port::{
    Admin, Claim, DueTopics, Facts, Fetch, Fetched, Heartbeat, Membership, Promote, Promoted, Reap, Register,
    Settle, Settled, Store, StoreFuture, Table, Verdict, Wakeups, Write,
};

use crate::kit::{Scripted, engine, pass, until, write};

/// Counts the calls of a memory store.
struct Counted {
    inner: MemoryStore,
    calls: Mutex<BTreeMap<&'static str, usize>>,
}

impl Counted {
    fn note(&self, call: &'static str) {
        *self.calls.lock().unwrap().entry(call).or_default() += 1;
    }

    fn take(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl Table for Counted {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.inner.now()
    }
    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        self.note("settle");
        self.inner.settle(request)
    }
    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        self.note("register");
        self.inner.register(request)
    }
    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        self.note("heartbeat");
        self.inner.heartbeat(request)
    }
    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.note("leave");
        self.inner.leave(node)
    }
    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.inner.write(request)
    }
    fn admin(&self) -> &dyn Admin {
        self.inner.admin()
    }
    fn wakeups(&self) -> Option<Wakeups> {
        self.inner.wakeups()
    }
}

impl Store for Counted {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.note("fetch");
        self.inner.fetch(request)
    }
    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.note("claim");
        self.inner.claim(request)
    }
    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.inner.due_topics(request)
    }
    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.note("reap");
        self.inner.reap(request)
    }
    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.note("promote");
        self.inner.promote(request)
    }
}

fn counted() -> (MemoryStore, Arc<Counted>) {
    let store = MemoryStore::new();
    (store.clone(), Arc::new(Counted { inner: store, calls: Mutex::default() }))
}

/// PBX-016
#[tokio::test(start_paused = true)]
async fn an_idle_hour_costs_heartbeats_and_a_sweep_every_five_minutes() {
    let (store, counted) = counted();
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(Arc::clone(&counted) as Arc<dyn Store>, sink, EngineSettings::default(), 1).await;
    write(&store, "a", None).await;
    until(&store, "a", Status::Done).await;
    pass(Duration::from_secs(60)).await;
    counted.take();
    pass(Duration::from_secs(3_600)).await;
    let calls = counted.take();
    assert_eq!(calls.keys().copied().collect::<Vec<_>>(), ["fetch", "heartbeat"], "{calls:?}");
    assert_eq!(calls["fetch"], 3_600 / 300, "{calls:?}");
    assert!(calls["heartbeat"] <= 3_600 / 5 + 1, "a heartbeat every third of the lease: {calls:?}");
    engine.close().await;
}

/// PBX-015
#[tokio::test(start_paused = true)]
async fn outcomes_are_settled_together_when_busy_and_at_once_when_idle() {
    let (store, counted) = counted();
    let sink = Scripted::new(|_| Verdict::Accepted);
    let rows = (0..300).map(|n| NewRow {
        event: pillarbox::Event::text("t", "{}").id(format!("e{n}")).build().unwrap(),
        placement: Placement::Slot,
    });
    store.write(Write { rows: rows.collect(), now: None }).await.unwrap();
    let settings = EngineSettings { fetch_rows: 300, ..EngineSettings::default() };
    let mut engine = engine(Arc::clone(&counted) as Arc<dyn Store>, sink.clone(), settings, 1).await;
    sink.until_sent(300).await;
    until(&store, "e299", Status::Done).await;
    assert!(counted.take()["settle"] <= 5, "300 outcomes go in a few settles");
    let began = tokio::time::Instant::now();
    write(&store, "last", None).await;
    until(&store, "last", Status::Done).await;
    assert!(began.elapsed() <= Duration::from_millis(20), "an outcome alone waits for no other");
    engine.close().await;
}
