//! Why an endpoint can't be used: its class, and a text.

use std::io;

use pillarbox::port::{Cause, Verdict};

/// Why an endpoint can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    pub(crate) error: String,
}

impl Fault {
    pub(crate) fn new(cause: Cause, error: impl Into<String>) -> Self {
        Self { cause, error: error.into() }
    }

    /// Puts what was under way before the text.
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

/// The cause that the kind of an I/O error tells.
pub(crate) fn cause_of(kind: io::ErrorKind) -> Cause {
    match kind {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::TimedOut => Cause::Timeout,
        _ => Cause::Other,
    }
}
