//! Mapping of MongoDB errors to kinds that a caller can act on.

use mongodb::error::{
    Error, ErrorKind as Driver, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT, WriteFailure,
};
use pillarbox::port::{ErrorKind, StoreError};

/// A unique key exists already.
const DUPLICATE_KEY: i32 = 11_000;
const WRITE_CONFLICT: i32 = 112;
const NO_SUCH_TRANSACTION: i32 = 251;
/// The server's cache had no room for the change and could not evict enough in time.
const TEMPORARILY_UNAVAILABLE: i32 = 365;
/// The same for a change that takes most of the room which the cache has for changes. A document of some
/// megabytes does, in a small cache, but only while others fill the rest of it.
const TOO_LARGE_FOR_CACHE: i32 = 388;
/// FerretDB passes on PostgreSQL's SQLSTATEs 40001 and 40P01, encoded as five characters of six bits each.
const SERIALIZATION: i32 = 16_777_220;
const DEADLOCK: i32 = 16_908_292;
/// The same encoding of DocumentDB's state M003A.
const DOCUMENT_SIZE: i32 = 285_999_133;

/// The failure of an operation, before the operation and the store are named.
#[derive(Debug, Clone)]
pub(crate) enum DriverError {
    /// The driver or the server reported an error.
    Driver(Error),
    /// The server accepted the command and refused one of its statements or its write concern, with this
    /// code.
    Statement(i32),
    /// The store itself refused the operation.
    Refused(ErrorKind, String),
    /// The answer to a write or commit was lost for this reason. The change may or may not have been applied.
    Open(Box<DriverError>),
}

impl From<Error> for DriverError {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl From<mongodb::bson::error::Error> for DriverError {
    fn from(_: mongodb::bson::error::Error) -> Self {
        Self::unreadable()
    }
}

impl DriverError {
    /// Conflicts with other processes used up all retries.
    pub(crate) fn lost() -> Self {
        Self::Refused(ErrorKind::Conflict, "conflicts with other processes used up all retries".to_owned())
    }

    /// A conflict with a concurrent transaction. It is transient, so the transaction is retried.
    pub(crate) fn met() -> Self {
        Self::Statement(WRITE_CONFLICT)
    }

    pub(crate) fn unreadable() -> Self {
        Self::Refused(ErrorKind::Unexpected, "the server's answer can't be read".to_owned())
    }

    /// The collections do not exist.
    pub(crate) fn missing() -> Self {
        Self::Refused(ErrorKind::Schema, "the collections are missing; run `pillarbox migrate`".to_owned())
    }

    pub(crate) fn into_store_error(self, operation: &'static str, store: &str) -> StoreError {
        // The server's error text may quote a value, so only its code is reported.
        let (kind, detail) = match self {
            Self::Refused(kind, detail) => (kind, detail),
            Self::Statement(code) => by_code(code),
            Self::Driver(error) => describe(&error),
            Self::Open(why) => {
                let why = why.into_store_error(operation, store);
                (ErrorKind::Unknown, format!("the answer was lost ({})", why.kind().as_str()))
            }
        };
        StoreError::new(kind, operation, store, detail)
    }

    /// The server's error code, if the server answered.
    pub(crate) fn code(&self) -> Option<i32> {
        match self {
            Self::Driver(error) => code(error),
            Self::Statement(code) => Some(*code),
            Self::Refused(..) | Self::Open(_) => None,
        }
    }

    /// The place of the first document that an insert refused: those before it were inserted.
    pub(crate) fn place(&self) -> usize {
        let Self::Driver(error) = self else { return 0 };
        let Driver::InsertMany(error) = &*error.kind else { return 0 };
        let first = error.write_errors.as_ref().and_then(|errors| errors.first());
        first.map_or(0, |refused| refused.index)
    }

    /// Whether a document with the same unique key exists.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.code() == Some(DUPLICATE_KEY)
    }

