//! Endpoints on local sockets, and events to send to them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, Version};
use axum::response::Response;
use pillarbox::Event;
use pillarbox::model::EventBuilder;
use pillarbox::port::{Delivery, Sink, Verdict};
use pillarbox_sinks::{Egress, Secret, SinkOptions, open};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// What the endpoint answers to one request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    replies: Mutex<VecDeque<Reply>>,
}

/// An endpoint that answers as it was told, then with 200, and keeps what it got.
pub(crate) struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl Endpoint {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let shared = Arc::new(Shared::default());
        shared.replies.lock().unwrap().extend(replies);
        let app = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, _server: server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024 * 1024).await.unwrap();
    let seen = Seen { uri: parts.uri, version: parts.version, headers: parts.headers, body };
    shared.seen.lock().unwrap().push(seen);
    let reply = shared.replies.lock().unwrap().pop_front().unwrap_or(Reply::new(200));
    let mut response = Response::new(Body::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap();
    for (name, value) in reply.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

/// How an endpoint without manners treats a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// Closes it.
    Closes,
    /// Says nothing.
    Silent,
    /// Sends this, then says nothing more.
    Stalls(&'static str),
    /// Sends this, then filler without end.
    Endless(&'static str),
    /// Sends this, then closes.
    Says(&'static str),
}

/// An endpoint without manners; gives its URL and what keeps it alive.
pub(crate) async fn rude(manner: Manner) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(treat(stream, manner));
        }
    });
    (url, tasks)
}

async fn treat(mut stream: TcpStream, manner: Manner) {
    let mut request = [0; 16 * 1024];
    let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
    match manner {
        Manner::Closes => {}
        Manner::Silent => std::future::pending().await,
        Manner::Stalls(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            std::future::pending().await
        }
        Manner::Endless(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            while stream.write_all(&[b'x'; 4_096]).await.is_ok() {}
        }
        Manner::Says(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    }
}

pub(crate) fn event(id: &str, payload: &str) -> EventBuilder {
    Event::text("EVENT", payload).id(id).group("g")
}

pub(crate) fn delivery(builder: EventBuilder) -> Delivery {
    let event = builder.build().unwrap();
    Delivery::first(event)
}

/// So many events, `e0` and so on.
pub(crate) fn batch(count: usize) -> Vec<Delivery> {
    (0..count).map(|n| delivery(event(&format!("e{n}"), &format!("{{\"n\": {n}}}")))).collect()
}

/// Options for endpoints of this machine.
pub(crate) fn options() -> SinkOptions {
    SinkOptions {
        egress: Egress { plain_http: true, internal: true, ports: Vec::new() },
        secrets: vec![Secret::new(SECRET)],
        ..SinkOptions::default()
    }
}

/// Options that give up soon, for endpoints that never answer.
pub(crate) fn hasty() -> SinkOptions {
    SinkOptions { timeout: Duration::from_millis(500), ..options() }
}

pub(crate) fn sink(url: &str, options: &SinkOptions) -> Arc<dyn Sink> {
    open(url, options).unwrap()
}

/// Sends a batch to an endpoint, by a new sink.
pub(crate) async fn send(url: &str, batch: &[Delivery]) -> Vec<Verdict> {
    sink(url, &options()).deliver(batch).await
}

/// What a future gives, if that does not take for ever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it never ends")
}

/// The error of a verdict that has one.
pub(crate) fn error(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Failed { error, .. }
        | Verdict::Refused { error }
        | Verdict::Rejected { error }
        | Verdict::Unavailable { error, .. }
        | Verdict::Throttled { error, .. } => error,
        other => panic!("no error in {other:?}"),
    }
}

/// A verdict by its name.
pub(crate) fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Accepted => "accepted",
        Verdict::Settled => "settled",
        Verdict::Failed { .. } => "failed",
        Verdict::Refused { .. } => "refused",
        Verdict::Rejected { .. } => "rejected",
        Verdict::Unavailable { .. } => "unavailable",
        Verdict::Throttled { .. } => "throttled",
        Verdict::NoRoute { .. } => "no route",
        Verdict::RouteUnavailable { .. } | Verdict::RouteShut { .. } => "by its route",
        Verdict::InFlight => "in flight",
        Verdict::Skipped => "skipped",
    }
}

pub(crate) fn kinds(verdicts: &[Verdict]) -> Vec<&'static str> {
    verdicts.iter().map(kind).collect()
}
