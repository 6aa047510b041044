//! Answers: a status and the beginning of a body, whatever the endpoint sends.

use std::time::Duration;

use http::StatusCode;
use pillarbox::port::{Cause, Verdict};

use super::text::shown;
use crate::secret::Secret;

/// What an endpoint answered.
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: StatusCode,
    /// How long it asks to be left alone.
    pub(crate) after: Option<Duration>,
    /// The body, or its beginning.
    pub(crate) body: Body,
    pub(super) secret: Option<Secret>,
}

/// How much of a body came.
pub(crate) enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// As much as is taken; more was to come.
    Cut(Vec<u8>),
    /// So much, then the connection broke or time was up.
    Broken(Vec<u8>),
}

impl Body {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::Cut(bytes) | Self::Broken(bytes) => bytes,
        }
    }
}

impl Answer {
    /// An answer as if it had come.
    #[cfg(test)]
    pub(crate) fn of(status: u16, bytes: &[u8]) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self { status, after: None, body: Body::Whole(bytes.to_vec()), secret: None }
    }

    /// The answer as an error: the status, and what the endpoint says to it.
    pub(crate) fn error(&self) -> String {
        let hint = match self.status.as_u16() {
            300..=399 => " (redirects are not followed: set the URL it leads to)",
            401 => " (is the token right?)",
            410 => " (the endpoint is gone: remove it or set another)",
            _ => "",
        };
        let said = self.clean(&String::from_utf8_lossy(self.body.bytes()));
        let colon = if said.is_empty() { "" } else { ": " };
        format!("the endpoint answered {}{hint}{colon}{said}", self.status.as_u16())
    }

    /// The endpoint's failure, as this answer tells it.
    pub(crate) fn unavailable(&self, error: String) -> Verdict {
        Verdict::Unavailable { cause: Cause::Answered(self.status.as_u16()), error, after: self.after }
    }

    /// A text of the endpoint's, fit for an error.
    pub(crate) fn clean(&self, text: &str) -> String {
        shown(text, self.secret.as_ref().map(Secret::reveal))
    }
}
