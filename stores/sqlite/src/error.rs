//! Maps errors of SQLite to kinds that a caller can act on.

use pillarbox::port::{ErrorKind, StoreError};
use pillarbox_store_kit::Refused;
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// The reason a call failed, without the operation and the store, which are added later.
#[derive(Debug)]
pub(crate) enum DriverError {
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// The store itself refused the call.
    Refused(ErrorKind, String),
}

impl From<rusqlite::Error> for DriverError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Refused> for DriverError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.kind, refused.detail)
    }
}

impl DriverError {
    pub(crate) fn into_store_error(self, operation: &'static str, store: &str) -> StoreError {
        match self {
            Self::Refused(kind, detail) => StoreError::new(kind, operation, store, detail),
            Self::Sqlite(error) => {
                let (kind, detail) = describe(&error);
                StoreError::new(kind, operation, store, detail).with_source(error)
            }
        }
    }
}

/// The kind of an error and its description. Neither contains a bound value.
pub(crate) fn describe(error: &rusqlite::Error) -> (ErrorKind, String) {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(error, message) => (*error, message.as_deref().unwrap_or_default()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (*error, msg.as_str()),
        other => return (ErrorKind::Unexpected, other.to_string()),
    };
    if is_missing(message) {
        return (ErrorKind::Schema, format!("{message}; run `pillarbox migrate`"));
    }
    let (kind, detail) = by_code(code);
    let detail = if message.is_empty() || detail.contains(message) {
        detail.to_owned()
    } else {
        format!("{detail} ({message})")
    };
    (kind, detail)
}

fn is_missing(message: &str) -> bool {
    ["no such table", "no such column", "no such index"].iter().any(|start| message.starts_with(start))
        || message.contains("has no column named")
        || message.contains("ON CONFLICT clause does not match")
}

fn by_code(error: ffi::Error) -> (ErrorKind, &'static str) {
    match error.code {
        ErrorCode::DatabaseBusy if error.extended_code == ffi::SQLITE_BUSY_SNAPSHOT => {
            (ErrorKind::Conflict, "another transaction wrote since this one began to read")
        }
        ErrorCode::DatabaseBusy => (ErrorKind::Timeout, "the database is locked by another connection"),
        ErrorCode::DatabaseLocked => (ErrorKind::Conflict, "a table is locked within this process"),
        ErrorCode::ReadOnly => (ErrorKind::Unavailable, "the database can't be written"),
        ErrorCode::DiskFull => (ErrorKind::Unavailable, "the disk is full"),
        ErrorCode::CannotOpen => (ErrorKind::Unavailable, "the database file can't be opened"),
        ErrorCode::SystemIoFailure => (ErrorKind::Unavailable, "the disk failed"),
        ErrorCode::OutOfMemory => (ErrorKind::Unavailable, "out of memory"),
        ErrorCode::FileLockingProtocolFailed => (ErrorKind::Unavailable, "the file can't be locked"),
        ErrorCode::NotADatabase => (ErrorKind::Schema, "the file is not an SQLite database"),
        ErrorCode::SchemaChanged => (ErrorKind::Conflict, "the tables changed meanwhile"),
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            (ErrorKind::Permission, "not permitted")
        }
        ErrorCode::OperationInterrupted => (ErrorKind::Timeout, "interrupted"),
        ErrorCode::TooBig => (ErrorKind::InvalidInput, "a value is larger than SQLite takes"),
        ErrorCode::ConstraintViolation => match error.extended_code {
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY => {
                (ErrorKind::Conflict, "it already exists")
            }
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY => (
                ErrorKind::Conflict,
                "a foreign key of this transaction, or of one committed with it, has no target row",
            ),
            _ => (ErrorKind::InvalidInput, "a constraint does not hold"),
        },
        ErrorCode::DatabaseCorrupt => (ErrorKind::Unexpected, "the database file is damaged"),
        _ => (ErrorKind::Unexpected, "SQLite failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: i32, message: &str) -> ErrorKind {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()));
        describe(&error).0
    }

    #[test]
    fn every_error_has_the_kind_a_caller_can_act_on() {
        for (code, expected) in [
            (ffi::SQLITE_BUSY, ErrorKind::Timeout),
            (ffi::SQLITE_BUSY_SNAPSHOT, ErrorKind::Conflict),
            (ffi::SQLITE_LOCKED, ErrorKind::Conflict),
            (ffi::SQLITE_READONLY, ErrorKind::Unavailable),
            (ffi::SQLITE_READONLY_DBMOVED, ErrorKind::Unavailable),
            (ffi::SQLITE_FULL, ErrorKind::Unavailable),
            (ffi::SQLITE_IOERR_FSYNC, ErrorKind::Unavailable),
            (ffi::SQLITE_CANTOPEN, ErrorKind::Unavailable),
            (ffi::SQLITE_PERM, ErrorKind::Permission),
            (ffi::SQLITE_AUTH, ErrorKind::Permission),
            (ffi::SQLITE_NOTADB, ErrorKind::Schema),
            (ffi::SQLITE_CORRUPT, ErrorKind::Unexpected),
            (ffi::SQLITE_TOOBIG, ErrorKind::InvalidInput),
            (ffi::SQLITE_CONSTRAINT_UNIQUE, ErrorKind::Conflict),
            (ffi::SQLITE_CONSTRAINT_NOTNULL, ErrorKind::InvalidInput),
        ] {
            assert_eq!(kind(code, "something"), expected, "{code}");
        }
    }

    #[test]
    fn what_is_missing_is_a_matter_of_migration() {
        for message in
            ["no such table: outbox_event", "no such column: slot", "no such index: outbox_event_pending"]
        {
            assert_eq!(kind(ffi::SQLITE_ERROR, message), ErrorKind::Schema);
        }
    }
}
