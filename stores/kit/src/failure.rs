//! Why an operation failed, before it is known which operation of which store it was.

use std::fmt::Debug;

use pillarbox::port::{CommitError, ErrorKind, StoreError};

/// What the store itself refuses, without having asked the database or after it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// In words.
    pub detail: String,
}

impl Refused {
    /// A refusal of this kind.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    /// Somebody took too long to answer.
    #[must_use]
    pub fn late(who: &str) -> Self {
        Self::new(ErrorKind::Timeout, format!("{who} took too long to answer"))
    }

    /// A task that made a call has panicked.
    #[must_use]
    pub fn panicked() -> Self {
        Self::new(ErrorKind::Unexpected, "a database call panicked")
    }
}

/// The failure of a store that talks to a server.
pub trait ServerFailure: From<Refused> + Debug + Send + 'static {
    /// The error that callers get.
    fn into_store_error(self, operation: &'static str, store: &str) -> StoreError;

    /// Whether the connection may serve another call. One that was broken, or whose server no longer takes writes,
    /// is thrown away, so that the next call finds the new primary.
    fn spares_connection(&self) -> bool;

    /// Whether it is the server's answer to the statement, not the want of one.
    fn is_answer(&self) -> bool;

    /// Whether it lost against another transaction, and may win the next time.
    fn is_lost_race(&self) -> bool;
}

/// A server that answers has not committed; one that is gone may have.
pub fn commit_error(failure: impl ServerFailure, store: &str) -> CommitError {
    let answered = failure.is_answer() && failure.spares_connection();
    let error = failure.into_store_error("commit", store);
    if answered { CommitError::Refused(error) } else { CommitError::Unknown(error) }
}
