//! Runs the example and looks into both databases and at both sets of metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use pillarbox::port::Admin;

use super::*;

/// EVT-170, EVT-164: each outbox delivers its own events only, and counts them under its own name.
#[test]
fn each_outbox_delivers_and_counts_its_own_events() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let board = Board::default();
    let mut numbers =
        metrics::with_local_recorder(&board, || runtime.block_on(run(folder.path(), 3))).unwrap();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    for name in ["shop", "billing"] {
        assert_eq!(board.count(&format!("{name}.dispatch.success")), 3);
        assert_eq!(board.count(&format!("{name}.enqueue.hot")), 3);
        let store = SqliteStore::open(folder.path().join(format!("{name}.db"))).unwrap();
        assert_eq!(runtime.block_on(store.stats()).unwrap().by_status(), [0, 3, 0, 0]);
    }
}

/// Counters by name.
#[derive(Debug, Default)]
struct Board(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Board {
    fn counter(&self, name: &str) -> Arc<AtomicU64> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(counters.entry(name.to_owned()).or_default())
    }

    fn count(&self, name: &str) -> u64 {
        self.counter(name).load(Ordering::Relaxed)
    }
}

impl Recorder for Board {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.counter(key.name()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
