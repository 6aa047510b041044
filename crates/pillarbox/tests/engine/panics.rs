//! A store, a policy or an exporter that panics: no loop ends for good.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::port::{AnyTable, MetricsExporter, Order, Verdict};
use pillarbox::rules::RetryPolicy;

use crate::kit::{Scripted, until, write};
use crate::tampered::{Call, How, Tampered};

struct BadPolicy;

impl RetryPolicy for BadPolicy {
    fn delay(&self, attempts: u32, _: f64) -> Duration {
        Duration::MAX * (attempts + 1)
    }
}

struct BadMetrics;

impl MetricsExporter for BadMetrics {
    fn cold_enqueued(&self, _: u64) {
        panic!("no counter")
    }
    fn dispatch_success(&self, _: u64) {
        panic!("no counter")
    }
    fn queue_depths(&self, _: usize, _: usize) {
        panic!("no gauge")
    }
}

/// PBX-075
#[tokio::test(start_paused = true)]
async fn a_panicking_policy_or_exporter_stops_nothing() {
    let store = MemoryStore::new();
    let sink = Scripted::new(|delivery| match delivery.attempt {
        1 | 2 => Verdict::Failed { error: "not yet".to_owned(), after: None },
        _ => Verdict::Accepted,
    });
    let settings = EngineSettings {
        order: Order::PerGroup,
        workers: 1,
        retry: Arc::new(BadPolicy),
        ..EngineSettings::default()
    };
    let metrics = Arc::new(BadMetrics);
    let parts =
        EngineParts { table: AnyTable::Native(Arc::new(store.clone())), sink, metrics, settings, seed: 1 };
    let mut engine = Engine::start(parts).await.unwrap();
    for (id, group) in [("a", Some("g")), ("b", Some("g")), ("c", None)] {
        write(&store, id, group).await;
    }
    for id in ["a", "b", "c"] {
        until(&store, id, Status::Done).await;
    }
    let health = engine.health();
    assert_eq!((health.restarts, health.member), (0, true), "no loop has even noticed");
    engine.close().await;
}

/// PBX-075
#[tokio::test(start_paused = true)]
async fn a_loop_that_ended_by_a_panic_begins_anew_and_health_shows_it() {
    for call in [Call::Fetch, Call::Settle, Call::Heartbeat] {
        let store = MemoryStore::new();
        let tampered = Tampered::new(&store);
        let sink = Scripted::new(|_| Verdict::Accepted);
        let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
        let mut engine = crate::kit::engine(tampered.clone(), sink, settings, 1).await;
        write(&store, "before", Some("g")).await;
        until(&store, "before", Status::Done).await;
        tampered.next(call, How::Panic);
        write(&store, "after", Some("g")).await;
        until(&store, "after", Status::Done).await;
        while engine.health().restarts == 0 {
            crate::kit::pass(Duration::from_secs(1)).await;
        }
        write(&store, "later", Some("g")).await;
        until(&store, "later", Status::Done).await;
        let health = engine.health();
        assert_eq!((health.restarts, health.member), (1, true), "{call:?}");
        engine.close().await;
    }
}
