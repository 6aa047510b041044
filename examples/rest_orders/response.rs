//! What a client gets: JSON, for errors too.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A status and a JSON document.
pub(crate) struct OrderResponse {
    status: StatusCode,
    body: String,
}

impl OrderResponse {
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(body) => Self { status, body },
            Err(_) => Self::error(StatusCode::INTERNAL_SERVER_ERROR, "the answer has no JSON form"),
        }
    }

    /// `{"error": …}`: what the client can do something about, and nothing of the database's own words.
    pub(crate) fn error(status: StatusCode, message: &str) -> Self {
        Self { status, body: serde_json::json!({ "error": message }).to_string() }
    }

    /// The database said no; a client may come again.
    pub(crate) fn unavailable(_: impl std::error::Error) -> Self {
        Self::error(StatusCode::SERVICE_UNAVAILABLE, "the order book can't be reached; try again")
    }
}

impl IntoResponse for OrderResponse {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, "application/json")], self.body).into_response()
    }
}
