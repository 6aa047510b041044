//! Maps errors of MySQL and of the driver to kinds that a caller can act on.

use pillarbox::port::{ErrorKind, StoreError};
use pillarbox_store_kit::{self as kit, Refused};
use sqlx::mysql::MySqlDatabaseError;

/// Deadlock: the server has rolled back this transaction.
const DEADLOCK: u16 = 1213;
/// Lock wait timeout: the statement is undone, its transaction is not.
const LOCK_WAIT: u16 = 1205;
/// Lock wait timeout on the table's `AUTO_INCREMENT` lock.
const NUMBER_WAIT: u16 = 1467;
const DUPLICATE: u16 = 1062;
const SYNTAX: u16 = 1064;
const UNSUPPORTED: u16 = 1235;
const MISSING_TABLE: u16 = 1146;
const TABLE_DENIED: u16 = 1142;
const COLUMN_DENIED: u16 = 1143;
/// TiDB's conflicts: with another transaction, when a commit is retried, and with a change of the schema.
const WRITE_CONFLICT: u16 = 9007;
const CONFLICT_AT_COMMIT: u16 = 8002;
const RETRY_FAILED: u16 = 8022;
const SCHEMA_CHANGED: u16 = 8028;
/// TiDB does not know whether a commit succeeded.
const UNDETERMINED: u16 = 8501;

/// The reason a call failed, without the operation and the store, which are added later.
#[derive(Debug)]
pub(crate) enum DriverError {
    /// An error of the driver or the server.
    Driver(sqlx::Error),
    /// The store itself refused the call.
    Refused(ErrorKind, String),
}

impl From<sqlx::Error> for DriverError {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<Refused> for DriverError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.kind, refused.detail)
    }
}

impl kit::ServerFailure for DriverError {
    fn into_store_error(self, operation: &'static str, store: &str) -> StoreError {
        match self {
            Self::Refused(kind, detail) => StoreError::new(kind, operation, store, detail),
            Self::Driver(error) => {
                let (kind, detail) = describe(&error);
                // The server's message may quote a value, so the detail is built from the error number.
                StoreError::new(kind, operation, store, detail)
            }
        }
    }

    fn spares_connection(&self) -> bool {
        match self {
            Self::Refused(..) => true,
            Self::Driver(_) => self.number().is_some_and(stays),
        }
    }

    fn is_answer(&self) -> bool {
        self.number().is_some_and(|number| number != UNDETERMINED)
    }

    fn is_lost_race(&self) -> bool {
        self.number().is_some_and(is_lost_race)
    }
}

impl DriverError {
    /// The server's error number, if the server answered with an error.
    pub(crate) fn number(&self) -> Option<u16> {
        match self {
            Self::Driver(sqlx::Error::Database(error)) => {
                error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
            }
            _ => None,
        }
    }

    /// Turns a lock wait timeout into a conflict that is not retried automatically.
    pub(crate) fn into_locked(self) -> Self {
        match self.number() {
            Some(LOCK_WAIT) => {
                Self::Refused(ErrorKind::Conflict, "a row is locked by another transaction".to_owned())
            }
            _ => self,
        }
    }

    /// Whether a statement did not get a lock in time. It is undone, its transaction is not.
    pub(crate) fn is_lock_wait(&self) -> bool {
        self.number() == Some(LOCK_WAIT)
    }

    pub(crate) fn is_missing_table(&self) -> bool {
        self.number() == Some(MISSING_TABLE)
    }

    /// Whether the user lacks a privilege on the table or on its columns.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self.number(), Some(TABLE_DENIED | COLUMN_DENIED))
    }

    pub(crate) fn is_duplicate(&self) -> bool {
        self.number() == Some(DUPLICATE)
    }
}

/// Whether a call that failed with this error may succeed when it is made again.
fn is_lost_race(number: u16) -> bool {
    matches!(
        number,
        DEADLOCK
            | LOCK_WAIT
            | NUMBER_WAIT
            | WRITE_CONFLICT
            | CONFLICT_AT_COMMIT
            | RETRY_FAILED
            | SCHEMA_CHANGED
    )
}

/// Whether the server refused the words of a statement.
pub(crate) fn is_unknown_syntax(number: u16) -> bool {
    matches!(number, SYNTAX | UNSUPPORTED)
}

/// Whether the connection can still be used for writes after this error.
fn stays(number: u16) -> bool {
    !matches!(number, UNDETERMINED | 1053 | 1077..=1079 | 1152 | 1154..=1161 | 1184 | 1290 | 1836 | 1792 | 1927 | 3032 | 3169 | 4031)
}

/// The kind of an error and its description. Neither contains a bound value.
pub(crate) fn describe(error: &sqlx::Error) -> (ErrorKind, String) {
    kit::describe(error, "pillarbox-mysql", |error| {
        let number = error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number);
        by_number(number.unwrap_or_default(), error.message())
    })
}

