//! The dispatcher alone: events are handed in, run and settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox::Event;
use pillarbox::engine::EngineSettings;
use pillarbox::events::{
    Dispatcher, DispatcherWriterHook, Failure, InFlightTracker, Listeners, OutboxConfig, Polled, Writer,
};
use pillarbox::model::{EventId, NewRow, Placement, Status, Token};
use pillarbox::port::{MetricsExporter, Store, Table, Write};
use pillarbox::rules::{Exponential, Fixed, RetryPolicy};
use tokio::sync::Semaphore;
use tracing::Level;

use crate::kit::{Logs, Seen, Watched, event};
use crate::observe::Counting;

/// Writes events and hands them over as a poller would.
pub(crate) async fn rows(store: &Watched, ids: &[&str]) -> Vec<Polled> {
    let events: Vec<Event> = ids.iter().map(|id| event(id).build().unwrap()).collect();
    let rows =
        events.iter().map(|event| NewRow { event: event.clone(), placement: Placement::Slot }).collect();
    let written = store.inner.write(Write { rows, now: None }).await.unwrap();
    let polled = |(event, seq)| Polled { event, attempts: 0, seq, token: Token::default(), lapsed: false };
    events.into_iter().zip(written.into_iter().map(|one| one.seq)).map(polled).collect()
}

fn listeners(listener: impl pillarbox::events::Listener) -> Listeners {
    let mut listeners = Listeners::new();
    listeners.register("t", listener).unwrap();
    listeners
}

fn dispatcher(store: &Watched, seen: &Seen, settings: EngineSettings) -> Dispatcher {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Dispatcher::builder(store, listeners(seen.listener())).settings(settings).start().unwrap()
}

/// A listener that never ends, and counts how many of it run.
fn stuck(running: &Arc<AtomicUsize>, started: &Arc<Semaphore>) -> impl pillarbox::events::Listener + use<> {
    let (running, started) = (Arc::clone(running), Arc::clone(started));
    move |_: Event| {
        running.fetch_add(1, Ordering::SeqCst);
        started.add_permits(1);
        std::future::pending::<Result<(), Failure>>()
    }
}

/// EVT-060
#[test]
fn the_defaults_are_those_of_the_seed() {
    let settings = EngineSettings::default();
    let config = OutboxConfig::default();
    for (workers, hot, cold, attempts) in [
        (settings.workers, settings.hot_rows, settings.cold_rows, settings.max_attempts),
        (config.workers, config.hot_queue_capacity, config.cold_queue_capacity, config.max_attempts),
    ] {
        assert_eq!((workers, hot, cold, attempts), (4, 1_000, 1_000, 10));
    }
    assert_eq!((settings.drain, config.drain_timeout_ms), (Duration::from_secs(5), 5_000));
    let policy = Exponential::default();
    assert_eq!((policy.base, policy.max), (Duration::from_millis(200), Duration::from_secs(60)));
    assert_eq!(settings.retry.delay(1, 0.5), policy.delay(1, 0.5));
}

/// EVT-061, EVT-066, EVT-164
#[tokio::test(start_paused = true)]
async fn what_is_handed_in_hot_or_cold_is_run_and_done() {
    let (store, seen) = (Watched::new(), Seen::new());
    let dispatcher = dispatcher(&store, &seen, EngineSettings::default());
    let mut polled = rows(&store, &["hot", "cold"]).await.into_iter();
    assert!(dispatcher.enqueue_hot(polled.next().unwrap()));
    assert!(dispatcher.enqueue_cold(polled.next().unwrap()));
    store.until("hot", Status::Done).await;
    store.until("cold", Status::Done).await;
    dispatcher.close().await;
    assert_eq!(seen.count(), 2);
}

