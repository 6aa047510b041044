//! Metrics by OpenTelemetry: what a collector gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::kit::{Fixture, PATIENCE, Recorder, numbered, write};

/// A collector that refuses the first few requests.
struct Collector {
    address: String,
    got: watch::Receiver<Vec<(HeaderMap, Value)>>,
    refused: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

#[derive(Clone)]
struct Collected {
    got: Arc<watch::Sender<Vec<(HeaderMap, Value)>>>,
    refused: Arc<AtomicUsize>,
    refusals: usize,
}

impl Collector {
    async fn start(refusals: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, got) = watch::channel(Vec::new());
        let refused = Arc::new(AtomicUsize::new(0));
        let collected = Collected { got: Arc::new(sender), refused: Arc::clone(&refused), refusals };
        let router = Router::new().route("/v1/metrics", post(take)).with_state(collected);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, got, refused, _task: task }
    }

    /// Waits until one of the requests is so; gives the first of them.
    async fn until(&mut self, is_so: impl Fn(&Value) -> bool) -> (HeaderMap, Value) {
        let is_there = |got: &Vec<(HeaderMap, Value)>| got.iter().any(|(_, request)| is_so(request));
        let got = timeout(PATIENCE, self.got.wait_for(is_there)).await.expect("it comes").unwrap();
        got.iter().find(|(_, request)| is_so(request)).unwrap().clone()
    }
}

async fn take(State(collected): State<Collected>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if collected.refused.load(Ordering::Relaxed) < collected.refusals {
        collected.refused.fetch_add(1, Ordering::Relaxed);
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    collected.got.send_modify(|got| got.push((headers, serde_json::from_slice(&body).unwrap())));
    StatusCode::OK
}

/// The value of a counter for the one table there is.
fn counter(request: &Value, name: &str) -> Option<u64> {
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    let metric = metrics.iter().find(|metric| metric["name"] == name)?;
    metric["sum"]["dataPoints"][0]["asInt"].as_str()?.parse().ok()
}

/// PBX-021: metrics are pushed while the relay runs, with the headers of the configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_is_told_while_the_relay_runs() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("a"), &numbered("a", 3)).await;
    let recorder = Recorder::refusing(numbered("a", 3)[1].clone());
    // A collector that is not well at first loses nothing: each request holds all that was counted.
    let mut collector = Collector::start(2).await;
    let flags = [
        ("otlp-endpoint", collector.address.clone()),
        ("otlp-headers", "api-key=k3y,x-team=shop".to_owned()),
        ("otlp-interval", "100ms".to_owned()),
    ];
    let flags = flags.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut relay = fixture.relay(&recorder, &flags).await;
    let (headers, request) =
        collector.until(|request| counter(request, "pillarbox.delivered") == Some(2)).await;
    assert_eq!(collector.refused.load(Ordering::Relaxed), 2);
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(
        (&headers["api-key"], &headers["x-team"]),
        (&"k3y".parse().unwrap(), &"shop".parse().unwrap())
    );
    assert!(counter(&request, "pillarbox.read") >= Some(3), "{request:#}");
    collector.until(|request| counter(request, "pillarbox.dead") == Some(1)).await;
    relay.close().await;
}

/// PBX-021: what was counted after the last push is told when the relay ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_is_told_once_more_at_the_end() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("a"), &numbered("a", 3)).await;
    let recorder = Recorder::new();
    let mut collector = Collector::start(0).await;
    let mut relay = fixture.relay(&recorder, &[("otlp-endpoint", &collector.address)]).await;
    relay.until_empty().await;
    relay.close().await;
    let (_, request) = collector.until(|request| counter(request, "pillarbox.delivered") == Some(3)).await;
    assert_eq!(collector.got.borrow().len(), 1, "{request:#}");
}

/// A collector that is not there keeps nothing from being delivered, nor the relay from ending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_holds_nothing_up() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("a"), &numbered("a", 3)).await;
    let recorder = Recorder::new();
    let flags = [("otlp-endpoint", "http://127.0.0.1:1/"), ("otlp-interval", "100ms")];
    let mut relay = fixture.relay(&recorder, &flags).await;
    relay.until_empty().await;
    timeout(PATIENCE, relay.close()).await.unwrap();
    assert_eq!(recorder.events(), 3);
}
