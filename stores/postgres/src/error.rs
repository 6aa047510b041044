//! What PostgreSQL says, as a kind that a caller can act on.

use pillarbox::port::{ErrorKind, StoreError};

/// A lock was not to be had in time.
const LOCKED: &str = "55P03";

/// Why an operation failed, before it is known which operation of which store it was.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The driver or the server said no.
    Driver(sqlx::Error),
    /// The other driver, or the server by way of it, said no.
    #[cfg(feature = "tokio-postgres-0_7")]
    Pipelined(tokio_postgres::Error),
    /// The store itself said no.
    Refused(ErrorKind, String),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

#[cfg(feature = "tokio-postgres-0_7")]
impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Pipelined(error)
    }
}

impl Failure {
    pub(crate) fn into_store_error(self, operation: &'static str, store: &str) -> StoreError {
        match self {
            Self::Refused(kind, detail) => StoreError::new(kind, operation, store, detail),
            Self::Driver(error) => {
                let (kind, detail) = describe(&error);
                // The server's own words may quote a value; a code never does.
                StoreError::new(kind, operation, store, detail)
            }
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Pipelined(error) => {
                let (kind, detail) = describe_pipelined(&error);
                StoreError::new(kind, operation, store, detail)
            }
        }
    }

    /// Whether it is the server's answer to the statement, not the want of one.
    #[cfg(any(feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
    pub(crate) fn is_answer(&self) -> bool {
        match self {
            Self::Refused(..) => false,
            Self::Driver(error) => matches!(error, sqlx::Error::Database(_)),
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Pipelined(error) => error.as_db_error().is_some(),
        }
    }

    /// Whether a lock was not to be had in time.
    pub(crate) fn is_locked(&self) -> bool {
        match self {
            Self::Driver(sqlx::Error::Database(error)) => error.code().as_deref() == Some(LOCKED),
            _ => false,
        }
    }

    /// Whether the connection may serve another call. One that was broken, or whose server no longer takes writes,
    /// is thrown away, so that the next call finds the new primary.
    pub(crate) fn spares_connection(&self) -> bool {
        match self {
            Self::Refused(..) => true,
            Self::Driver(sqlx::Error::Database(error)) => stays(&error.code().unwrap_or_default()),
            Self::Driver(_) => false,
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Pipelined(error) => error.code().is_some_and(|code| stays(code.code())),
        }
    }
}

/// Whether a server that answers with this code goes on serving writes on the connection.
fn stays(code: &str) -> bool {
    !(code.starts_with("08") || code.starts_with("57P") || code == "25006" || code == "XX000")
}

/// The same for the other driver.
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

/// Why there is no encrypted connection; that the build lacks TLS is told by words only.
fn tls(error: &str) -> (ErrorKind, String) {
    if error.contains("without TLS support") {
        let advice = "TLS is demanded and not built in: turn on the feature `tls-rustls` or `tls-native` of pillarbox-postgres";
        return (ErrorKind::Unsupported, advice.to_owned());
    }
    (ErrorKind::Unavailable, "the encrypted connection failed".to_owned())
}

/// The kind of an error, and what it means in words. Neither holds a bound value.
pub(crate) fn describe(error: &sqlx::Error) -> (ErrorKind, String) {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            by_code(&code, error.message())
        }
        sqlx::Error::Io(error) => {
            (ErrorKind::Unavailable, format!("the server can't be reached ({})", error.kind()))
        }
        sqlx::Error::Tls(error) => tls(&error.to_string()),
        sqlx::Error::PoolTimedOut => {
            (ErrorKind::Timeout, "no connection of the pool became free; make the pool larger".to_owned())
        }
        sqlx::Error::PoolClosed => (ErrorKind::Unavailable, "the pool is closed".to_owned()),
        sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => {
            (ErrorKind::Unavailable, "the connection broke".to_owned())
        }
        sqlx::Error::Configuration(_) => {
            (ErrorKind::InvalidInput, "the URL or its options are wrong".to_owned())
        }
        sqlx::Error::BeginFailed => (ErrorKind::Unavailable, "a transaction could not be begun".to_owned()),
        other => (ErrorKind::Unexpected, format!("the driver failed ({})", variant(other))),
    }
}

/// The name of an error without what it carries, which may be a value.
fn variant(error: &sqlx::Error) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
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
        "28000" | "28P01" => known(ErrorKind::Permission, "the server does not let this user in"),
        "23505" => known(ErrorKind::Conflict, "it is there already"),
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
            "28" => known(ErrorKind::Permission, "the server does not let this user in"),
            _ => known(ErrorKind::Unexpected, "the server failed"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_tls_names_the_feature_that_a_url_demands() {
        let driver = "TLS upgrade required by connect options but SQLx was built without TLS support enabled";
        let (kind, words) = tls(driver);
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(words.contains("`tls-rustls`"), "{words}");
        assert_eq!(tls("unexpected end of file").0, ErrorKind::Unavailable);
    }

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