fn by_number(number: u16, message: &str) -> (ErrorKind, String) {
    let known = |kind, words: &str| (kind, format!("{words} (error {number})"));
    match number {
        // These messages name tables, columns and keys, never values.
        1051 | 1054 | MISSING_TABLE | 1176 => {
            (ErrorKind::Schema, format!("{message}; run `pillarbox migrate`"))
        }
        1049 => known(ErrorKind::Unavailable, "there is no such database"),
        1044 | 1142 | 1143 | 1227 | 1370 => {
            (ErrorKind::Permission, format!("{message}; see the grants in the MySQL guide"))
        }
        1045 | 1130 | 1251 | 1698 | 1862 => {
            known(ErrorKind::Permission, "login refused: check user and password")
        }
        1022 | 1062 | 1586 => known(ErrorKind::Conflict, "it already exists"),
        DEADLOCK | 1020 | 1614 | 3058 | CONFLICT_AT_COMMIT | RETRY_FAILED | SCHEMA_CHANGED
        | WRITE_CONFLICT => known(ErrorKind::Conflict, "lost against another transaction"),
        LOCK_WAIT | NUMBER_WAIT | 3572 => known(ErrorKind::Timeout, "waited too long for a lock"),
        1969 | 3024 | 1317 => known(ErrorKind::Timeout, "the statement took too long"),
        1290 | 1792 | 1836 | 3100 => known(ErrorKind::Unavailable, "the server is read-only"),
        1040 | 1203 | 1226 => known(ErrorKind::Unavailable, "the server has no connection left"),
        1021 | 1114 | 1041 | 1030 | 1037 | 1038 => {
            known(ErrorKind::Unavailable, "the server is out of disk space or memory")
        }
        1053 | 1077..=1079 | 1152 | 1154..=1161 | 1184 | 1927 | 3032 | 3169 | 4031 => {
            known(ErrorKind::Unavailable, "the server is not available")
        }
        1048 | 1153 | 1264 | 1292 | 1300 | 1366 | 1406 | 1411 | 1441 | 3819 | 4025 => {
            known(ErrorKind::InvalidInput, "a value does not fit its column")
        }
        // These messages name features and settings, never values.
        UNSUPPORTED | 1289 | 1665 | 8048 => {
            let words = "the server does not support this in its configuration";
            (ErrorKind::Unsupported, format!("{words}: {message} (error {number})"))
        }
        UNDETERMINED => known(ErrorKind::Unavailable, "the server does not know whether it committed"),
        _ => known(ErrorKind::Unexpected, "the server failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_the_kind_a_caller_can_act_on() {
        for (number, expected) in [
            (1146, ErrorKind::Schema),
            (1054, ErrorKind::Schema),
            (1044, ErrorKind::Permission),
            (1045, ErrorKind::Permission),
            (1142, ErrorKind::Permission),
            (1062, ErrorKind::Conflict),
            (1213, ErrorKind::Conflict),
            (8028, ErrorKind::Conflict),
            (9007, ErrorKind::Conflict),
            (1235, ErrorKind::Unsupported),
            (8501, ErrorKind::Unavailable),
            (1205, ErrorKind::Timeout),
            (3024, ErrorKind::Timeout),
            (1969, ErrorKind::Timeout),
            (1053, ErrorKind::Unavailable),
            (1290, ErrorKind::Unavailable),
            (1836, ErrorKind::Unavailable),
            (1114, ErrorKind::Unavailable),
            (1021, ErrorKind::Unavailable),
            (1040, ErrorKind::Unavailable),
            (1406, ErrorKind::InvalidInput),
            (3819, ErrorKind::InvalidInput),
            (1064, ErrorKind::Unexpected),
        ] {
            assert_eq!(by_number(number, "table").0, expected, "{number}");
        }
    }

    #[test]
    fn an_unsupported_feature_is_named_by_the_server() {
        let (_, detail) = by_number(1235, "function LOCK IN SHARE MODE has only noop implementation");
        assert!(detail.contains("LOCK IN SHARE MODE") && detail.contains("1235"), "{detail}");
    }

    #[test]
    fn a_conflict_is_retried_on_every_server() {
        for number in [1205, 1213, 1467, 8002, 8022, 8028, 9007] {
            assert!(is_lost_race(number), "{number}");
        }
        for number in [1062, 1064, 1146, 1235, 8048, 8501] {
            assert!(!is_lost_race(number), "{number}");
        }
    }

    #[test]
    fn only_refused_words_show_that_a_server_lacks_skip_locked() {
        assert!([1064, 1235].into_iter().all(is_unknown_syntax));
        assert!(![1142, 1146, 1213, 2013].into_iter().any(is_unknown_syntax));
    }

    #[test]
    fn a_connection_whose_commit_is_undetermined_is_dropped() {
        assert!(!stays(8501));
        assert!(stays(9007));
    }
}
