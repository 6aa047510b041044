//! Code of others that panics: the worker goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox::events::Failure;
use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::port::{MetricsExporter, StoreError, StoreFuture};
use pillarbox::queue::{Database, Databases, Discovery, Message, Selection, SelectionState};
use pillarbox::rules::RetryPolicy;

use crate::kit::*;

struct BadPolicy;

impl RetryPolicy for BadPolicy {
    fn delay(&self, attempts: u32, _: f64) -> Duration {
        panic!("no delay after attempt {attempts}")
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
    fn dispatch_failure(&self, _: u64) {
        panic!("no counter")
    }
}

struct BadSelection;

impl Selection for BadSelection {
    fn select(&mut self, _: SelectionState<'_>) -> Option<usize> {
        panic!("can't choose")
    }
}

/// Fails the first two times a message comes.
async fn flaky(message: Message) -> Result<(), Failure> {
    if message.retry_count() < 2 { Err(Failure::retry("not yet")) } else { Ok(()) }
}

/// PBX-075, OBX-063
#[tokio::test(start_paused = true)]
async fn a_panicking_policy_exporter_or_selection_stops_nothing() {
    let queue = queue();
    let worker = queue
        .worker()
        .workers(1)
        .retry(BadPolicy)
        .metrics(Arc::new(BadMetrics))
        .selection(BadSelection)
        .handler("a", flaky)
        .start()
        .unwrap();
    let ids = queue.enqueue_all((0..3).map(|_| message("a"))).await.unwrap();
    for one in &ids {
        until(&queue, &one.message, Status::Done).await;
    }
    worker.close().await;
}

/// Databases whose discovery and whose connections panic at first.
#[derive(Clone, Default)]
struct Bad {
    store: MemoryStore,
    discoveries: Arc<AtomicUsize>,
    connects: Arc<AtomicUsize>,
}

impl Discovery for Bad {
    fn discover(&self) -> StoreFuture<'_, Vec<Database>> {
        Box::pin(async {
            assert!(self.discoveries.fetch_add(1, Ordering::SeqCst) >= 2, "nothing is there yet");
            Ok(vec![Database::new("a", "mem:a")])
        })
    }
}

/// PBX-075, OBX-076
#[tokio::test(start_paused = true)]
async fn a_panicking_discovery_or_connection_is_tried_again() {
    let bad = Bad::default();
    let connecting = bad.clone();
    let connect = move |_: Database| {
        let bad = connecting.clone();
        async move {
            assert!(bad.connects.fetch_add(1, Ordering::SeqCst) >= 2, "not yet");
            Ok::<_, StoreError>(bad.store.clone())
        }
    };
    let queue = pillarbox::Queue::new(bad.store.clone());
    let id = queue.enqueue(message("t")).await.unwrap().message;
    let databases = Databases::discovered_every(secs(5), bad.clone(), connect);
    let worker =
        databases.worker().handler("t", |_: Message| async { Ok::<_, Failure>(()) }).start().unwrap();
    until(&queue, &id, Status::Done).await;
    worker.close().await;
    assert!(bad.connects.load(Ordering::SeqCst) >= 3 && bad.discoveries.load(Ordering::SeqCst) >= 3);
}
