//! Errors of starting a relay and of running a source; no message contains a URL or a secret.

use pillarbox::model::Layout;
use pillarbox::port::{ErrorKind, StoreError};
use pillarbox::redact;
use pillarbox_stores::ConnectError;

use crate::config::Problems;

/// The reason why a source does not run.
#[derive(Debug, Clone, thiserror::Error)]
#[error("source {name}: {what}")]
pub struct SourceError {
    /// The name of the source.
    pub name: String,
    /// The kind of error, which says what a caller can do about it.
    pub kind: ErrorKind,
    /// The message, with advice for the operator where there is some.
    pub what: String,
}

impl SourceError {
    /// Whether a retry may succeed without any change by an operator.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Conflict | ErrorKind::Timeout)
    }

    pub(crate) fn connecting(name: &str, url: &str, error: &ConnectError) -> Self {
        Self { name: name.to_owned(), kind: error.kind(), what: redact::quoted(&error.to_string(), url) }
    }

    pub(crate) fn of_table(name: &str, url: &str, table: &str, layout: Layout, error: &StoreError) -> Self {
        let advice = match error.kind() {
            ErrorKind::Schema => {
                format!("; run `pillarbox migrate --layout {layout} --table {table}`, or set migrate = true")
            }
            ErrorKind::Permission => "; grant the database user what it lacks, or use another".to_owned(),
            _ => String::new(),
        };
        // Replaces the store's own advice, which names neither the layout nor the table.
        let error_text = error.to_string();
        let error_text = error_text.split("; run `pillarbox migrate").next().unwrap_or_default();
        let what = format!("table {table}: {error_text}{advice}");
        Self { name: name.to_owned(), kind: error.kind(), what: redact::quoted(&what, url) }
    }

    /// The database user lacks rights that delivery needs; `grants` are the statements that add them.
    pub(crate) fn lacking(name: &str, table: &str, grants: &[String]) -> Self {
        let what = format!(
            "table {table}: the database user lacks rights; run as its owner: {};",
            grants.join("; ")
        );
        Self { name: name.to_owned(), kind: ErrorKind::Permission, what }
    }
}

/// The reason why a relay does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayStartError {
    /// The configuration has problems.
    #[error(transparent)]
    Config(#[from] Problems),
    /// No source runs, and no retry would help any of them.
    #[error("{}", listed(.0))]
    Sources(Vec<SourceError>),
    /// The admin server cannot listen.
    #[error("cannot listen on admin address {address}: {source}")]
    Admin {
        /// The configured address.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Metrics can't be pushed.
    #[error("{0}")]
    Metrics(String),
}

fn listed(errors: &[SourceError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