/// EVT-061, EVT-110
#[tokio::test(start_paused = true)]
async fn a_full_queue_says_no_and_the_cold_one_tells_its_room() {
    let store = Watched::new();
    let (running, started) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let settings = EngineSettings {
        workers: 1,
        hot_rows: 2,
        cold_rows: 3,
        drain: Duration::ZERO,
        ..EngineSettings::default()
    };
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher =
        Dispatcher::builder(shared, listeners(stuck(&running, &started))).settings(settings).start().unwrap();
    let polled = rows(&store, &["a", "b", "c", "d", "e", "f", "g"]).await;
    assert_eq!(dispatcher.cold_room(), 3);
    let cold: Vec<_> = polled[..4].iter().map(|one| dispatcher.enqueue_cold(one.clone())).collect();
    assert_eq!(cold, [true, true, true, false]);
    assert_eq!(dispatcher.cold_room(), 0);
    let hot: Vec<_> = polled[4..].iter().map(|one| dispatcher.enqueue_hot(one.clone())).collect();
    assert_eq!(hot, [true, true, false]);
    dispatcher.close().await;
    assert_eq!(store.status("d").await, Some(Status::New));
}

/// EVT-061, EVT-070
#[tokio::test(start_paused = true)]
async fn a_closed_dispatcher_takes_nothing_and_closing_again_is_harmless() {
    let (store, seen) = (Watched::new(), Seen::new());
    let dispatcher = dispatcher(&store, &seen, EngineSettings::default());
    dispatcher.close().await;
    dispatcher.close().await;
    let polled = rows(&store, &["a"]).await.remove(0);
    assert!(!dispatcher.enqueue_hot(polled.clone()) && !dispatcher.enqueue_cold(polled));
    assert_eq!((seen.count(), store.status("a").await), (0, Some(Status::New)));
}

/// EVT-070
#[tokio::test(start_paused = true)]
async fn closing_drains_and_then_stops_and_what_was_not_run_stays_pending() {
    let store = Watched::new();
    let (running, started) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let settings = EngineSettings { workers: 1, ..EngineSettings::default() };
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher =
        Dispatcher::builder(shared, listeners(stuck(&running, &started))).settings(settings).start().unwrap();
    for polled in rows(&store, &["a", "b"]).await {
        assert!(dispatcher.enqueue_hot(polled));
    }
    started.acquire().await.unwrap().forget();
    let begun = tokio::time::Instant::now();
    dispatcher.close().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(5), "the drain timeout");
    for id in ["a", "b"] {
        let record = store.record(id).await.unwrap();
        assert_eq!((record.status, record.attempts), (Status::New, 0), "{id}");
    }
}

/// EVT-070
#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_is_in_memory() {
    let (store, seen) = (Watched::new(), Seen::new());
    let dispatcher = dispatcher(&store, &seen, EngineSettings { workers: 1, ..EngineSettings::default() });
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for polled in rows(&store, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await {
        assert!(dispatcher.enqueue_cold(polled));
    }
    dispatcher.close().await;
    assert_eq!(seen.count(), 100);
    assert_eq!(store.status("99").await, Some(Status::Done));
}

struct Careless;

impl InFlightTracker for Careless {
    fn try_acquire(&self, _: &EventId) -> bool {
        true
    }

    fn release(&self, _: &EventId) {}
}

