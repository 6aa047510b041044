//! Errors of a store, by what a caller can do about them.

use std::error::Error;
use std::fmt;

use crate::model::Invalid;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database cannot be reached, is starting, read-only or full: retry later.
    Unavailable,
    /// A conflict with another transaction (deadlock, busy, unique key): retry, unless the row exists
    /// already.
    Conflict,
    /// The call took too long: retry.
    Timeout,
    /// The request is invalid: change it.
    InvalidInput,
    /// A table or column is missing or has another version: migrate.
    Schema,
    /// The database refused the user: check the credentials or grant the privilege.
    Permission,
    /// This store does not support the operation.
    Unsupported,
    /// The answer was lost, so the change may or may not have been applied: check before you retry.
    Unknown,
    /// Anything else.
    Unexpected,
}

impl ErrorKind {
    /// The name of this kind, for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Conflict => "conflict",
            Self::Timeout => "timeout",
            Self::InvalidInput => "invalid input",
            Self::Schema => "schema",
            Self::Permission => "permission",
            Self::Unsupported => "unsupported",
            Self::Unknown => "unknown outcome",
            Self::Unexpected => "unexpected",
        }
    }
}

/// An error of a store: its kind, the operation, the store and the source. Contains no payload and no secret.
pub struct StoreError {
    kind: ErrorKind,
    operation: &'static str,
    store: String,
    detail: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error with a description; `store` is the store's name, never its URL.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: &'static str, store: &str, detail: impl Into<String>) -> Self {
        Self { kind, operation, store: store.to_owned(), detail: detail.into(), source: None }
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What a caller can do about the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation that failed.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// The store's name.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.store
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Conflict | ErrorKind::Timeout)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} failed on store {}: {}: {}",
            self.operation,
            self.store,
            self.kind.as_str(),
            self.detail
        )
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Invalid> for StoreError {
    fn from(invalid: Invalid) -> Self {
        Self::new(ErrorKind::InvalidInput, "check", "-", invalid.to_string()).with_source(invalid)
    }
}
