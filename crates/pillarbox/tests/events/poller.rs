//! The poller alone, with a handler of one's own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::engine::EngineSettings;
use pillarbox::events::{
    ClaimLocking, Dispatcher, Listeners, PollHandler, Polled, Poller, PollerSettings, StartError,
};
use pillarbox::memory::Unreadable;
use pillarbox::model::{EventId, OwnerId, Status};
use pillarbox::port::Store;
use pillarbox::rules::Lease;
use tokio::sync::Semaphore;
use tracing::Level;

use crate::dispatcher::rows;
use crate::hot::gated;
use crate::kit::{Logs, Seen, Watched, event};
use crate::observe::Counting;

/// Takes events until it is full.
pub(crate) struct Basket {
    room: AtomicUsize,
    taken: Mutex<Vec<Polled>>,
    honest: bool,
}

impl Default for Basket {
    fn default() -> Self {
        Self { room: AtomicUsize::new(1_000), taken: Mutex::default(), honest: true }
    }
}

impl Basket {
    pub(crate) fn of(room: usize, honest: bool) -> Arc<Self> {
        Arc::new(Self { room: AtomicUsize::new(room), honest, ..Self::default() })
    }

    pub(crate) fn attempts(&self) -> Vec<u32> {
        self.taken.lock().unwrap().iter().map(|polled| polled.attempts).collect()
    }

    fn ids(&self) -> Vec<String> {
        self.taken.lock().unwrap().iter().map(|polled| polled.event.id().to_string()).collect()
    }
}

impl PollHandler for Basket {
    fn handle(&self, polled: Polled) -> bool {
        let took =
            self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| room.checked_sub(1)).is_ok();
        if took {
            self.taken.lock().unwrap().push(polled);
        }
        took
    }

    fn available(&self) -> usize {
        if self.honest { self.room.load(Ordering::SeqCst) } else { usize::MAX }
    }
}

pub(crate) fn poller(store: &Watched, basket: &Arc<Basket>, settings: PollerSettings) -> Poller {
    Poller::new(Arc::new(store.clone()), basket.clone(), settings).unwrap()
}

pub(crate) fn claiming(owner: &str, lease: Duration) -> PollerSettings {
    let claim = ClaimLocking { owner: OwnerId::new(owner).unwrap(), lease: Lease::new(lease).unwrap() };
    PollerSettings { claim: Some(claim), ..PollerSettings::default() }
}

/// EVT-080
#[test]
fn the_defaults_are_those_of_the_seed() {
    let settings = PollerSettings::default();
    assert_eq!((settings.interval, settings.batch), (Duration::from_secs(5), 50));
    assert!(settings.skip_recent.is_zero() && settings.claim.is_none());
}

/// EVT-081, EVT-164
#[tokio::test(start_paused = true)]
async fn a_poller_polls_by_hand_by_itself_and_not_after_its_close() {
    let (store, basket) = (Watched::new(), Basket::of(100, true));
    let poller = poller(&store, &basket, PollerSettings::default());
    rows(&store, &["a", "b"]).await;
    assert_eq!(poller.poll().await.unwrap(), 2);
    assert_eq!(basket.ids(), ["a", "b"]);
    let begun = tokio::time::Instant::now();
    poller.start().unwrap();
    poller.start().unwrap();
    store.until_that(async || (store.count("fetch") == 4).then_some(())).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10), "one loop, every five seconds");
    poller.close().await;
    poller.close().await;
    let calls = store.count("fetch");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(store.count("fetch"), calls);
    assert!(matches!(poller.start(), Err(StartError::Closed("the poller"))));
}

/// EVT-080
#[tokio::test(start_paused = true)]
async fn batch_and_skip_recent_bound_what_is_read() {
    let (store, basket) = (Watched::new(), Basket::of(100, true));
    rows(&store, &["a", "b", "c"]).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    rows(&store, &["young"]).await;
    let skip_recent = Duration::from_secs(1);
    let two = poller(&store, &basket, PollerSettings { batch: 2, skip_recent, ..PollerSettings::default() });
    assert_eq!(two.poll().await.unwrap(), 2);
    let all = poller(&store, &basket, PollerSettings { skip_recent, ..PollerSettings::default() });
    assert_eq!(all.poll().await.unwrap(), 3);
    assert!(!basket.ids().contains(&"young".to_owned()));
}

