//! An endpoint's outage kills no events; an event that is the cause of it still dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::port::{AnyTable, MetricsExporter, Order, Verdict};

use crate::kit::{Scripted, engine, pass, record, until, write};

fn down() -> Verdict {
    Verdict::Unavailable { cause: Default::default(), error: "connection refused".to_owned(), after: None }
}

/// An outage of ten minutes: no attempt is burnt, few requests are made, and everything is delivered after it.
#[tokio::test(start_paused = true)]
async fn an_outage_burns_no_attempts() {
    for order in [Order::None, Order::PerGroup] {
        let store = MemoryStore::new();
        let up = Arc::new(AtomicBool::new(false));
        let is_up = Arc::clone(&up);
        let sink =
            Scripted::new(move |_| if is_up.load(Ordering::Relaxed) { Verdict::Accepted } else { down() });
        let settings = EngineSettings { order, max_attempts: 3, ..EngineSettings::default() };
        let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
        for n in 0..20 {
            write(&store, &format!("e{n}"), Some(&format!("g{}", n % 5))).await;
        }
        pass(Duration::from_secs(600)).await;
        assert!(sink.sent().len() < 60, "the breaker is open: {} requests", sink.sent().len());
        assert_eq!(record(&store, "e0").await.attempts, 0);
        up.store(true, Ordering::Relaxed);
        for n in 0..20 {
            let record = until(&store, &format!("e{n}"), Status::Done).await;
            assert_eq!(record.attempts, 0);
        }
        engine.close().await;
    }
}

/// PBX-091: an event under which the endpoint fails while it takes others dies, after its attempts and an hour, and is counted.
#[tokio::test(start_paused = true)]
async fn a_poison_event_that_breaks_the_endpoint_dies() {
    let store = MemoryStore::new();
    let sink = Scripted::new(|delivery| match delivery.event.id().as_str() {
        "poison" => down(),
        _ => Verdict::Accepted,
    });
    let deaths = Arc::new(Deaths::default());
    let mut engine = Engine::start(EngineParts {
        table: AnyTable::Native(Arc::new(store.clone())),
        sink,
        metrics: deaths.clone(),
        settings: EngineSettings { max_attempts: 3, ..EngineSettings::default() },
        seed: 1,
    })
    .await
    .unwrap();
    write(&store, "poison", None).await;
    let mut n = 0;
    let mut accept_others_for = async |seconds: u64| {
        for _ in 0..seconds / 5 {
            n += 1;
            write(&store, &format!("good{n}"), None).await;
            pass(Duration::from_secs(5)).await;
        }
    };
    accept_others_for(3_000).await;
    let waiting = record(&store, "poison").await;
    assert_eq!(
        (waiting.status, waiting.attempts),
        (Status::Retry, 2),
        "an outage of one path kills nothing soon"
    );
    accept_others_for(1_500).await;
    let record = until(&store, "poison", Status::Dead).await;
    assert_eq!(record.attempts, 3);
    assert_eq!(deaths.0.load(Ordering::Relaxed), 1);
    engine.close().await;
}

/// Counts the events that died of the endpoint's failures.
#[derive(Default)]
struct Deaths(AtomicU64);

impl MetricsExporter for Deaths {
    fn dispatch_dead_of_endpoint(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

/// A sink that says when to come again is not asked before.
#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let store = MemoryStore::new();
    let mut first = true;
    let sink = Scripted::new(move |_| match std::mem::take(&mut first) {
        true => Verdict::Failed { error: "busy".to_owned(), after: Some(Duration::from_secs(40)) },
        false => Verdict::Accepted,
    });
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), EngineSettings::default(), 1).await;
    write(&store, "a", None).await;
    sink.until_sent(1).await;
    let began = tokio::time::Instant::now();
    sink.until_sent(2).await;
    let waited = began.elapsed();
    assert!((Duration::from_secs(40)..Duration::from_secs(46)).contains(&waited), "{waited:?}");
    engine.close().await;
}
