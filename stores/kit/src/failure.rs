//! Why an operation failed, before the operation and the store are known.

use std::fmt::Debug;

use pillarbox::port::{CommitError, ErrorKind, StoreError};

/// A refusal by the store itself, before it has asked the database or after the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The kind of error, by what a caller can do about it.
    pub kind: ErrorKind,
    /// The description in the error's message.
    pub detail: String,
}

impl Refused {
    /// Creates a refusal of this kind.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    /// A timeout: `who` took too long to answer.
    #[must_use]
    pub fn late(who: &str) -> Self {
        Self::new(ErrorKind::Timeout, format!("{who} took too long to answer"))
    }

    /// The task of a database call has panicked.
    #[must_use]
    pub fn panicked() -> Self {
        Self::new(ErrorKind::Unexpected, "a database call panicked")
    }
}

/// The failure type of a store that talks to a server.
pub trait ServerFailure: From<Refused> + Debug + Send + 'static {
    /// Converts the failure to the error that callers get.
    fn into_store_error(self, operation: &'static str, store: &str) -> StoreError;

    /// Whether the connection may serve another call. A connection that is broken, or whose server no longer
    /// accepts writes, is dropped, so that the next call finds the new primary.
    fn spares_connection(&self) -> bool;

    /// Whether this is the server's answer to the statement, not a missing answer.
    fn is_answer(&self) -> bool;

    /// Whether the call lost a conflict with another transaction, and may succeed when retried.
    fn is_lost_race(&self) -> bool;
}

/// Classifies a failed commit. If the server answered, nothing was committed; if the connection broke, the
/// outcome is unknown.
pub fn commit_error(failure: impl ServerFailure, store: &str) -> CommitError {
    let answered = failure.is_answer() && failure.spares_connection();
    let error = failure.into_store_error("commit", store);
    if answered { CommitError::Refused(error) } else { CommitError::Unknown(error) }
}