    /// Whether a document would exceed the server's size limit.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self.code(), Some(10_334 | 17_419 | 17_420 | DOCUMENT_SIZE))
    }

    /// Whether the server answered, so that the refused command was certainly not applied.
    pub(crate) fn is_answer(&self) -> bool {
        self.has_lost() || self.code().is_some_and(|code| by_code(code).0 != ErrorKind::Unavailable)
    }

    /// Whether a retry is pointless: the user lacks the right, or the server lacks the feature.
    pub(crate) fn is_refusal(&self) -> bool {
        let kind = self.code().map(|code| by_code(code).0);
        matches!(kind, Some(ErrorKind::Permission | ErrorKind::Unsupported))
    }

    /// Whether the command may have reached the server but its result is unknown.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self {
            Self::Driver(error) => code(error).is_none() && matches!(&*error.kind, Driver::Io(_)),
            Self::Refused(kind, _) => *kind == ErrorKind::Timeout,
            Self::Statement(_) | Self::Open(_) => false,
        }
    }

    /// Whether it is unknown if a commit was applied.
    pub(crate) fn leaves_commit_open(&self) -> bool {
        match self {
            Self::Driver(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => true,
            failure => !failure.is_answer() && !failure.is_transient(),
        }
    }

    /// Whether the whole transaction may be retried.
    pub(crate) fn is_transient(&self) -> bool {
        let labelled = match self {
            Self::Driver(error) => error.contains_label(TRANSIENT_TRANSACTION_ERROR),
            _ => false,
        };
        labelled || self.has_lost() || self.code() == Some(NO_SUCH_TRANSACTION)
    }

    /// Whether the statement lost a lock or room in the server's cache to another one. It changed nothing, and
    /// may succeed when it is repeated.
    pub(crate) fn has_lost(&self) -> bool {
        matches!(
            self.code(),
            Some(WRITE_CONFLICT | SERIALIZATION | DEADLOCK | TEMPORARILY_UNAVAILABLE | TOO_LARGE_FOR_CACHE)
        )
    }
}

fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        Driver::Command(error) => Some(error.code),
        Driver::Write(WriteFailure::WriteError(error)) => Some(error.code),
        Driver::Write(WriteFailure::WriteConcernError(error)) => Some(error.code),
        Driver::InsertMany(error) => {
            let first = error.write_errors.as_ref().and_then(|errors| errors.first());
            first.map(|error| error.code).or(error.write_concern_error.as_ref().map(|error| error.code))
        }
        _ => None,
    }
}

/// The kind of an error and a description. Neither contains a value or an address.
pub(crate) fn describe(error: &Error) -> (ErrorKind, String) {
    if let Some(code) = code(error) {
        return by_code(code);
    }
    let known = |kind, words: &str| (kind, words.to_owned());
    match &*error.kind {
        Driver::Io(error) => {
            (ErrorKind::Unavailable, format!("the server can't be reached ({})", error.kind()))
        }
        Driver::ServerSelection { .. } | Driver::DnsResolve { .. } => {
            known(ErrorKind::Unavailable, "no server can be reached")
        }
        Driver::ConnectionPoolCleared { .. } => known(ErrorKind::Unavailable, "the connection broke"),
        Driver::Shutdown => known(ErrorKind::Unavailable, "the client is shut down"),
        Driver::Authentication { .. } => {
            known(ErrorKind::Permission, "login refused: check user and password")
        }
        Driver::InvalidArgument { .. } | Driver::InvalidTlsConfig { .. } => {
            known(ErrorKind::InvalidInput, "the URL or its options are wrong")
        }
        Driver::SessionsNotSupported | Driver::IncompatibleServer { .. } => {
            known(ErrorKind::Unsupported, "the server can't do that")
        }
        Driver::Transaction { .. } => known(ErrorKind::InvalidInput, "the session has no open transaction"),
        _ => known(ErrorKind::Unexpected, "the driver failed"),
    }
}

