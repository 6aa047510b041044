//! A real HTTP endpoint that is down for a while, or takes fewer requests than it is sent.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use pillarbox_relay::config::{Input, RelayConfig};
use pillarbox_relay::{Relay, RelayParts, UrlSinks};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::kit::{Fixture, PATIENCE, numbered, statuses, write};

/// A request: when it came, counted from the first, how it was answered, and the payloads in it.
#[derive(Debug, Clone)]
struct Request {
    at: Duration,
    status: StatusCode,
    payloads: Vec<String>,
}

type Judge = dyn Fn(Duration, &[Request]) -> StatusCode + Send + Sync;

struct Api {
    first: OnceLock<Instant>,
    judge: Box<Judge>,
    seen: watch::Sender<Vec<Request>>,
}

impl Api {
    /// Starts an endpoint that answers by the time and by what came before; its URL, and the task that it lives in.
    async fn start(
        judge: impl Fn(Duration, &[Request]) -> StatusCode + Send + Sync + 'static,
    ) -> (Arc<Self>, String, JoinSet<()>) {
        let api =
            Arc::new(Self { first: OnceLock::new(), judge: Box::new(judge), seen: watch::Sender::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&api));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        (api, url, serving)
    }

    fn requests(&self) -> Vec<Request> {
        self.seen.borrow().clone()
    }

    fn count(&self, status: StatusCode) -> usize {
        self.requests().iter().filter(|request| request.status == status).count()
    }

    /// The payloads of a group that were accepted, in order.
    fn of_group(&self, group: &str) -> Vec<String> {
        let needle = format!(r#""group":"{group}""#);
        let accepted = self.requests().into_iter().filter(|request| request.status == StatusCode::OK);
        accepted.flat_map(|request| request.payloads).filter(|payload| payload.contains(&needle)).collect()
    }

    async fn until_accepted(&self, events: usize) {
        let mut seen = self.seen.subscribe();
        let accepted = |seen: &Vec<Request>| {
            let taken = seen.iter().filter(|request| request.status == StatusCode::OK);
            taken.map(|request| request.payloads.len()).sum::<usize>() >= events
        };
        timeout(PATIENCE, seen.wait_for(accepted)).await.expect("everything is accepted").unwrap();
    }
}

async fn answer(State(api): State<Arc<Api>>, body: Bytes) -> StatusCode {
    let at = api.first.get_or_init(Instant::now).elapsed();
    let values: Vec<serde_json::Value> = serde_json::from_slice(&body).unwrap();
    let payloads = values.iter().map(ToString::to_string).collect();
    let mut status = StatusCode::OK;
    api.seen.send_modify(|seen| {
        status = (api.judge)(at, seen);
        seen.push(Request { at, status, payloads });
    });
    status
}

async fn relay(fixture: &Fixture, url: &str, more: &[(&str, &str)]) -> Relay {
    let more: Vec<_> = [("api-base-url", url)].into_iter().chain(more.iter().copied()).collect();
    let mut flags = fixture.flags(&more);
    // The one that the kit sets leads nowhere.
    let own = flags.iter().position(|(key, _)| key == "api-base-url").unwrap();
    flags.remove(own);
    let config = RelayConfig::load(&Input { flags, ..Input::default() }).unwrap();
    Relay::start(RelayParts { config, sinks: Arc::new(UrlSinks::default()) }).await.unwrap()
}

fn tell(text: &str) {
    writeln!(std::io::stdout().lock(), "{text}").unwrap();
}

/// PBX-051: 503 for a second and a half, forty groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_is_made_up_for_at_once() {
    const OUTAGE: Duration = Duration::from_millis(1_500);
    let down = |at, _: &[Request]| if at < OUTAGE { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let ((api, url, _serving), fixture) = (Api::start(down).await, Fixture::sqlite());
    let store = fixture.native().await;
    let groups: Vec<String> = (0..40).map(|number| format!("g{number}")).collect();
    for group in &groups {
        write(&store, Some(group), &numbered(group, 5)).await;
    }
    let mut relay = relay(&fixture, &url, &[]).await;
    api.until_accepted(200).await;
    relay.until_empty().await;
    relay.close().await;
    for group in &groups {
        assert_eq!(api.of_group(group), numbered(group, 5), "in order, once");
    }
    assert_eq!(statuses(&store).await, [0, 200, 0, 0]);
    let failed = api.count(StatusCode::SERVICE_UNAVAILABLE);
    assert!(failed <= 16, "{failed} requests: ten at once, four before the breaker opened, and probes");
    let last = api.requests().last().unwrap().at;
    tell(&format!("everything was delivered {:?} after the end of the outage", last.saturating_sub(OUTAGE)));
}

/// PBX-052: one request per 500 ms, 429 without Retry-After otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_throttles_gets_what_it_can_take() {
    let limited = |at: Duration, seen: &[Request]| {
        let last = seen.iter().rev().find(|request| request.status == StatusCode::OK);
        match last {
            Some(last) if at < last.at + Duration::from_millis(500) => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::OK,
        }
    };
    let ((api, url, _serving), fixture) = (Api::start(limited).await, Fixture::sqlite());
    let store = fixture.native().await;
    for group in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        write(&store, Some(group), &numbered(group, 3)).await;
    }
    let mut relay = relay(&fixture, &url, &[("api-batch-size", "1"), ("max-retries", "1")]).await;
    api.until_accepted(30).await;
    relay.until_empty().await;
    relay.close().await;
    for group in ["a", "e", "j"] {
        assert_eq!(api.of_group(group), numbered(group, 3), "in order, once");
    }
    assert_eq!(statuses(&store).await, [0, 30, 0, 0], "none is dead, although one attempt is all they have");
    let (accepted, refused) = (api.count(StatusCode::OK), api.count(StatusCode::TOO_MANY_REQUESTS));
    assert!(
        refused <= accepted + 10,
        "{refused} refused for {accepted}; ten are sent before anything is known"
    );
    let last = api.requests().last().unwrap().at;
    tell(&format!("{accepted} accepted and {refused} refused in {last:?}"));
}
