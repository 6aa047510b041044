//! Deliveries: how many at once, how long, and who is charged when one breaks.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::EngineSettings;
use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::port::{Delivery, Handed, Order, Sink, Verdict};

use crate::gated::Gated;
use crate::kit::{Scripted, engine, pass, record, until, write};

/// EVT-068, EVT-062
#[tokio::test(start_paused = true)]
async fn at_most_as_many_are_out_as_there_are_workers_and_none_twice() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let settings =
        EngineSettings { workers: 3, poll_interval: Duration::from_millis(50), ..EngineSettings::default() };
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
    for n in 0..20 {
        write(&store, &n.to_string(), None).await;
    }
    sink.until_begun(3).await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(sink.seen().begun.len(), 3, "polls read what is in flight, and leave it");
    sink.open(20);
    until(&store, "19", Status::Done).await;
    let seen = sink.seen();
    assert_eq!((seen.most_at_once, seen.begun.len()), (3, 20));
    engine.close().await;
}

/// Within a group one batch is out at a time, whatever workers are idle.
#[tokio::test(start_paused = true)]
async fn a_group_has_one_batch_out() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let settings =
        EngineSettings { order: Order::PerGroup, workers: 8, batch: 2, ..EngineSettings::default() };
    for n in 0..9 {
        write(&store, &n.to_string(), Some("g")).await;
    }
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
    sink.until_begun(2).await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(sink.seen().begun, ["0", "1"]);
    sink.open(9);
    until(&store, "8", Status::Done).await;
    assert_eq!(sink.seen().most_at_once, 1);
    engine.close().await;
}

/// A delivery that hangs has failed at its deadline; the next attempt is made.
#[tokio::test(start_paused = true)]
async fn a_delivery_past_its_deadline_has_failed() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let settings =
        EngineSettings { deadline: Duration::from_secs(3), max_attempts: 2, ..EngineSettings::default() };
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
    write(&store, "a", None).await;
    let dead = until(&store, "a", Status::Dead).await;
    assert_eq!(dead.attempts, 2);
    assert!(dead.last_error.unwrap().contains("deadline"));
    assert_eq!((sink.seen().begun.len(), sink.seen().at_once), (2, 0));
    engine.close().await;
}

/// Breaks at one event, before or after it has returned its future.
struct Breaking {
    at: &'static str,
    early: bool,
    inner: Arc<Scripted>,
}

impl Sink for Breaking {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        let breaks = batch.iter().any(|delivery| delivery.event.id().as_str() == self.at);
        if breaks && self.early {
            std::panic::resume_unwind(Box::new("early"));
        }
        Box::pin(async move {
            if breaks {
                std::panic::resume_unwind(Box::new("late"));
            }
            self.inner.deliver(batch).await
        })
    }
}

/// EVT-073
#[tokio::test(start_paused = true)]
async fn a_panic_is_the_failure_of_its_event_and_the_worker_lives_on() {
    for early in [false, true] {
        let store = MemoryStore::new();
        let inner = Scripted::new(|_| Verdict::Accepted);
        let sink = Arc::new(Breaking { at: "bad", early, inner });
        let settings = EngineSettings { workers: 1, max_attempts: 2, ..EngineSettings::default() };
        let mut engine = engine(Arc::new(store.clone()), sink, settings, 1).await;
        write(&store, "bad", None).await;
        write(&store, "good", None).await;
        until(&store, "good", Status::Done).await;
        let dead = until(&store, "bad", Status::Dead).await;
        assert_eq!(dead.attempts, 2);
        assert!(dead.last_error.unwrap().starts_with("panicked: "));
        engine.close().await;
    }
}

/// PBX-010: a poison event in a batch is charged itself, and those before it are not.
#[tokio::test(start_paused = true)]
async fn no_event_pays_for_a_batch_that_another_broke() {
    let store = MemoryStore::new();
    for id in ["g1", "g2", "bad", "g4"] {
        write(&store, id, Some("g")).await;
    }
    let inner = Scripted::new(|_| Verdict::Accepted);
    let sink = Arc::new(Breaking { at: "bad", early: false, inner: inner.clone() });
    let settings = EngineSettings {
        order: Order::PerGroup,
        on_dead: pillarbox::engine::OnDead::Skip,
        batch: 4,
        max_attempts: 2,
        ..EngineSettings::default()
    };
    let mut engine = engine(Arc::new(store.clone()), sink, settings, 1).await;
    until(&store, "g4", Status::Done).await;
    assert_eq!(inner.ids(), ["g1", "g2", "g4"]);
    for id in ["g1", "g2", "g4"] {
        assert_eq!(record(&store, id).await.attempts, 0, "{id}");
    }
    assert_eq!(record(&store, "bad").await.attempts, 2);
    engine.close().await;
}

