//! Pace: a short outage costs little, an endpoint that throttles is asked as it bears it, and no attempt is burnt.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::{Engine, EngineSettings};
use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::port::{Order, Verdict};

use crate::kit::{engine, pass, record, until, write};
use crate::timed::Timed;

const LATENCY: Duration = Duration::from_millis(5);

fn down() -> Verdict {
    Verdict::Unavailable { cause: Default::default(), error: "503".to_owned(), after: None }
}

fn throttled(after: Option<u64>) -> Verdict {
    Verdict::Throttled { error: "429".to_owned(), after: after.map(Duration::from_secs) }
}

/// An engine as the relay sets it, and events of this many groups, each in order.
async fn start(store: &MemoryStore, sink: &Arc<Timed>, groups: usize, each: usize) -> Engine {
    for number in 0..each {
        for group in 0..groups {
            write(store, &format!("g{group}-{number:03}"), Some(&format!("g{group}"))).await;
        }
    }
    let settings = EngineSettings {
        order: Order::PerGroup,
        workers: 10,
        max_attempts: 2,
        drain: Duration::ZERO,
        ..EngineSettings::default()
    };
    engine(Arc::new(store.clone()), sink.clone(), settings, 1).await
}

/// Every group in order, every event once, and nothing of it failed.
async fn assert_all_done(store: &MemoryStore, sink: &Timed, groups: usize, each: usize) {
    for group in 0..groups {
        let prefix = format!("g{group}-");
        let ids: Vec<String> = (0..each).map(|number| format!("{prefix}{number:03}")).collect();
        for id in &ids {
            let done = until(store, id, Status::Done).await;
            assert_eq!(done.attempts, 0, "{id}");
        }
        let accepted: Vec<_> = sink.accepted().into_iter().filter(|id| id.starts_with(&prefix)).collect();
        assert_eq!(accepted, ids);
    }
}

/// PBX-051: what fails together is one failure, so the pause is a second, not a minute.
#[tokio::test(start_paused = true)]
async fn a_short_outage_is_over_soon_after_its_end() {
    let (store, end) = (MemoryStore::new(), Duration::from_millis(1_500));
    let sink = Timed::new(move |_, at| (LATENCY, if at < end { down() } else { Verdict::Accepted }));
    let mut engine = start(&store, &sink, 40, 3).await;
    sink.until(|requests| requests.iter().filter(|one| one.said == Some(Verdict::Accepted)).count() == 120)
        .await;
    let last = sink.requests().last().unwrap().at;
    assert!(last < end + Duration::from_secs(10), "{last:?}");
    let failed = sink.requests().iter().filter(|request| request.said == Some(down())).count();
    assert_eq!(failed, 10 + 4 + 1, "ten at once, four before the fifth failure, and one probe");
    assert_all_done(&store, &sink, 40, 3).await;
    engine.close().await;
}

/// PBX-051
#[tokio::test(start_paused = true)]
async fn while_it_is_open_only_the_probe_is_sent_and_then_batches_ramp_up() {
    let (store, end, latency) =
        (MemoryStore::new(), Duration::from_millis(1_500), Duration::from_millis(100));
    let sink = Timed::new(move |_, at| (latency, if at < end { down() } else { Verdict::Accepted }));
    let mut engine = start(&store, &sink, 40, 1).await;
    sink.until(|requests| requests.iter().filter(|one| one.said == Some(Verdict::Accepted)).count() == 40)
        .await;
    let mut waves: Vec<(Duration, usize)> = Vec::new();
    for request in sink.requests() {
        match waves.last_mut() {
            Some((at, count)) if *at == request.at => *count += 1,
            _ => waves.push((request.at, 1)),
        }
    }
    let sizes: Vec<usize> = waves.iter().map(|(_, count)| *count).take(9).collect();
    assert_eq!(
        sizes,
        [10, 4, 1, 1, 1, 2, 4, 8, 10],
        "a burst, a probe, one that passes, the ramp: {waves:?}"
    );
    engine.close().await;
}

/// PBX-051: a request that was sent before the breaker opened neither closes it nor lengthens its pause.
#[tokio::test(start_paused = true)]
async fn late_answers_to_earlier_requests_do_not_move_the_breaker() {
    for late in [Verdict::Accepted, down(), Verdict::Failed { error: "bad".to_owned(), after: None }] {
        let store = MemoryStore::new();
        let verdict = late.clone();
        let mut count = 0;
        let sink = Timed::new(move |_, at| {
            count += 1;
            match count {
                1..=5 => (LATENCY, down()),
                6..=10 => (Duration::from_millis(600), verdict.clone()),
                _ if at < Duration::from_millis(3_500) => (LATENCY, down()),
                _ => (LATENCY, Verdict::Accepted),
            }
        });
        let mut engine = start(&store, &sink, 40, 1).await;
        sink.until(|requests| requests.len() >= 18).await;
        let sent: Vec<u128> = sink.requests().iter().map(|request| request.at.as_millis() / 100).collect();
        assert_eq!(sent[14..17], [10, 30, 70], "only probes, after 1, 2 and 4 seconds: {late:?} {sent:?}");
        engine.close().await;
    }
}

