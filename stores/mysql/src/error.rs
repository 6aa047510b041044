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
const MISSING_TABLE: u16 = 1146;
const TABLE_DENIED: u16 = 1142;
const COLUMN_DENIED: u16 = 1143;

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
        self.number().is_some()
    }

    fn is_lost_race(&self) -> bool {
        matches!(self.number(), Some(DEADLOCK | LOCK_WAIT | NUMBER_WAIT))
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

/// Whether the connection can still be used for writes after this error.
fn stays(number: u16) -> bool {
    !matches!(number, 1053 | 1077..=1079 | 1152 | 1154..=1161 | 1184 | 1290 | 1836 | 1792 | 1927 | 3032 | 3169 | 4031)
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
        DEADLOCK | 1020 | 1614 | 3058 | 8002 | 8022 | 9007 => {
            known(ErrorKind::Conflict, "lost against another transaction")
        }
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
        1235 | 1289 | 1665 | 8048 => {
            known(ErrorKind::Unsupported, "the server does not support this in its configuration")
        }
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
}
