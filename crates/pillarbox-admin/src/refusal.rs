//! Error responses.

use std::borrow::Cow;
use std::collections::BTreeSet;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pillarbox::port::{AnyTable, ErrorKind, StoreError};
use serde_json::json;

/// An error response: its status code and the reason, sent as JSON.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    why: Cow<'static, str>,
}

pub(crate) fn refusal(status: StatusCode, why: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal { status, why: why.into() }
}

pub(crate) fn bad(why: impl Into<Cow<'static, str>>) -> Refusal {
    refusal(StatusCode::BAD_REQUEST, why)
}

pub(crate) fn missing(why: impl Into<Cow<'static, str>>) -> Refusal {
    refusal(StatusCode::NOT_FOUND, why)
}

impl Refusal {
    pub(crate) fn why(&self) -> &str {
        &self.why
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"error": self.why}))).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The response to a failed call of a store. The log has the error; the response has what to do about it.
pub(crate) async fn store_failed(store: &AnyTable, error: StoreError) -> Refusal {
    tracing::warn!(%error, "an admin request failed");
    match error.kind() {
        ErrorKind::Permission => refusal(StatusCode::FORBIDDEN, lacking(store).await),
        ErrorKind::InvalidInput => bad("the database refused a value of the request"),
        ErrorKind::Unsupported => refusal(StatusCode::NOT_FOUND, "this database has nothing like it"),
        ErrorKind::Schema => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "the tables are missing or of another version: run `pillarbox migrate`",
        ),
        ErrorKind::Unknown => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "the answer of the database was lost: look whether the change was made before you repeat it",
        ),
        _ => refusal(StatusCode::SERVICE_UNAVAILABLE, "the store failed: try again; the log has the error"),
    }
}

/// What to grant to the database user, each statement once.
async fn lacking(store: &AnyTable) -> String {
    let told = "the database user lacks the right to do this";
    let grants = match store.admin().lacking().await {
        Ok(lacking) => [lacking.deliver, lacking.purge, lacking.operate].concat(),
        Err(_) => Vec::new(),
    };
    let mut told_before = BTreeSet::new();
    let grants: Vec<String> = grants.into_iter().filter(|grant| told_before.insert(grant.clone())).collect();
    match grants.as_slice() {
        [] => format!("{told}: grant it the rights of operators, which the guide of the database lists"),
        grants => format!("{told}: {}", grants.join("; ")),
    }
}
