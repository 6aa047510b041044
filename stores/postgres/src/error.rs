//! Maps errors of PostgreSQL to kinds that a caller can act on.

use std::borrow::Cow;

use pillarbox::port::{ErrorKind, StoreError};
use pillarbox_store_kit::{self as kit, Refused};

/// SQLSTATE of a lock that was not available in time.
const LOCKED: &str = "55P03";
/// SQLSTATE of a text that could not be cast: a whole-batch settle fails with it on purpose.
const NOT_WHOLE: &str = "22P02";

/// Why an operation failed, before the operation and the store are known.
#[derive(Debug)]
pub(crate) enum DriverError {
    /// An error of sqlx, or of the server through it.
    Driver(sqlx::Error),
    /// An error of tokio-postgres, or of the server through it.
    #[cfg(feature = "tokio-postgres-0_7")]
    Pipelined(tokio_postgres::Error),
    /// A refusal by the store itself.
    Refused(ErrorKind, String),
}

impl From<sqlx::Error> for DriverError {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

#[cfg(feature = "tokio-postgres-0_7")]
impl From<tokio_postgres::Error> for DriverError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Pipelined(error)
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
                // The server's message may quote a value; its code never does.
                StoreError::new(kind, operation, store, detail)
            }
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Pipelined(error) => {
                let (kind, detail) = describe_pipelined(&error);
                StoreError::new(kind, operation, store, detail)
            }
        }
    }

    fn is_answer(&self) -> bool {
        match self {
            Self::Refused(..) => false,
            Self::Driver(error) => matches!(error, sqlx::Error::Database(_)),
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Pipelined(error) => error.as_db_error().is_some(),
        }
    }

    fn spares_connection(&self) -> bool {
        match self {
            Self::Refused(..) => true,
            Self::Driver(sqlx::Error::Database(error)) => stays(&error.code().unwrap_or_default()),
            Self::Driver(_) => false,
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Pipelined(error) => error.code().is_some_and(|code| stays(code.code())),
        }
    }

    fn is_lost_race(&self) -> bool {
        matches!(self.code().as_deref(), Some("40001" | "40003" | "40P01"))
    }
}

impl DriverError {
    /// The SQLSTATE, if sqlx has passed on an answer of the server.
    fn code(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Driver(sqlx::Error::Database(error)) => error.code(),
            _ => None,
        }
    }

    /// Whether a lock was not available in time.
    pub(crate) fn is_locked(&self) -> bool {
        self.code().as_deref() == Some(LOCKED)
    }

    /// Whether a whole-batch settle met rows that are not what it expects.
    pub(crate) fn is_not_whole(&self) -> bool {
        self.code().as_deref() == Some(NOT_WHOLE)
    }
}

/// Whether a server that answers with this code still accepts writes on the connection.
fn stays(code: &str) -> bool {
    !(code.starts_with("08") || code.starts_with("57P") || code == "25006" || code == "XX000")
}

/// The kind and description of an error of tokio-postgres. Neither contains a bound value.
#[cfg(feature = "tokio-postgres-0_7")]
fn describe_pipelined(error: &tokio_postgres::Error) -> (ErrorKind, String) {
    use std::error::Error as _;
    if let Some(error) = error.as_db_error() {
        return by_code(error.code().code(), error.message());
    }
    match error.source().and_then(|source| source.downcast_ref::<std::io::Error>()) {
        Some(error) => (ErrorKind::Unavailable, format!("the server can't be reached ({})", error.kind())),
        None if error.is_closed() => (ErrorKind::Unavailable, "the connection broke".to_owned()),
        None => (ErrorKind::Unexpected, "the driver failed".to_owned()),
    }
}

/// The kind and description of an error of sqlx. Neither contains a bound value.
pub(crate) fn describe(error: &sqlx::Error) -> (ErrorKind, String) {
    kit::describe(error, "pillarbox-postgres", |error| {
        by_code(&error.code().unwrap_or_default(), error.message())
    })
}

fn by_code(code: &str, message: &str) -> (ErrorKind, String) {
    let known = |kind, words: &str| (kind, format!("{words} (SQLSTATE {code})"));
    match code {
        "42P01" | "42703" | "42704" | "42883" | "3F000" | "42P10" => {
            // These messages name tables, columns, functions and schemas, never values.
            (ErrorKind::Schema, format!("{message}; run `pillarbox migrate`"))
        }
        "3D000" => known(ErrorKind::Unavailable, "there is no such database"),
        "42501" => (ErrorKind::Permission, format!("{message}; see the grants in the PostgreSQL guide")),
        "28000" | "28P01" => {
            known(ErrorKind::Permission, "login refused: check user, password and pg_hba.conf")
        }
        "23505" => known(ErrorKind::Conflict, "it already exists"),
        "40001" | "40P01" | "40003" => known(ErrorKind::Conflict, "lost against another transaction"),
        LOCKED => known(ErrorKind::Timeout, "waited too long for a lock"),
        "57014" => known(ErrorKind::Timeout, "the statement took too long"),
        "25P03" | "25P04" | "57P05" => {
            known(ErrorKind::Timeout, "the transaction or session was idle for too long")
        }
        "25006" => known(ErrorKind::Unavailable, "the server is read-only"),
        "25P02" => known(ErrorKind::Conflict, "an earlier error has aborted this transaction"),
        "53300" => known(ErrorKind::Unavailable, "the server has no connection left"),
        "22001" | "22021" | "22P05" | "54000" => {
            known(ErrorKind::InvalidInput, "a value does not fit its column")
        }
        "0A000" => known(ErrorKind::Unsupported, "the server can't do that"),
        _ => match code.get(..2).unwrap_or_default() {
            "08" | "57" | "58" | "53" => known(ErrorKind::Unavailable, "the server is not available"),
            "23" | "22" => known(ErrorKind::InvalidInput, "a value or constraint does not hold"),
            "28" => known(ErrorKind::Permission, "login refused: check user, password and pg_hba.conf"),
            _ => known(ErrorKind::Unexpected, "the server failed"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_kind_a_caller_can_act_on() {
        for (code, expected) in [
            ("42P01", ErrorKind::Schema),
            ("42703", ErrorKind::Schema),
            ("42883", ErrorKind::Schema),
            ("42501", ErrorKind::Permission),
            ("28P01", ErrorKind::Permission),
            ("23505", ErrorKind::Conflict),
            ("40P01", ErrorKind::Conflict),
            ("25P02", ErrorKind::Conflict),
            ("55P03", ErrorKind::Timeout),
            ("57014", ErrorKind::Timeout),
            ("57P01", ErrorKind::Unavailable),
            ("57P03", ErrorKind::Unavailable),
            ("25006", ErrorKind::Unavailable),
            ("53100", ErrorKind::Unavailable),
            ("08006", ErrorKind::Unavailable),
            ("22001", ErrorKind::InvalidInput),
            ("23514", ErrorKind::InvalidInput),
            ("XX000", ErrorKind::Unexpected),
        ] {
            assert_eq!(by_code(code, "relation").0, expected, "{code}");
        }
    }
}
