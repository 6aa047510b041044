//! The response of an endpoint: its status and at most the beginning of its body.

use std::time::Duration;

use http::StatusCode;
use pillarbox::port::{Cause, Verdict};

use super::text::shown;
use crate::options::KeepAnswers;
use crate::secret::Secret;

/// The response of an endpoint.
pub(crate) struct EndpointResponse {
    /// The status.
    pub(crate) status: StatusCode,
    /// The delay of the Retry-After header.
    pub(crate) after: Option<Duration>,
    /// The body, or its beginning.
    pub(crate) body: Body,
    pub(super) secret: Option<Secret>,
    pub(super) keep: KeepAnswers,
}

/// The body of a response, and whether it is complete.
pub(crate) enum Body {
    /// The complete body.
    Whole(Vec<u8>),
    /// The beginning of a body that is longer than the limit.
    Cut(Vec<u8>),
    /// The bytes received before the connection broke or the request timed out.
    Broken(Vec<u8>),
}

impl Body {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::Cut(bytes) | Self::Broken(bytes) => bytes,
        }
    }
}

impl EndpointResponse {
    /// An answer as if it had come.
    #[cfg(test)]
    pub(crate) fn of(status: u16, bytes: &[u8]) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        let body = Body::Whole(bytes.to_vec());
        Self { status, after: None, body, secret: None, keep: KeepAnswers::Text }
    }

    /// An error text: the status, a hint for the operator, and on a second line, which is not logged, the
    /// beginning of the body.
    pub(crate) fn error(&self) -> String {
        let hint = match self.status.as_u16() {
            300..=399 => " (redirects are not followed: set the URL it leads to)",
            401 => " (is the token right?)",
            410 => " (the endpoint is gone: remove it or set another)",
            _ => "",
        };
        let status = format!("the endpoint answered {}{hint}", self.status.as_u16());
        self.quoting(status, &String::from_utf8_lossy(self.body.bytes()))
    }

    /// An error text with what the endpoint said on a second line, where answers are kept.
    pub(crate) fn quoting(&self, error: String, said: &str) -> String {
        let said = if self.keep == KeepAnswers::Text { self.clean(said) } else { String::new() };
        if said.is_empty() { error } else { format!("{error}\n{said}") }
    }

    /// The verdict if this response is the endpoint's fault.
    pub(crate) fn unavailable(&self, error: String) -> Verdict {
        Verdict::Unavailable { cause: Cause::Answered(self.status.as_u16()), error, after: self.after }
    }

    /// Makes a text of the endpoint safe for an error.
    pub(crate) fn clean(&self, text: &str) -> String {
        shown(text, self.secret.as_ref().map(Secret::reveal))
    }
}