/// EVT-082
#[tokio::test(start_paused = true)]
async fn a_full_handler_skips_the_cycle_and_no_more_is_fetched_than_fits() {
    let store = Watched::new();
    rows(&store, &["a", "b", "c"]).await;
    let full = Basket::of(0, true);
    assert_eq!(poller(&store, &full, PollerSettings::default()).poll().await.unwrap(), 0);
    assert_eq!((store.count("fetch"), store.count("claim")), (0, 0));
    let small = Basket::of(2, true);
    assert_eq!(poller(&store, &small, claiming("me", Duration::from_secs(60))).poll().await.unwrap(), 2);
    assert_eq!(store.record("c").await.unwrap().locked_by, None, "never locked");
}

/// EVT-083, EVT-125
#[tokio::test(start_paused = true)]
async fn a_row_that_cant_be_decoded_dies_with_the_reason_and_its_neighbours_are_delivered() {
    for settings in [PollerSettings::default(), claiming("me", Duration::from_secs(60))] {
        let logs = Logs::capture();
        let (store, basket) = (Watched::new(), Basket::of(100, true));
        rows(&store, &["a"]).await;
        store.inner.plant(Unreadable {
            id: EventId::from_row("bad"),
            event_type: "t".to_owned(),
            group: None,
            reason: "headers are no object".to_owned(),
        });
        rows(&store, &["b"]).await;
        assert_eq!(poller(&store, &basket, settings).poll().await.unwrap(), 2);
        assert_eq!(basket.ids(), ["a", "b"]);
        let record = store.record("bad").await.unwrap();
        assert_eq!((record.status, record.attempts > 1), (Status::Dead, false));
        assert_eq!(record.last_error.as_deref(), Some("undecodable: headers are no object"));
        assert!(logs.has(Level::ERROR, "undecodable"));
    }
}

/// EVT-084
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_cycle_and_the_rest_stays_for_the_next() {
    for settings in [PollerSettings::default(), claiming("me", Duration::from_secs(60))] {
        let (store, basket) = (Watched::new(), Basket::of(1, false));
        rows(&store, &["a", "b", "c"]).await;
        assert_eq!(poller(&store, &basket, settings.clone()).poll().await.unwrap(), 1);
        for id in ["b", "c"] {
            let record = store.record(id).await.unwrap();
            assert_eq!((record.status, record.attempts, record.locked_by), (Status::New, 0, None), "{id}");
        }
        let next = Basket::of(10, false);
        poller(&store, &next, settings).poll().await.unwrap();
        assert!(next.ids().ends_with(&["b".to_owned(), "c".to_owned()]));
    }
}

/// EVT-084
#[tokio::test(start_paused = true)]
async fn nothing_is_handed_over_past_a_refused_event() {
    struct Picky(Mutex<Vec<String>>);
    impl PollHandler for Picky {
        fn handle(&self, polled: Polled) -> bool {
            self.0.lock().unwrap().push(polled.event.id().to_string());
            polled.event.id().as_str() != "b"
        }
    }
    let (store, picky) = (Watched::new(), Arc::new(Picky(Mutex::default())));
    rows(&store, &["a", "b", "c"]).await;
    let poller = Poller::new(Arc::new(store), picky.clone(), PollerSettings::default()).unwrap();
    assert_eq!(poller.poll().await.unwrap(), 1);
    assert_eq!(*picky.0.lock().unwrap(), ["a", "b"]);
}

/// EVT-085, EVT-086
#[tokio::test(start_paused = true)]
async fn claimed_rows_are_one_pollers_own_until_their_lock_runs_out() {
    let store = Watched::new();
    rows(&store, &["a"]).await;
    let (mine, theirs) = (Basket::of(10, true), Basket::of(10, true));
    let first = poller(&store, &mine, claiming("me", Duration::from_secs(60)));
    let second = poller(&store, &theirs, claiming("they", Duration::from_secs(60)));
    assert_eq!(first.poll().await.unwrap(), 1);
    assert_eq!(store.record("a").await.unwrap().locked_by.as_deref(), Some("me"));
    assert_eq!(second.poll().await.unwrap(), 0);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(second.poll().await.unwrap(), 1);
    assert_eq!(store.record("a").await.unwrap().locked_by.as_deref(), Some("they"));
    assert_eq!(theirs.taken.lock().unwrap()[0].attempts, 2, "claims count attempts");
}

/// EVT-085
#[test]
fn an_owner_is_made_when_none_is_given() {
    let (one, two) = (ClaimLocking::new(Lease::default()), ClaimLocking::new(Lease::default()));
    assert_ne!(one.owner, two.owner);
    assert!(!one.owner.as_str().is_empty());
}

