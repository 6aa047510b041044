//! Maps errors of sqlx to kinds that a caller can act on.

use pillarbox::port::ErrorKind;
use sqlx::error::DatabaseError;

/// The kind and description of an error. Neither contains a bound value. The store describes answers of the
/// server in `answered`; `package` is the store's crate, which has the features for TLS.
pub fn describe(
    error: &sqlx::Error,
    package: &str,
    answered: impl FnOnce(&dyn DatabaseError) -> (ErrorKind, String),
) -> (ErrorKind, String) {
    let known = |kind, words: &str| (kind, words.to_owned());
    match error {
        sqlx::Error::Database(error) => answered(&**error),
        sqlx::Error::Io(error) => {
            (ErrorKind::Unavailable, format!("the server can't be reached ({})", error.kind()))
        }
        sqlx::Error::Tls(error) => tls(&error.to_string(), package),
        sqlx::Error::PoolTimedOut => {
            known(ErrorKind::Timeout, "no connection of the pool became free; make the pool larger")
        }
        sqlx::Error::PoolClosed => known(ErrorKind::Unavailable, "the pool is closed"),
        sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => {
            known(ErrorKind::Unavailable, "the connection broke")
        }
        sqlx::Error::Configuration(error) if error.to_string().contains("RSA auth backend disabled") => (
            ErrorKind::Unsupported,
            format!(
                "the server wants the password over TLS: set ssl-mode in the URL, or enable the feature `rsa` of {package}"
            ),
        ),
        sqlx::Error::Configuration(_) => known(ErrorKind::InvalidInput, "the URL or its options are wrong"),
        sqlx::Error::BeginFailed => known(ErrorKind::Unavailable, "a transaction could not be begun"),
        other => (ErrorKind::Unexpected, format!("the driver failed ({})", variant(other))),
    }
}

/// Why there is no encrypted connection. Only the text of the error tells that the build lacks TLS.
fn tls(error: &str, package: &str) -> (ErrorKind, String) {
    if error.contains("without TLS support") {
        let advice = format!(
            "TLS is required but not built in: enable the feature `tls-rustls` or `tls-native` of {package}"
        );
        return (ErrorKind::Unsupported, advice);
    }
    (ErrorKind::Unavailable, "the encrypted connection failed".to_owned())
}

/// The name of the error's variant without its fields, which may contain a value.
fn variant(error: &sqlx::Error) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_tls_names_the_feature_that_a_url_demands() {
        let driver = "TLS upgrade required by connect options but SQLx was built without TLS support enabled";
        let (kind, words) = tls(driver, "pillarbox-postgres");
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(words.contains("`tls-rustls`") && words.ends_with("pillarbox-postgres"), "{words}");
        assert_eq!(tls("unexpected end of file", "pillarbox-postgres").0, ErrorKind::Unavailable);
    }
}
