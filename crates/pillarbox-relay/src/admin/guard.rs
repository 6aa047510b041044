//! Authorises requests by token, host, origin and content type, before any route runs.

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

/// Timeout of a request.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);
/// Routes without a token. They reveal at most which source's endpoint fails, and the class of the failure.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// The rules for requests.
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
        // Against DNS rebinding: a web page whose name resolves to this machine still sends its own name as
        // Host.
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

/// Refuses changes from web pages of other sites. Browsers send the origin of a request, and forms can't send
/// JSON.
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

/// Checks a request, limits its time, and forbids caching of the response.
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
