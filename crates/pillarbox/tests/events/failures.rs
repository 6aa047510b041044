//! No failure of a sink or of a listener's dependency is silent: the engine itself says so, for every user of the library.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::events::Failure;
use pillarbox::model::Status;
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use pillarbox::rules::Exponential;
use pillarbox::{Event, Outbox};
use tokio::time::Instant;
use tracing::Level;

use crate::kit::{Logs, Watched, event, seen::commit};

const FAILS: &str = "the sink fails";
const RECOVERED: &str = "the sink accepts events again";

/// Fails with each of these errors in turn, and then accepts.
struct Failing {
    errors: Mutex<Vec<&'static str>>,
    /// Whether it says itself that it fails.
    reports: bool,
}

impl Failing {
    fn with(errors: &[&'static str], reports: bool) -> Arc<dyn Sink> {
        let errors = Mutex::new(errors.iter().rev().copied().collect());
        Arc::new(Self { errors, reports })
    }
}

impl Sink for Failing {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let unavailable = |error: &str| Verdict::Unavailable {
                cause: Cause::Refused,
                error: error.to_owned(),
                after: None,
            };
            let verdict = self.errors.lock().unwrap().pop().map_or(Verdict::Accepted, unavailable);
            batch.iter().map(|_| verdict.clone()).collect()
        })
    }

    fn reports_failures(&self) -> bool {
        self.reports
    }
}

fn lines(logs: &Logs, level: Level, text: &str) -> Vec<String> {
    let all = logs.all().into_iter().filter(|(at, line)| *at == level && line.contains(text));
    all.map(|(_, line)| line).collect()
}

/// Delivers one event to a sink, and lets a heartbeat pass.
async fn deliver(sink: Arc<dyn Sink>) {
    let store = Watched::new();
    let outbox = Outbox::single_node(store.clone()).sink_for_all(sink, 10).start().await.unwrap();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    tokio::time::timeout(Duration::from_secs(15), std::future::pending::<()>()).await.unwrap_err();
    outbox.close().await;
}

/// PBX-090
#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_says_so_at_once_and_when_its_error_changes_and_when_it_recovers() {
    let logs = Logs::capture();
    let secret = "refused\n{\"card\":4711}";
    deliver(Failing::with(&[secret, secret, secret, secret, secret, secret, "reset"], false)).await;
    let warned = lines(&logs, Level::WARN, FAILS);
    assert_eq!(warned.len(), 2, "{warned:?}");
    assert!(warned[0].contains("error=\"refused\"") && warned[0].contains("failed_requests=1"), "{warned:?}");
    assert!(warned[0].contains("class=\"refused\""), "{warned:?}");
    assert!(warned[1].contains("error=\"reset\"") && warned[1].contains("failed_requests=7"), "{warned:?}");
    let recovered = lines(&logs, Level::INFO, RECOVERED);
    assert_eq!(recovered.len(), 1, "{recovered:?}");
    assert!(recovered[0].contains("failed_requests=7"), "{recovered:?}");
    assert!(logs.all().iter().all(|(_, line)| !line.contains("4711")), "{:?}", logs.all());
}

/// PBX-090
#[tokio::test(start_paused = true)]
async fn a_failure_that_ends_before_the_next_heartbeat_is_told_from_its_first_request_on() {
    let logs = Logs::capture();
    deliver(Failing::with(&["refused"], false)).await;
    assert_eq!(lines(&logs, Level::WARN, FAILS).len(), 1);
    assert_eq!(lines(&logs, Level::INFO, RECOVERED).len(), 1);
}

/// PBX-090: what the sink reports itself is not told twice.
#[tokio::test(start_paused = true)]
async fn a_sink_that_reports_its_failures_is_left_to_it() {
    let logs = Logs::capture();
    deliver(Failing::with(&["refused", "reset"], true)).await;
    assert!(!logs.has(Level::WARN, FAILS) && !logs.has(Level::INFO, RECOVERED), "{:?}", logs.all());
}

