//! Authorises requests by host, token, role, origin and content type, before any route runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::connections::InReserve;
use crate::refusal::{Refusal, refusal};
use crate::roles::{AdminCaller, AdminRole, AdminTokens, Presented};

/// The answer to a wrong token comes this much later.
const WRONG_DELAY: Duration = Duration::from_millis(300);
/// Wrong tokens that wait at the same time. Further ones are refused at once.
const WRONG_AT_ONCE: usize = 8;
/// Minimum time between two log lines about wrong tokens.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The request header that names the caller for audit entries.
const ACTOR: &str = "x-pillarbox-actor";

/// The rules for requests.
pub(crate) struct Guard {
    /// Whether the Host header must name this machine.
    pub(crate) local_only: bool,
    pub(crate) tokens: AdminTokens,
    /// What a caller without a token may do if there are no tokens.
    pub(crate) without_token: AdminRole,
    waiting: Semaphore,
    wrong: Mutex<Wrong>,
}

/// Wrong tokens since the last log line.
#[derive(Default)]
struct Wrong {
    count: u64,
    logged_at: Option<Instant>,
}

/// A caller that may go on.
pub(crate) struct Admitted {
    pub(crate) role: AdminRole,
    pub(crate) actor: String,
}

impl Guard {
    pub(crate) fn new(local_only: bool, tokens: AdminTokens, without_token: AdminRole) -> Self {
        Self {
            local_only,
            tokens,
            without_token,
            waiting: Semaphore::new(WRONG_AT_ONCE),
            wrong: Mutex::default(),
        }
    }

    /// Admits a request to a route of this role, or refuses it.
    pub(crate) async fn admit(&self, needed: AdminRole, parts: &Parts) -> Result<Admitted, Refusal> {
        let headers = &parts.headers;
        // Against DNS rebinding: a web page whose name resolves to this machine still sends its own name as
        // Host.
        if self.local_only && !is_local(headers) {
            return Err(refusal(StatusCode::MISDIRECTED_REQUEST, "the Host header names another machine"));
        }
        if needed > AdminRole::Anyone && parts.extensions.get::<InReserve>().is_some() {
            return Err(refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are too many connections: only health is answered; close some or try again",
            ));
        }
        let admitted = self.caller(parts).await?;
        if admitted.role < needed {
            return Err(self.not_enough(needed, parts));
        }
        if parts.method == Method::POST {
            may_change(headers)?;
        }
        Ok(admitted)
    }

    async fn caller(&self, parts: &Parts) -> Result<Admitted, Refusal> {
        if let Some(AdminCaller { role, name }) = parts.extensions.get::<AdminCaller>() {
            return Ok(Admitted { role: *role, actor: format!("admin/{name}") });
        }
        let role = match (bearer(&parts.headers), parts.headers.contains_key(header::AUTHORIZATION)) {
            (Some(token), _) if !self.tokens.is_empty() => self.role_of(token, parts).await?,
            (None, true) if !self.tokens.is_empty() => return Err(unauthorized()),
            _ if self.tokens.is_empty() => self.without_token,
            _ => AdminRole::Anyone,
        };
        Ok(Admitted { role, actor: actor(&parts.headers) })
    }

    /// The role of a token. A wrong one is answered late and counted. Only wrong ones wait for a permit, so that
    /// a caller who guesses can't shut out those with the right token.
    async fn role_of(&self, token: &str, parts: &Parts) -> Result<AdminRole, Refusal> {
        match self.tokens.role_of(token, Timestamp::now()) {
            Presented::Role(role) => return Ok(role),
            Presented::Expired => return Err(expired()),
            Presented::Wrong => self.note_wrong(peer(parts)),
        }
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return Err(refusal(
                StatusCode::TOO_MANY_REQUESTS,
                "there were too many wrong tokens: try again in a second",
            ));
        };
        sleep(WRONG_DELAY).await;
        Err(unauthorized())
    }

    fn note_wrong(&self, peer: Option<IpAddr>) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.count += 1;
        if wrong.logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            let count = std::mem::take(&mut wrong.count);
            wrong.logged_at = Some(Instant::now());
            drop(wrong);
            tracing::warn!(count, last_peer = ?peer, "admin requests with wrong tokens were refused");
        }
    }

    fn not_enough(&self, needed: AdminRole, parts: &Parts) -> Refusal {
        let has_token = parts.headers.contains_key(header::AUTHORIZATION) && !self.tokens.is_empty()
            || parts.extensions.get::<AdminCaller>().is_some();
        match (has_token, needed) {
            (true, _) => refusal(
                StatusCode::FORBIDDEN,
                format!("this needs the role {}, which the token does not have", needed.as_str()),
            ),
            (false, AdminRole::Operator) if self.tokens.operator.is_empty() => refusal(
                StatusCode::FORBIDDEN,
                "changes need a token for operators, and none is set (admin-token)",
            ),
            (false, _) => unauthorized(),
        }
    }
}

fn unauthorized() -> Refusal {
    refusal(StatusCode::UNAUTHORIZED, "a bearer token is needed")
}

/// Only who knows a token learns that it has expired.
fn expired() -> Refusal {
    refusal(StatusCode::UNAUTHORIZED, "the token has expired: use the one that replaces it")
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The author of an audit entry: `admin`, or `admin/NAME` if the header has at most 64 visible ASCII
/// characters.
fn actor(headers: &HeaderMap) -> String {
    let plain =
        |name: &&str| !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_graphic());
    match headers.get(ACTOR).and_then(|name| name.to_str().ok()).filter(plain) {
        Some(name) => format!("admin/{name}"),
        None => "admin".to_owned(),
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

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

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
