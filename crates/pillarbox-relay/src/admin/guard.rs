//! Authorises requests by token, host, origin and content type, before any route runs.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pillarbox_sinks::Secret;
use sha2::{Digest as _, Sha256};
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
    /// The hash of the token. Hashes have one length, so that comparing them does not tell that of the token.
    token: Option<[u8; 32]>,
}

impl Guard {
    pub(super) fn new(address: SocketAddr, token: Option<&Secret>) -> Self {
        Self { is_loopback: address.ip().is_loopback(), token: token.map(|token| hash(token.reveal())) }
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
            let same = hash(given.trim()).ct_eq(token);
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

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Whether the whole Host header is a name or address of this machine, with or without a port.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let (name, port) = match host.rsplit_once(':') {
        // In brackets is an IPv6 address, whose colons separate no port.
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port =
        |port: &str| port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_name = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        }
    };
    is_name && port.is_none_or(is_port)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-160
    #[test]
    fn the_whole_host_header_is_compared() {
        let is_local = |host: &str| {
            is_local(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]))
        };
        for host in ["localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:7080", "[::1]", "[::1]:7080"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "[::1]evil.com",
            "[::1]evil.com:80",
            "localhost:80@evil.com",
            "localhost:evil.com",
            "localhost:",
            "localhost:99999",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "::1",
            "[::1",
            "[127.0.0.1]",
            "10.0.0.1",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