/// EVT-087
#[tokio::test(start_paused = true)]
async fn each_cycle_records_the_age_of_the_oldest_event() {
    for settings in [PollerSettings::default(), claiming("me", Duration::from_secs(60))] {
        let (store, basket, metrics) = (Watched::new(), Basket::of(100, true), Arc::new(Counting::default()));
        let poller = poller(&store, &basket, PollerSettings { metrics: metrics.clone(), ..settings });
        rows(&store, &["a"]).await;
        tokio::time::advance(Duration::from_secs(3)).await;
        rows(&store, &["b"]).await;
        poller.poll().await.unwrap();
        assert_eq!(metrics.get("lag"), 3_000);
    }
}

/// EVT-088, EVT-125
#[tokio::test(start_paused = true)]
async fn a_failing_poll_is_logged_and_the_next_one_runs() {
    let logs = Logs::capture();
    let (store, basket) = (Watched::new(), Basket::of(100, true));
    rows(&store, &["a"]).await;
    store.fail("fetch");
    let poller = poller(&store, &basket, PollerSettings::default());
    assert!(poller.poll().await.is_err());
    poller.start().unwrap();
    store.until_that(async || (store.count("fetch") >= 3).then_some(())).await;
    store.heal();
    store.until_that(async || (basket.ids() == ["a"]).then_some(())).await;
    poller.close().await;
    assert!(logs.has(Level::ERROR, "poll failed"));
}