/// EVT-062
#[tokio::test(start_paused = true)]
async fn an_event_in_flight_is_dropped_and_not_run_twice_at_once() {
    let store = Watched::new();
    let (running, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let settings = EngineSettings { drain: Duration::ZERO, ..EngineSettings::default() };
    // The queues know what they hold, whatever the tracker says.
    let dispatcher = Dispatcher::builder(shared, listeners(stuck(&running, &started)))
        .settings(settings)
        .in_flight(Arc::new(Careless))
        .start()
        .unwrap();
    let mut polled = rows(&store, &["a", "b"]).await;
    let last = polled.pop().unwrap();
    assert!(dispatcher.enqueue_hot(polled[0].clone()));
    started.acquire().await.unwrap().forget();
    assert!(dispatcher.enqueue_cold(polled[0].clone()), "dropped, which is no reason to stop a cycle");
    assert!(dispatcher.enqueue_cold(last));
    started.acquire().await.unwrap().forget();
    assert_eq!(running.load(Ordering::SeqCst), 2, "one each");
    dispatcher.close().await;
}

/// EVT-062, EVT-072
#[tokio::test(start_paused = true)]
async fn the_in_flight_tracker_can_be_replaced() {
    struct Elsewhere(AtomicUsize);
    impl InFlightTracker for Elsewhere {
        fn try_acquire(&self, id: &EventId) -> bool {
            self.0.fetch_add(1, Ordering::SeqCst);
            id.as_str() != "busy"
        }
        fn release(&self, id: &EventId) {
            assert_ne!(id.as_str(), "busy");
            self.0.fetch_add(100, Ordering::SeqCst);
        }
    }
    let (store, seen, tracker) = (Watched::new(), Seen::new(), Arc::new(Elsewhere(AtomicUsize::new(0))));
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher =
        Dispatcher::builder(shared, listeners(seen.listener())).in_flight(tracker.clone()).start().unwrap();
    for polled in rows(&store, &["busy", "free"]).await {
        dispatcher.enqueue_hot(polled);
    }
    store.until("free", Status::Done).await;
    dispatcher.close().await;
    let record = store.record("busy").await.unwrap();
    assert_eq!((record.status, record.attempts), (Status::New, 0), "neither run nor counted");
    assert_eq!((seen.ids(), tracker.0.load(Ordering::SeqCst)), (vec!["free".to_owned()], 102));
}

/// EVT-067, EVT-183
#[tokio::test(start_paused = true)]
async fn a_failure_is_retried_with_backoff_until_the_attempts_are_used_up() {
    let (store, seen) = (Watched::new(), Seen::new());
    let settings = EngineSettings {
        max_attempts: 2,
        retry: Arc::new(Fixed(Duration::from_secs(30))),
        ..EngineSettings::default()
    };
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher =
        Dispatcher::builder(shared, listeners(seen.failing())).settings(settings).start().unwrap();
    let mut polled = rows(&store, &["a"]).await.remove(0);
    dispatcher.enqueue_hot(polled.clone());
    let record = store.until("a", Status::Retry).await;
    assert_eq!((record.attempts, record.last_error.as_deref()), (1, Some("the listener said no")));
    let waits = record.available_at.duration_since(store.inner.clock().now());
    assert_eq!(waits.as_secs(), 30);
    polled.attempts = 1;
    assert!(dispatcher.enqueue_cold(polled), "no longer in flight");
    let record = store.until("a", Status::Dead).await;
    assert_eq!((record.attempts, seen.count()), (2, 2));
    dispatcher.close().await;
}

/// EVT-068
#[tokio::test(start_paused = true)]
async fn at_most_so_many_listeners_run_at_once_as_there_are_workers() {
    let store = Watched::new();
    let (running, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let settings = EngineSettings { workers: 3, drain: Duration::from_secs(1), ..EngineSettings::default() };
    let dispatcher =
        Dispatcher::builder(shared, listeners(stuck(&running, &started))).settings(settings).start().unwrap();
    for polled in rows(&store, &["a", "b", "c", "d", "e"]).await {
        dispatcher.enqueue_hot(polled);
    }
    started.acquire_many(3).await.unwrap().forget();
    dispatcher.close().await;
    assert_eq!(running.load(Ordering::SeqCst), 3);
}

/// EVT-073
#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_has_failed_and_its_worker_lives_on() {
    let (store, seen) = (Watched::new(), Seen::new());
    let note = seen.clone();
    let listener = move |event: Event| {
        assert_ne!(event.id().as_str(), "bad", "poison");
        note.note(event);
        async { Ok::<_, Failure>(()) }
    };
    let settings = EngineSettings { workers: 1, ..EngineSettings::default() };
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher = Dispatcher::builder(shared, listeners(listener)).settings(settings).start().unwrap();
    for polled in rows(&store, &["bad", "good"]).await {
        dispatcher.enqueue_hot(polled);
    }
    store.until("good", Status::Done).await;
    let record = store.until("bad", Status::Retry).await;
    assert_eq!(record.attempts, 1);
    assert!(record.last_error.unwrap().contains("poison"));
    dispatcher.close().await;
}

/// EVT-161, EVT-164
#[test]
fn a_dispatcher_with_no_worker_or_no_room_is_refused_by_name() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    for (settings, field) in [
        (EngineSettings { workers: 0, ..EngineSettings::default() }, "workers"),
        (EngineSettings { hot_rows: 0, ..EngineSettings::default() }, "hot rows"),
        (EngineSettings { max_attempts: 0, ..EngineSettings::default() }, "max attempts"),
        (EngineSettings { deadline: Duration::ZERO, ..EngineSettings::default() }, "deadline"),
        (EngineSettings { drain: Duration::MAX, ..EngineSettings::default() }, "drain"),
    ] {
        let store: Arc<dyn Store> = Arc::new(Watched::new());
        let refused = Dispatcher::builder(store, Listeners::new()).settings(settings).start();
        assert_eq!(refused.err().unwrap().field(), field);
    }
}

