//! While the endpoint is down: attempts, cancels, memory and shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::engine::{Engine, EngineSettings};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{EventId, Status};
use pillarbox::port::{Cancel, Delivery, Handed, Order, Sink, Table, Verdict};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::kit::{Scripted, engine, engine_on, led, pass, record, table, until, write};

const ORDERS: [Order; 2] = [Order::None, Order::PerGroup];

/// An endpoint that is down until it is up, and notes how many attempts were counted when it was called.
struct Endpoint {
    store: MemoryStore,
    up: AtomicBool,
    counted: watch::Sender<Vec<u32>>,
}

impl Endpoint {
    fn down(store: &MemoryStore) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), up: AtomicBool::new(false), counted: watch::Sender::default() })
    }

    fn comes_up(&self) {
        self.up.store(true, Ordering::Relaxed);
    }

    fn counted(&self) -> Vec<u32> {
        self.counted.borrow().clone()
    }
}

impl Sink for Endpoint {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let mut verdicts = Vec::new();
            for delivery in batch {
                let counted = record(&self.store, delivery.event.id().as_str()).await.attempts;
                self.counted.send_modify(|all| all.push(counted));
                verdicts.push(match self.up.load(Ordering::Relaxed) {
                    true => Verdict::Accepted,
                    false => Verdict::Unavailable {
                        cause: Default::default(),
                        error: "connection refused".to_owned(),
                        after: None,
                    },
                });
            }
            verdicts
        })
    }
}

fn settings(order: Order) -> EngineSettings {
    let drain = Duration::from_secs(30);
    EngineSettings { order, workers: 1, max_attempts: 3, drain, ..EngineSettings::default() }
}

async fn start(store: &MemoryStore, sink: Arc<dyn Sink>, order: Order, seed: u64) -> Engine {
    engine_on(table(store), sink, settings(order), seed).await
}

async fn cancel(store: &MemoryStore, id: &str) {
    let request = Cancel { ids: vec![EventId::new(id).unwrap()], by: "operator".to_owned(), now: None };
    let cancelled = store.admin().cancel(request).await.unwrap();
    assert_eq!(cancelled.len(), 1, "{id} is cancelled");
}

/// PBX-060: each process is killed while the endpoint is down, and the next one takes over with care.
#[tokio::test(start_paused = true)]
async fn an_outage_with_kills_burns_no_attempt() {
    for order in ORDERS {
        // A leader counts an attempt when it takes the row.
        for (store, alone) in [(MemoryStore::new(), 1), (led(), 2)] {
            let endpoint = Endpoint::down(&store);
            for id in ["e0", "e1", "e2"] {
                write(&store, id, Some(id)).await;
            }
            for life in 0..10 {
                let doomed = start(&store, endpoint.clone(), order, life).await;
                pass(Duration::from_secs(100)).await;
                drop(doomed);
                for id in ["e0", "e1", "e2"] {
                    assert!(record(&store, id).await.attempts < alone, "{id} after life {life}");
                }
            }
            let sent = endpoint.counted().len();
            endpoint.comes_up();
            let mut last = start(&store, endpoint.clone(), order, 99).await;
            for id in ["e0", "e1", "e2"] {
                until(&store, id, Status::Done).await;
            }
            last.close().await;
            let counted = endpoint.counted();
            let (before, after) = counted.split_at(sent);
            assert!(before.contains(&alone), "deliveries after a kill were counted before they began");
            // A leader that was killed with nothing in hand left nothing to be careful with.
            assert!(alone == 2 || after.contains(&alone), "an attempt that was given back is counted again");
        }
    }
}

/// PBX-060: nothing waits in memory for an attempt that a shutdown takes back.
#[tokio::test(start_paused = true)]
async fn a_shutdown_during_an_outage_leaves_at_once_and_burns_no_attempt() {
    for (order, store) in [(Order::None, MemoryStore::new()), (Order::PerGroup, MemoryStore::new())] {
        let endpoint = Endpoint::down(&store);
        for n in 0..20 {
            write(&store, &format!("e{n}"), Some(&format!("g{}", n % 7))).await;
        }
        for life in 0..5 {
            let mut node = start(&store, endpoint.clone(), order, life).await;
            pass(Duration::from_millis(1_700 * (life + 1))).await;
            let began = Instant::now();
            node.close().await;
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
            for n in 0..20 {
                assert_eq!(record(&store, &format!("e{n}")).await.attempts, 0, "e{n} after life {life}");
            }
        }
    }
}

