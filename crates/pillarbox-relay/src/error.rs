//! Why a relay does not start, or a source does not run. No message holds a URL or a secret.

use pillarbox::model::Layout;
use pillarbox::port::{ErrorKind, StoreError};
use pillarbox::redact;
use pillarbox_stores::ConnectError;

use crate::config::Problems;

/// Why a source does not run.
#[derive(Debug, Clone, thiserror::Error)]
#[error("source {name}: {what}")]
pub struct SourceError {
    /// Which source.
    pub name: String,
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// What happened.
    pub what: String,
}

impl SourceError {
    /// Whether the same may succeed later.
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
        // The store's own advice knows neither the layout nor the table.
        let error_text = error.to_string();
        let error_text = error_text.split("; run `pillarbox migrate").next().unwrap_or_default();
        let what = format!("table {table}: {error_text}{advice}");
        Self { name: name.to_owned(), kind: error.kind(), what: redact::quoted(&what, url) }
    }

    /// The database user may not do what delivering needs.
    pub(crate) fn lacking(name: &str, table: &str, grants: &[String]) -> Self {
        let what = format!(
            "table {table}: the database user lacks rights; run as its owner: {};",
            grants.join("; ")
        );
        Self { name: name.to_owned(), kind: ErrorKind::Permission, what }
    }
}

/// Why a relay does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayStartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] Problems),
    /// No source can run, and waiting would not help.
    #[error("{}", listed(.0))]
    Sources(Vec<SourceError>),
    /// The admin server cannot listen.
    #[error("cannot listen on admin address {address}: {source}")]
    Admin {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// Metrics can't be pushed.
    #[error("{0}")]
    Metrics(String),
}

fn listed(errors: &[SourceError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
