//! A failure of an endpoint or broker: its class and its text.

use std::io;

use pillarbox::port::{Cause, Verdict};

/// A failure that is the fault of the endpoint, the broker or the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    pub(crate) error: String,
}

impl Fault {
    pub(crate) fn new(cause: Cause, error: impl Into<String>) -> Self {
        Self { cause, error: error.into() }
    }

    /// Prefixes the text with the operation that failed.
    pub(crate) fn during(self, what: &str) -> Self {
        Self { error: format!("{what}: {}", self.error), ..self }
    }

    pub(crate) fn verdict(self) -> Verdict {
        Verdict::Unavailable { cause: self.cause, error: self.error, after: None }
    }
}

impl From<String> for Fault {
    fn from(error: String) -> Self {
        Self::new(Cause::Other, error)
    }
}

impl From<&str> for Fault {
    fn from(error: &str) -> Self {
        Self::new(Cause::Other, error)
    }
}

/// The class of an I/O error.
pub(crate) fn cause_of(kind: io::ErrorKind) -> Cause {
    match kind {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::TimedOut => Cause::Timeout,
        _ => Cause::Other,
    }
}
