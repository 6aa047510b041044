//! Who may ask: token, host, origin and kind of content are judged before any route.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pillarbox_sinks::Secret;
use subtle::ConstantTimeEq;
use tokio::time::timeout;

use super::refusal::{Refusal, refusal};

/// What a request may take.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);
/// What anybody may ask: the answers say yes or no, and at most which source's endpoint fails, by class.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// What requests are judged by.
#[derive(Clone)]
pub(super) struct Guard {
    is_loopback: bool,
    token: Option<Arc<Secret>>,
}

impl Guard {
    pub(super) fn new(address: SocketAddr, token: Option<Secret>) -> Self {
        Self { is_loopback: address.ip().is_loopback(), token: token.map(Arc::new) }
    }

    fn judge(&self, request: &Request) -> Result<(), Refusal> {
        let headers = request.headers();
        // A page of another site whose name was made to mean this machine still sends its own name.
        if self.is_loopback && !is_local(headers) {
            return Err(refusal(StatusCode::MISDIRECTED_REQUEST, "the Host header names another machine"));
        }
        if !OPEN.contains(&request.uri().path()) && !self.knows(headers) {
            return Err(refusal(StatusCode::UNAUTHORIZED, "a bearer token is needed"));
        }
        match *request.method() {
            Method::GET | Method::HEAD => Ok(()),
            Method::POST => may_change(headers),
            _ => Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are served")),
        }
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, given)| {
            let same = given.trim().as_bytes().ct_eq(token.reveal().as_bytes());
            scheme.eq_ignore_ascii_case("bearer") && bool::from(same)
        })
    }
}

/// Changes come from programs: browsers say where a request of theirs comes from, and forms can't send JSON.
fn may_change(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(refusal(StatusCode::FORBIDDEN, "the request comes from another site"));
    }
    let same_origin = |origin: &str| {
        let place = origin.split_once("://").map(|(_, place)| place);
        place.is_some() && place == text("host")
    };
    if headers.contains_key(header::ORIGIN) && !text("origin").is_some_and(same_origin) {
        return Err(refusal(StatusCode::FORBIDDEN, "the request comes from another origin"));
    }
    let kind = text("content-type").and_then(|kind| kind.split(';').next());
    if !kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json"));
    }
    Ok(())
}

fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Judges a request, bounds its time, and marks the answer as one to keep nowhere.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match guard.judge(&request) {
        Err(refused) => refused.into_response(),
        Ok(()) => match timeout(LONGEST_REQUEST, next.run(request)).await {
            Ok(response) => response,
            Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "it took too long").into_response(),
        },
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
