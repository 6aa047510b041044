//! What is counted, measured and logged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use pillarbox::Outbox;
use pillarbox::events::FacadeMetrics;
use pillarbox::memory::Unreadable;
use pillarbox::model::{EventId, Status};
use pillarbox::port::MetricsExporter;
use tracing::Level;

use crate::kit::{Logs, Seen, Watched, event, seen::commit};

/// An exporter that remembers.
#[derive(Default)]
pub(crate) struct Counting(Mutex<BTreeMap<&'static str, u64>>);

impl Counting {
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    fn add(&self, name: &'static str, count: u64) {
        *self.0.lock().unwrap().entry(name).or_default() += count;
    }

    fn set(&self, name: &'static str, value: u64) {
        self.0.lock().unwrap().insert(name, value);
    }
}

impl MetricsExporter for Counting {
    fn hot_enqueued(&self, count: u64) {
        self.add("hot", count);
    }

    fn hot_dropped(&self, count: u64) {
        self.add("hot dropped", count);
    }

    fn cold_enqueued(&self, count: u64) {
        self.add("cold", count);
    }

    fn read_passed(&self, count: u64) {
        self.add("passed", count);
    }

    fn dispatch_success(&self, count: u64) {
        self.add("success", count);
    }

    fn dispatch_failure(&self, count: u64) {
        self.add("failure", count);
    }

    fn dispatch_dead(&self, count: u64) {
        self.add("dead", count);
    }

    fn queue_depths(&self, hot: usize, cold: usize) {
        self.add("depths", 1);
        self.set("hot depth", hot as u64);
        self.set("cold depth", cold as u64);
    }

    fn oldest_lag(&self, age: Duration) {
        self.set("lag", age.as_millis() as u64);
    }
}

/// A recorder of the facade that keeps every number.
#[derive(Default)]
struct Numbers(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Numbers {
    fn number(&self, key: &Key) -> Arc<AtomicU64> {
        Arc::clone(self.0.lock().unwrap().entry(key.name().to_owned()).or_default())
    }

    fn all(&self) -> BTreeMap<String, u64> {
        let numbers = self.0.lock().unwrap();
        numbers.iter().map(|(name, value)| (name.clone(), value.load(Ordering::SeqCst))).collect()
    }
}

impl Recorder for Numbers {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.number(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// EVT-120, EVT-121
#[test]
fn metrics_have_the_names_of_the_seed_under_any_prefix() {
    for prefix in ["outbox", "orders.outbox"] {
        let numbers = Numbers::default();
        let metrics = metrics::with_local_recorder(&numbers, || {
            if prefix == "outbox" { FacadeMetrics::new() } else { FacadeMetrics::with_prefix(prefix) }
        });
        metrics.hot_enqueued(1);
        metrics.hot_dropped(2);
        metrics.cold_enqueued(3);
        metrics.read_passed(10);
        metrics.dispatch_success(4);
        metrics.dispatch_failure(5);
        metrics.dispatch_dead(6);
        metrics.queue_depths(7, 8);
        metrics.oldest_lag(Duration::from_millis(9));
        let expected = [
            ("enqueue.hot", 1),
            ("enqueue.hot.dropped", 2),
            ("enqueue.cold", 3),
            ("read.passed", 10),
            ("dispatch.success", 4),
            ("dispatch.failure", 5),
            ("dispatch.dead", 6),
            ("queue.hot.depth", 7.0_f64.to_bits()),
            ("queue.cold.depth", 8.0_f64.to_bits()),
            ("lag.oldest.ms", 9.0_f64.to_bits()),
        ];
        let expected: BTreeMap<_, _> =
            expected.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)).collect();
        assert_eq!(numbers.all(), expected);
    }
}

/// EVT-121
#[tokio::test(start_paused = true)]
async fn the_prefix_of_the_configuration_names_the_metrics() {
    let numbers: &'static Numbers = Box::leak(Box::default());
    let config = pillarbox::events::OutboxConfig {
        metrics_prefix: "mine".to_owned(),
        ..pillarbox::events::OutboxConfig::default()
    };
    let (store, seen) = (Watched::new(), Seen::new());
    let builder = metrics::with_local_recorder(numbers, || config.apply(Outbox::single_node(store.clone())));
    let outbox = builder.listener("t", seen.listener()).start().await.unwrap();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert_eq!(numbers.all()["mine.dispatch.success"], 1);
}

/// EVT-120, EVT-087
#[tokio::test(start_paused = true)]
async fn a_run_counts_what_happened() {
    let (store, seen, metrics) = (Watched::new(), Seen::new(), Arc::new(Counting::default()));
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.listener())
        .listener("bad", seen.failing())
        .max_attempts(2)
        .metrics(metrics.clone())
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    commit(&outbox, pillarbox::Event::text("bad", "{}").id("b")).await;
    commit(&outbox, pillarbox::Event::text("nobody", "{}").id("c")).await;
    store.until("b", Status::Dead).await;
    store.until("c", Status::Dead).await;
    store.until_that(async || (metrics.get("depths") > 1).then_some(())).await;
    outbox.close().await;
    let counted = ["hot", "cold", "success", "failure", "dead"].map(|name| metrics.get(name));
    assert_eq!(counted, [3, 1, 1, 1, 2], "the attempt that killed `b` counts as dead only");
    assert_eq!((metrics.get("hot depth"), metrics.get("cold depth"), metrics.get("lag")), (0, 0, 0));
}

/// EVT-087, EVT-120
#[tokio::test(start_paused = true)]
async fn gauges_show_what_waits_and_how_old_it_is() {
    let (store, metrics) = (Watched::new(), Arc::new(Counting::default()));
    let stuck = |_: pillarbox::Event| std::future::pending::<Result<(), pillarbox::Failure>>();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", stuck)
        .metrics(metrics.clone())
        .drain_timeout(Duration::ZERO)
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    store.until_that(async || (metrics.get("lag") >= 4_000).then_some(())).await;
    assert_eq!(metrics.get("hot depth"), 1);
    outbox.close().await;
}

/// EVT-125
#[tokio::test(start_paused = true)]
async fn the_dead_the_undecodable_and_broken_loops_are_errors() {
    let logs = Logs::capture();
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    commit(&outbox, pillarbox::Event::text("nobody", "{}").id("dead-one")).await;
    store.until("dead-one", Status::Dead).await;
    store.inner.plant(Unreadable {
        id: EventId::from_row("bad"),
        event_type: "t".to_owned(),
        group: None,
        reason: "no payload".to_owned(),
    });
    let bad = store.until("bad", Status::Dead).await;
    assert_eq!(bad.last_error.as_deref(), Some("undecodable: no payload"));
    for call in ["fetch", "heartbeat", "settle"] {
        store.fail(call);
    }
    commit(&outbox, event("a")).await;
    let told = ["reading failed", "heartbeat failed", "settling failed"];
    store.until_that(async || told.iter().all(|text| logs.has(Level::ERROR, text)).then_some(())).await;
    store.heal();
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert!(logs.has(Level::ERROR, "dead-one") && logs.has(Level::ERROR, "row can't be decoded"));
    assert_eq!(seen.count(), 1, "a failed settle is no failed delivery");
}

/// EVT-126
#[tokio::test(start_paused = true)]
async fn every_attempt_carries_the_same_id() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.failing())
        .max_attempts(3)
        .start()
        .await
        .unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let id = tx.write(pillarbox::Event::text("t", "{}")).unwrap().unwrap();
    tx.commit().await.unwrap();
    store.until(id.as_str(), Status::Dead).await;
    outbox.close().await;
    assert_eq!(seen.ids(), [id.as_str(); 3]);
}
