//! Errors of making a sink: what is wrong and what to do, never a secret.

use crate::template::BadTemplate;

/// Why there is no sink.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The URL can't be used. It is not shown: it may hold a password.
    #[error("the sink's URL {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// No sink has this scheme.
    #[error(
        "no sink has the scheme `{scheme}`: use http, https, webhook+https, kafka, nats, tls, amqp, amqps, redis, rediss or stdout"
    )]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// The sink was left out when the program was built.
    #[error(
        "this program was built without sinks of the scheme `{scheme}`: rebuild it with `--features {feature}`"
    )]
    NotBuilt {
        /// The scheme.
        scheme: String,
        /// The feature of this crate.
        feature: &'static str,
    },
    /// An option does not fit.
    #[error("sink option `{option}`: {reason}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl SinkError {
    /// The URL can't be used, for this reason.
    pub fn url(reason: impl Into<String>) -> Self {
        Self::Url { reason: reason.into() }
    }

    /// An option does not fit, for this reason.
    pub fn option(option: &'static str, reason: impl Into<String>) -> Self {
        Self::Option { option, reason: reason.into() }
    }
}

impl From<BadTemplate> for SinkError {
    fn from(bad: BadTemplate) -> Self {
        Self::option("destination", bad.to_string())
    }
}