/// A sink that says nothing of an event has failed it, and is not asked again at once.
#[tokio::test(start_paused = true)]
async fn a_missing_verdict_is_a_failure() {
    struct Silent;
    impl Sink for Silent {
        fn deliver<'a>(&'a self, _batch: &'a [Delivery]) -> Handed<'a> {
            Box::pin(async { Vec::new() })
        }
    }
    for order in [Order::None, Order::PerGroup] {
        let store = MemoryStore::new();
        let settings = EngineSettings { order, max_attempts: 3, ..EngineSettings::default() };
        let mut engine = engine(Arc::new(store.clone()), Arc::new(Silent), settings, 1).await;
        write(&store, "a", Some("g")).await;
        let dead = until(&store, "a", Status::Dead).await;
        assert_eq!((dead.attempts, dead.last_error.as_deref()), (3, Some("the sink gave no verdict")));
        engine.close().await;
    }
}

/// A sink that wants to be left alone for ever is asked again after an hour.
#[tokio::test(start_paused = true)]
async fn an_absurd_retry_after_is_cut() {
    for order in [Order::None, Order::PerGroup] {
        let store = MemoryStore::new();
        let mut first = true;
        let sink = Scripted::new(move |_| match std::mem::take(&mut first) {
            true => Verdict::Failed { error: "never".to_owned(), after: Some(Duration::MAX) },
            false => Verdict::Accepted,
        });
        let settings = EngineSettings { order, ..EngineSettings::default() };
        let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
        write(&store, "a", Some("g")).await;
        sink.until_sent(1).await;
        let began = tokio::time::Instant::now();
        sink.until_sent(2).await;
        assert!(began.elapsed() >= Duration::from_secs(24 * 3_600 - 10), "{:?}", began.elapsed());
        until(&store, "a", Status::Done).await;
        engine.close().await;
    }
}

/// A probe that finds no route tells nothing of the endpoint: the next event is a probe.
#[tokio::test(start_paused = true)]
async fn a_probe_without_a_route_does_not_shut_the_breaker_for_ever() {
    let store = MemoryStore::new();
    let sink = Scripted::new(|delivery| match delivery.event.id().as_str() {
        "lost" if delivery.attempt == 1 => Verdict::NoRoute { route: "nowhere".to_owned() },
        id if id.starts_with("down") => Verdict::Unavailable {
            cause: Default::default(),
            error: "down".to_owned(),
            after: Some(Duration::from_secs(20)),
        },
        _ => Verdict::Accepted,
    });
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), EngineSettings::default(), 1).await;
    for n in 0..5 {
        write(&store, &format!("down{n}"), None).await;
    }
    sink.until_sent(5).await;
    write(&store, "lost", None).await;
    write(&store, "good", None).await;
    until(&store, "lost", Status::Dead).await;
    until(&store, "good", Status::Done).await;
    engine.close().await;
}

/// PBX-011: what is tried with care while the endpoint is down has one attempt written, not one for each try.
#[tokio::test(start_paused = true)]
async fn an_outage_burns_no_attempts_of_what_is_tried_with_care() {
    let (store, dead) = (MemoryStore::new(), Gated::shut());
    let settings =
        EngineSettings { order: Order::PerGroup, workers: 1, max_attempts: 3, ..EngineSettings::default() };
    let doomed = engine(Arc::new(store.clone()), dead.clone(), settings.clone(), 1).await;
    write(&store, "g1", Some("g")).await;
    dead.until_begun(1).await;
    drop(doomed);
    let mut left = 8;
    let sink = Scripted::new(move |_| match left {
        0 => Verdict::Accepted,
        _ => {
            left -= 1;
            Verdict::Unavailable { cause: Default::default(), error: "down".to_owned(), after: None }
        }
    });
    let mut heir = engine(Arc::new(store.clone()), sink.clone(), settings, 2).await;
    let done = until(&store, "g1", Status::Done).await;
    assert_eq!(done.attempts, 1);
    assert!(sink.sent().iter().all(|(_, attempt)| *attempt == 1), "{:?}", sink.sent());
    heir.close().await;
}