/// PBX-051, PBX-018: the one thing that a late answer can do is to ask for a longer wait.
#[tokio::test(start_paused = true)]
async fn a_longer_retry_after_of_an_earlier_request_extends_the_pause() {
    let store = MemoryStore::new();
    let mut count = 0;
    let sink = Timed::new(move |_, _| {
        count += 1;
        let after = Some(Duration::from_secs(90));
        match count {
            1..=5 => (LATENCY, down()),
            6..=10 => (
                Duration::from_millis(600),
                Verdict::Unavailable { cause: Default::default(), error: "500".to_owned(), after },
            ),
            _ => (LATENCY, Verdict::Accepted),
        }
    });
    let mut engine = start(&store, &sink, 40, 1).await;
    sink.until(|requests| requests.len() >= 15).await;
    assert_eq!(sink.requests()[14].at, Duration::from_millis(90_600));
    assert_all_done(&store, &sink, 40, 1).await;
    engine.close().await;
}

/// PBX-052: an endpoint that takes one request per 500 ms and answers 429 without Retry-After otherwise.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_throttles_is_asked_as_often_as_it_bears() {
    for latency in [1, 20, 100].map(Duration::from_millis) {
        let store = MemoryStore::new();
        let mut free_at = Duration::ZERO;
        let sink = Timed::new(move |_, at| {
            let taken = at >= free_at;
            if taken {
                free_at = at + Duration::from_millis(500);
            }
            (latency, if taken { Verdict::Accepted } else { throttled(None) })
        });
        let mut engine = start(&store, &sink, 40, 10).await;
        pass(Duration::from_secs(60)).await;
        let (accepted, refused): (Vec<_>, Vec<_>) = sink
            .requests()
            .into_iter()
            .filter_map(|request| request.said)
            .partition(|said| *said == Verdict::Accepted);
        assert!(accepted.len() >= 90, "{latency:?}: {} accepted", accepted.len());
        assert!(refused.len() <= accepted.len(), "{latency:?}: {} refused", refused.len());
        assert!(!engine.health().breaker_open, "the endpoint is there");
        engine.close().await;
        for id in sink.accepted() {
            assert_eq!(record(&store, &id).await.attempts, 0);
        }
    }
}

/// PBX-052: once the endpoint bears more, it is asked more.
#[tokio::test(start_paused = true)]
async fn the_pace_recovers_when_the_endpoint_does() {
    let store = MemoryStore::new();
    let mut free_at = Duration::ZERO;
    let sink = Timed::new(move |_, at| {
        let taken = at >= free_at || at > Duration::from_secs(20);
        if taken {
            free_at = at + Duration::from_millis(500);
        }
        (LATENCY, if taken { Verdict::Accepted } else { throttled(None) })
    });
    let mut engine = start(&store, &sink, 40, 50).await;
    assert_all_done(&store, &sink, 40, 50).await;
    let last = sink.requests().last().unwrap().at;
    assert!(last < Duration::from_secs(60), "two thousand events, of which 20 s took forty: {last:?}");
    engine.close().await;
}

/// PBX-052, PBX-018: one answer holds the whole endpoint back, for as long as it asks: the sink sets the bound, not the breaker.
#[tokio::test(start_paused = true)]
async fn one_retry_after_holds_the_whole_endpoint_back() {
    let store = MemoryStore::new();
    let mut first = true;
    let sink = Timed::new(move |_, _| match std::mem::take(&mut first) {
        true => (LATENCY, throttled(Some(300))),
        false => (Duration::from_millis(50), Verdict::Accepted),
    });
    let mut engine = start(&store, &sink, 40, 2).await;
    assert_all_done(&store, &sink, 40, 2).await;
    let (before, after): (Vec<_>, Vec<_>) =
        sink.requests().into_iter().partition(|request| request.at < Duration::from_secs(299));
    assert_eq!((before.len(), after.len()), (10, 71), "ten were in flight; the other groups wait too");
    assert!(after[0].at >= Duration::from_secs(300), "{:?}", after[0]);
    engine.close().await;
}

/// PBX-052: two answers of 429 are no attempt, nor are any number of them, whatever is accepted beside.
#[tokio::test(start_paused = true)]
async fn throttling_never_counts_as_an_attempt() {
    for order in [Order::None, Order::PerGroup] {
        let store = MemoryStore::new();
        let mut rng = fastrand::Rng::with_seed(7);
        let sink = Timed::new(move |_, _| match rng.u8(..4) {
            0 => (LATENCY, Verdict::Accepted),
            _ => (LATENCY, throttled(None)),
        });
        for number in 0..60 {
            write(&store, &number.to_string(), Some(&format!("g{}", number % 12))).await;
        }
        let settings = EngineSettings { order, max_attempts: 1, ..EngineSettings::default() };
        let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
        for number in 0..60 {
            assert_eq!(until(&store, &number.to_string(), Status::Done).await.attempts, 0);
        }
        engine.close().await;
    }
}