/// EVT-036, EVT-061: a writer, a dispatcher and a poller that are set up by hand have a hot path.
#[tokio::test(start_paused = true)]
async fn a_writer_hook_feeds_the_hot_queue() {
    let (store, seen) = (Watched::new(), Seen::new());
    let dispatcher = Arc::new(dispatcher(&store, &seen, EngineSettings::default()));
    let hook = Arc::new(DispatcherWriterHook::new(Arc::clone(&dispatcher)));
    let writer = Writer::new(Arc::new(store.clone())).hook(hook);
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    tx.write(("t", "{}")).unwrap();
    tx.write(event("later").due(Duration::from_secs(3_600))).unwrap();
    tx.commit().await.unwrap();
    let mut gone = writer.begin().await.unwrap();
    gone.write(event("rolled back")).unwrap();
    gone.rollback().await.unwrap();
    store.until("a", Status::Done).await;
    dispatcher.close().await;
    assert_eq!(seen.ids().len(), 2, "no poller ran, and neither the delayed nor the rolled back event came");
    assert_eq!(store.status("later").await, Some(Status::New));
}

/// EVT-036, EVT-110: what does not fit is counted, told, and left to the poller.
#[tokio::test(start_paused = true)]
async fn a_writer_hook_tells_what_the_hot_queue_refuses() {
    let (store, logs, metrics) = (Watched::new(), Logs::capture(), Arc::new(Counting::default()));
    let (running, started) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let settings =
        EngineSettings { workers: 1, hot_rows: 2, drain: Duration::ZERO, ..EngineSettings::default() };
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher = Dispatcher::builder(shared, listeners(stuck(&running, &started)))
        .settings(settings)
        .metrics(Arc::clone(&metrics) as Arc<dyn MetricsExporter>)
        .start()
        .unwrap();
    let dispatcher = Arc::new(dispatcher);
    let hook = Arc::new(DispatcherWriterHook::new(Arc::clone(&dispatcher)));
    let writer = Writer::new(Arc::new(store.clone())).hook(hook);
    let mut tx = writer.begin().await.unwrap();
    for id in ["a", "b", "c", "d", "e"] {
        tx.write(event(id)).unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!((metrics.get("hot"), metrics.get("hot dropped")), (2, 3));
    assert!(logs.has(Level::WARN, "hot queue full"), "{:#?}", logs.all());
    dispatcher.close().await;
    assert_eq!(store.status("e").await, Some(Status::New));
}
