//! Error responses of the admin server.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// An error response: its status code and the reason, sent as JSON.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    status: StatusCode,
    why: Cow<'static, str>,
}

pub(super) fn refusal(status: StatusCode, why: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal { status, why: why.into() }
}

#[derive(Serialize)]
struct Body {
    error: Cow<'static, str>,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Body { error: self.why })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