fn by_code(code: i32) -> (ErrorKind, String) {
    let (kind, words) = match code {
        DUPLICATE_KEY => (ErrorKind::Conflict, "it is there already"),
        WRITE_CONFLICT | SERIALIZATION | DEADLOCK => {
            (ErrorKind::Conflict, "lost against another transaction")
        }
        NO_SUCH_TRANSACTION => (ErrorKind::Conflict, "the transaction is no longer open"),
        TEMPORARILY_UNAVAILABLE | TOO_LARGE_FOR_CACHE => {
            (ErrorKind::Unavailable, "the server's cache is full")
        }
        24 | 50 | 64 | 202 | 262 => (ErrorKind::Timeout, "the server took too long"),
        13 | 33 => (ErrorKind::Permission, "the user lacks a privilege; see the MongoDB guide"),
        11 | 18 | 8_000 => (ErrorKind::Permission, "login refused: check user and password"),
        26 => (ErrorKind::Schema, "a collection is missing; run `pillarbox migrate`"),
        27 => (ErrorKind::Schema, "an index is missing; run `pillarbox migrate`"),
        85 | 86 => (ErrorKind::Schema, "an index with the same name has another definition"),
        // An interrupted commit may have been applied, so its outcome must count as unknown.
        11_601 => (ErrorKind::Unavailable, "the call was interrupted"),
        6 | 7 | 89 | 91 | 134 | 189 | 9_001 | 10_107 | 11_600 | 11_602 | 13_435 | 13_436 | 14_031 => {
            (ErrorKind::Unavailable, "the server is not available")
        }
        2 | 9 | 14 | 121 | 10_334 | 17_280 | 17_419 | 17_420 | DOCUMENT_SIZE => {
            (ErrorKind::InvalidInput, "a value does not fit")
        }
        20 | 59 | 115 | 238 | 263 | 40_573 => (ErrorKind::Unsupported, "the server can't do that"),
        _ => (ErrorKind::Unexpected, "the server failed"),
    };
    (kind, format!("{words} (code {code})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_kind_a_caller_can_act_on() {
        for (code, expected) in [
            (11_000, ErrorKind::Conflict),
            (112, ErrorKind::Conflict),
            (251, ErrorKind::Conflict),
            (DEADLOCK, ErrorKind::Conflict),
            (50, ErrorKind::Timeout),
            (13, ErrorKind::Permission),
            (18, ErrorKind::Permission),
            (26, ErrorKind::Schema),
            (10_107, ErrorKind::Unavailable),
            (91, ErrorKind::Unavailable),
            (365, ErrorKind::Unavailable),
            (388, ErrorKind::Unavailable),
            (11_601, ErrorKind::Unavailable),
            (10_334, ErrorKind::InvalidInput),
            (115, ErrorKind::Unsupported),
            (1, ErrorKind::Unexpected),
        ] {
            assert_eq!(by_code(code).0, expected, "{code}");
        }
    }

    #[test]
    fn a_commit_without_an_answer_is_open() {
        assert!(DriverError::Refused(ErrorKind::Timeout, String::new()).leaves_commit_open());
        assert!(DriverError::Statement(91).leaves_commit_open(), "a server that is going away");
        assert!(!DriverError::Statement(WRITE_CONFLICT).leaves_commit_open());
        assert!(!DriverError::Statement(NO_SUCH_TRANSACTION).leaves_commit_open());
    }

    #[test]
    fn what_a_full_cache_refused_was_not_applied_and_may_be_tried_again() {
        for code in [TEMPORARILY_UNAVAILABLE, TOO_LARGE_FOR_CACHE] {
            let refused = DriverError::Statement(code);
            assert!(refused.has_lost() && refused.is_answer() && !refused.leaves_commit_open(), "{code}");
        }
    }

    #[test]
    fn what_lost_against_another_transaction_may_be_tried_again() {
        assert!(
            DriverError::Statement(WRITE_CONFLICT).is_transient()
                && DriverError::Statement(251).is_transient()
        );
        assert!(!DriverError::Statement(DUPLICATE_KEY).is_transient());
        assert!(!DriverError::missing().is_transient());
    }
}
