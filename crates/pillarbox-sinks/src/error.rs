//! Errors of opening a sink: what is wrong and what to do, never with a secret.

use crate::template::BadTemplate;

/// The reason why a sink can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The URL can't be used. It is not shown, because it may contain a password.
    #[error("the sink's URL {reason}")]
    Url {
        /// What is wrong with the URL, as the end of a sentence.
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
    /// The program was built without this sink.
    #[error(
        "this program was built without sinks of the scheme `{scheme}`: rebuild it with `--features {feature}`"
    )]
    NotBuilt {
        /// The scheme.
        scheme: String,
        /// The cargo feature that adds the sink.
        feature: &'static str,
    },
    /// A secret would be sent to another machine without TLS.
    #[error(
        "the {what} would be sent without TLS, and anybody on the network path could read it: use {instead}, or set allow-cleartext = true if you trust the network"
    )]
    Cleartext {
        /// The secret.
        what: &'static str,
        /// What to use instead.
        instead: &'static str,
    },
    /// An option is invalid for this sink.
    #[error("sink option `{option}`: {reason}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// What is wrong and what to do.
        reason: String,
    },
}

impl SinkError {
    /// An error of the URL, for this reason.
    pub fn url(reason: impl Into<String>) -> Self {
        Self::Url { reason: reason.into() }
    }

    /// An error of an option, for this reason.
    pub fn option(option: &'static str, reason: impl Into<String>) -> Self {
        Self::Option { option, reason: reason.into() }
    }
}

impl From<BadTemplate> for SinkError {
    fn from(bad: BadTemplate) -> Self {
        Self::option("destination", bad.to_string())
    }
}