/// EVT-112, EVT-164
#[tokio::test(start_paused = true)]
async fn a_full_cold_queue_stops_the_cycle_and_nothing_is_lost() {
    let (store, seen) = (Watched::new(), Seen::new());
    let mut listeners = Listeners::new();
    listeners.register("t", seen.listener()).unwrap();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let settings = EngineSettings { cold_rows: 3, ..EngineSettings::default() };
    let dispatcher =
        Arc::new(Dispatcher::builder(shared.clone(), listeners).settings(settings).start().unwrap());
    let ids: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    rows(&store, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let poller = Poller::new(shared, dispatcher.clone(), PollerSettings::default()).unwrap();
    assert_eq!(poller.poll().await.unwrap(), 3);
    poller.start().unwrap();
    for id in &ids {
        store.until(id, Status::Done).await;
    }
    poller.close().await;
    dispatcher.close().await;
    assert_eq!(seen.ids(), ids, "each once, in order of their numbers");
}

/// PBX-012, EVT-164: it was read as pending, and done before what was read is handed in.
#[tokio::test(start_paused = true)]
async fn an_event_that_ends_while_a_poll_is_under_way_is_delivered_once() {
    let (store, seen, gate) = (Watched::new(), Seen::new(), Arc::new(Semaphore::new(0)));
    let mut listeners = Listeners::new();
    listeners.register("t", gated(&seen, &gate)).unwrap();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher = Arc::new(Dispatcher::builder(shared.clone(), listeners).start().unwrap());
    let poller = Poller::new(shared, dispatcher.clone(), PollerSettings::default()).unwrap();
    rows(&store, &["a"]).await;
    assert_eq!(poller.poll().await.unwrap(), 1);
    let held = store.hold("fetched");
    let polling = async { poller.poll().await.unwrap() };
    let meanwhile = async {
        held.reached().await;
        gate.add_permits(100);
        store.until("a", Status::Done).await;
        // The settle's answer reaches the dispatcher.
        tokio::time::advance(Duration::from_secs(1)).await;
        held.release();
    };
    tokio::join!(polling, meanwhile);
    dispatcher.close().await;
    assert_eq!(seen.ids(), ["a"]);
}

/// EVT-085, EVT-164
#[tokio::test(start_paused = true)]
async fn a_dispatcher_settles_under_its_pollers_claims() {
    let (store, seen) = (Watched::new(), Seen::new());
    let mut listeners = Listeners::new();
    listeners.register("t", seen.listener()).unwrap();
    let owner = OwnerId::new("me").unwrap();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let dispatcher =
        Arc::new(Dispatcher::builder(shared.clone(), listeners).claimed_by(owner).start().unwrap());
    let poller = Poller::new(shared, dispatcher.clone(), claiming("me", Duration::from_secs(60))).unwrap();
    rows(&store, &["a"]).await;
    poller.poll().await.unwrap();
    let record = store.until("a", Status::Done).await;
    assert_eq!(record.locked_by, None);
    dispatcher.close().await;
}

/// PBX-019
#[tokio::test(start_paused = true)]
async fn what_has_expired_is_never_handed_over_and_dies_with_the_reason() {
    for settings in [PollerSettings::default(), claiming("me", Duration::from_secs(60))] {
        let (store, basket) = (Watched::new(), Basket::of(100, true));
        let writer = pillarbox::Writer::new(Arc::new(store.clone()));
        let mut tx = writer.begin().await.unwrap();
        tx.write(event("a").expires(Duration::from_secs(10))).unwrap();
        tx.write(event("b").expires(Duration::from_secs(100))).unwrap();
        tx.commit().await.unwrap();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(poller(&store, &basket, settings).poll().await.unwrap(), 1);
        assert_eq!(basket.ids(), ["b"]);
        let record = store.record("a").await.unwrap();
        assert_eq!(record.status, Status::Dead);
        assert_eq!(record.last_error.as_deref(), Some("expired before it was delivered"));
    }
}

/// PBX-070, EVT-085: an event that ends its process dies of it, and what was claimed beside it pays nothing. The first
/// process had sent it beside others, so its end does not count against it.
#[tokio::test(start_paused = true)]
async fn a_claimed_event_that_crashes_its_process_dies_and_its_neighbours_do_not() {
    const ATTEMPTS: u32 = 3;
    const PROCESSES: u32 = 1 + ATTEMPTS;
    let store = Watched::new();
    rows(&store, &["killer", "a", "b"]).await;
    let (sent, seen) = (Arc::new(Semaphore::new(0)), Seen::new());
    for process in 0..=PROCESSES {
        let mut listeners = Listeners::new();
        let (reached, noted) = (Arc::clone(&sent), seen.clone());
        let listener = move |event: pillarbox::Event| {
            let killer = event.id().as_str() == "killer";
            reached.add_permits(usize::from(killer));
            noted.note(event);
            async move { if killer { std::future::pending().await } else { Ok::<_, pillarbox::Failure>(()) } }
        };
        listeners.register("t", listener).unwrap();
        let settings = claiming(&format!("process{process}"), Duration::from_secs(60));
        let owner = settings.claim.clone().unwrap().owner;
        let engine = EngineSettings { workers: 1, max_attempts: ATTEMPTS, ..EngineSettings::default() };
        let builder = Dispatcher::builder(Arc::new(store.clone()), listeners).settings(engine);
        let dispatcher = Arc::new(builder.claimed_by(owner).start().unwrap());
        let poller = Poller::new(Arc::new(store.clone()), dispatcher.clone(), settings).unwrap();
        assert_eq!(poller.poll().await.unwrap(), 3);
        if process < PROCESSES {
            sent.acquire().await.unwrap().forget();
            // Dropped with its claims: the process is gone.
            tokio::time::advance(Duration::from_secs(60)).await;
            continue;
        }
        let killer = store.until("killer", Status::Dead).await;
        let error = killer.last_error.unwrap();
        assert!(error.contains("the process ended during its last attempt"), "{error}");
        for id in ["a", "b"] {
            assert_eq!(store.until(id, Status::Done).await.attempts, 2, "its claim, and its attempt alone");
        }
        dispatcher.close().await;
    }
    assert_eq!(seen.ids(), ["killer", "killer", "killer", "killer", "a", "b"]);
}

/// PBX-070: a handler without room leaves the trace of a claim that ran out.
#[tokio::test(start_paused = true)]
async fn a_lapsed_claim_that_is_given_back_stays_lapsed() {
    let store = Watched::new();
    rows(&store, &["a"]).await;
    poller(&store, &Basket::of(1, true), claiming("gone", Duration::from_secs(60))).poll().await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    let settings = EngineSettings { cold_rows: 1, ..EngineSettings::default() };
    let builder = Dispatcher::builder(Arc::new(store.clone()), Listeners::new()).settings(settings);
    let dispatcher = Arc::new(builder.start().unwrap());
    dispatcher.close().await;
    let full =
        Poller::new(Arc::new(store.clone()), dispatcher, claiming("full", Duration::from_secs(60))).unwrap();
    assert_eq!(full.poll().await.unwrap(), 0, "it is closed");
    let basket = Basket::of(1, true);
    poller(&store, &basket, claiming("next", Duration::from_secs(60))).poll().await.unwrap();
    assert_eq!(basket.taken.lock().unwrap()[0].attempts, 2, "the claim that ran out counts");
}