/// PBX-090, PBX-062: long before the circuit breaker of the listener opens.
#[tokio::test(start_paused = true)]
async fn the_first_failure_of_a_listener_s_dependency_is_told_and_so_is_its_recovery() {
    let (logs, store, calls) = (Logs::capture(), Watched::new(), Arc::new(AtomicUsize::new(0)));
    let listener = move |_| {
        let failure = (calls.fetch_add(1, Ordering::SeqCst) < 2)
            .then(|| Failure::unavailable("no connection\n{\"card\":4711}", None));
        std::future::ready(failure.map_or(Ok(()), Err))
    };
    let outbox = Outbox::single_node(store.clone()).listener("t", listener).start().await.unwrap();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    outbox.close().await;
    let warned = lines(&logs, Level::WARN, "the route fails");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("error=\"no connection\""), "{warned:?}");
    let recovered = lines(&logs, Level::INFO, "the route accepts events again");
    assert_eq!(recovered.len(), 1, "{recovered:?}");
    assert!(recovered[0].contains("failed_requests=2"), "{recovered:?}");
    assert!(!logs.has(Level::WARN, "circuit breaker") && !logs.has(Level::WARN, FAILS), "{:?}", logs.all());
    assert!(logs.all().iter().all(|(_, line)| !line.contains("4711")), "{:?}", logs.all());
}

/// Tries one event until it is done; tells its attempts and whether other calls were slowed down.
async fn attempts_after(status: u16, retry_after: Option<Duration>) -> (u32, &'static str) {
    let store = Watched::new();
    let answered = AtomicUsize::new(0);
    let failure = Failure::from_status(status, retry_after);
    let message = failure.message().to_owned();
    assert_eq!(message, format!("the receiver answered {status}"));
    let listener = move |_: Event| {
        let first = answered.fetch_add(1, Ordering::Relaxed) == 0;
        std::future::ready(if first { Err(failure.clone()) } else { Ok(()) })
    };
    let outbox = Outbox::ordered(store.clone()).listener("t", listener).start().await.unwrap();
    let began = Instant::now();
    commit(&outbox, event("a").group("g")).await;
    let done = store.until("a", Status::Done).await;
    outbox.close().await;
    (done.attempts, if began.elapsed() >= Duration::from_secs(7) { "late" } else { "soon" })
}

/// PBX-216
#[tokio::test(start_paused = true)]
async fn a_status_counts_an_attempt_only_if_it_is_the_events_own_fault() {
    for status in [400, 413, 422] {
        assert_eq!(attempts_after(status, None).await, (1, "soon"), "{status}");
    }
    for status in [302, 401, 403, 404, 408, 409, 410, 429, 500, 502, 503, 504] {
        assert_eq!(attempts_after(status, None).await, (0, "soon"), "{status}");
    }
    for status in [400, 429, 500, 503] {
        let (attempts, when) = attempts_after(status, Some(Duration::from_secs(7))).await;
        assert_eq!((attempts, when), (u32::from(status == 400), "late"), "{status}");
    }
}

/// PBX-217
#[tokio::test(start_paused = true)]
async fn an_event_that_is_given_up_after_a_time_is_tried_for_that_long() {
    let store = Watched::new();
    let outbox = Outbox::ordered(store.clone())
        .listener("t", |_: Event| async { Err("no".into()) })
        .retry(Exponential::patient())
        .give_up_after(Duration::from_secs(3 * 3_600))
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    commit(&outbox, event("a").group("g")).await;
    let dead = store.until_that(async || store.record("a").await.filter(|a| a.status == Status::Dead));
    let attempts = dead.await.attempts;
    let minutes = began.elapsed().as_secs() / 60;
    assert!((150..=210).contains(&minutes) && attempts > 40, "{minutes} min, {attempts} attempts");
    outbox.close().await;
}
