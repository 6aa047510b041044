//! What can go wrong in a store, as a caller can act on it.

use std::error::Error;
use std::fmt;

use crate::model::Invalid;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database can't be reached, is starting, read-only or full: try again later.
    Unavailable,
    /// Lost against another transaction (deadlock, busy, unique key): try again, or it is there already.
    Conflict,
    /// Took too long: try again.
    Timeout,
    /// The request is wrong: change it.
    InvalidInput,
    /// A table or column is missing or of another version: migrate.
    Schema,
    /// The database refused the user: grant.
    Permission,
    /// This store can't do that.
    Unsupported,
    /// The answer was lost: it may have happened or not. Look before you try again.
    Unknown,
    /// Anything else.
    Unexpected,
}

impl ErrorKind {
    /// The word for people and programs.
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

/// An error of a store: its kind, the operation, the store, and the source. Never a payload or a secret.
pub struct StoreError {
    kind: ErrorKind,
    operation: &'static str,
    store: String,
    detail: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error with what happened in words; `store` is the store's name, never its URL.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: &'static str, store: &str, detail: impl Into<String>) -> Self {
        Self { kind, operation, store: store.to_owned(), detail: detail.into(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was being done.
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