/// PBX-061
#[tokio::test(start_paused = true)]
async fn what_is_cancelled_during_an_outage_is_never_delivered() {
    for order in ORDERS {
        let store = MemoryStore::new();
        let up = Arc::new(AtomicBool::new(false));
        let is_up = Arc::clone(&up);
        let sink = Scripted::new(move |_| match is_up.load(Ordering::Relaxed) {
            true => Verdict::Accepted,
            false => {
                Verdict::Unavailable { cause: Default::default(), error: "down".to_owned(), after: None }
            }
        });
        let mut node = start(&store, sink.clone(), order, 1).await;
        for n in 0..20 {
            write(&store, &format!("e{n}"), Some(&format!("g{}", n % 7))).await;
        }
        pass(Duration::from_secs(30)).await;
        assert_eq!(node.health().in_memory, 0, "nothing waits in memory");
        for n in 0..10 {
            cancel(&store, &format!("e{n}")).await;
        }
        let before = sink.ids().len();
        up.store(true, Ordering::Relaxed);
        for n in 10..20 {
            until(&store, &format!("e{n}"), Status::Done).await;
        }
        pass(Duration::from_secs(300)).await;
        let mut after = sink.ids().split_off(before);
        after.sort_unstable();
        assert_eq!(after, (10..20).map(|n| format!("e{n}")).collect::<Vec<_>>());
        node.close().await;
    }
}

/// PBX-095: written once for each error, and without an attempt.
#[tokio::test(start_paused = true)]
async fn an_event_keeps_its_last_error_while_it_waits() {
    for store in [MemoryStore::new(), led()] {
        let error = Arc::new(Mutex::new("connection refused".to_owned()));
        let told = Arc::clone(&error);
        let sink = Scripted::new(move |_| match told.lock().unwrap().as_str() {
            "" => Verdict::Accepted,
            error => Verdict::Unavailable { cause: Default::default(), error: error.to_owned(), after: None },
        });
        write(&store, "e", Some("g")).await;
        let mut node = start(&store, sink.clone(), Order::PerGroup, 1).await;
        for text in ["connection refused", "the endpoint answered 503"] {
            *error.lock().unwrap() = text.to_owned();
            pass(Duration::from_secs(300)).await;
            let waiting = record(&store, "e").await;
            assert_eq!(waiting.last_error.as_deref(), Some(text));
            assert_eq!(waiting.status, Status::New);
        }
        error.lock().unwrap().clear();
        until(&store, "e", Status::Done).await;
        node.close().await;
    }
}

/// PBX-061: an endpoint that asks for a long wait holds nothing in memory either.
#[tokio::test(start_paused = true)]
async fn what_is_cancelled_while_the_endpoint_throttles_is_never_delivered() {
    let store = MemoryStore::new();
    let mut first = true;
    let sink = Scripted::new(move |_| match std::mem::take(&mut first) {
        true => Verdict::Throttled { error: "later".to_owned(), after: Some(Duration::from_secs(600)) },
        false => Verdict::Accepted,
    });
    for n in 0..5 {
        write(&store, &format!("e{n}"), Some("g")).await;
    }
    let mut node = start(&store, sink.clone(), Order::PerGroup, 1).await;
    sink.until_sent(1).await;
    pass(Duration::from_secs(1)).await;
    for n in 0..4 {
        cancel(&store, &format!("e{n}")).await;
    }
    until(&store, "e4", Status::Done).await;
    assert_eq!(sink.ids(), ["e0", "e4"]);
    node.close().await;
}

/// PBX-062: one dependency of many is down, with more events than there is room for in memory.
#[tokio::test(start_paused = true)]
async fn events_of_a_dependency_that_is_down_leave_room_for_others() {
    let store = MemoryStore::new();
    let sink = Scripted::new(|delivery| match delivery.event.id().as_str().starts_with("bad") {
        true => Verdict::Unavailable { cause: Default::default(), error: "down".to_owned(), after: None },
        false => Verdict::Accepted,
    });
    // None of them makes room by dying: others are accepted meanwhile.
    let small =
        EngineSettings { cold_rows: 20, fetch_rows: 10, max_attempts: 100_000, ..settings(Order::None) };
    let mut node = engine(Arc::new(store.clone()), sink.clone(), small, 1).await;
    for n in 0..100 {
        write(&store, &format!("bad{n}"), None).await;
        write(&store, &format!("good{n}"), None).await;
    }
    for n in 0..100 {
        until(&store, &format!("good{n}"), Status::Done).await;
    }
    assert_ne!(record(&store, "bad99").await.status, Status::Done);
    node.close().await;
}
