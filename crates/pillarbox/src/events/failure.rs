//! The failure of a listener or handler: retry, permanent, unavailable or throttled.

use std::error::Error;
use std::time::Duration;

use crate::port::{Cause, Verdict};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Again(Option<Duration>),
    Permanent,
    Unavailable(Option<Duration>),
    Throttled(Option<Duration>),
    NoRoute,
    InFlight,
}

/// The failure of a listener or handler.
///
/// The `?` operator converts any error to a failure that is retried by the retry policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    kind: Kind,
    message: String,
}

impl Failure {
    /// Counts the attempt and retries after the delay of the retry policy.
    #[must_use]
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: Kind::Again(None), message: chain(&*error.into()) }
    }

    /// Counts the attempt and retries after this delay.
    #[must_use]
    pub fn retry_after(error: impl Into<Box<dyn Error + Send + Sync>>, after: Duration) -> Self {
        Self { kind: Kind::Again(Some(after)), message: chain(&*error.into()) }
    }

    /// Gives the event up: it is dead without further attempts.
    #[must_use]
    pub fn permanent(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: Kind::Permanent, message: chain(&*error.into()) }
    }

    /// A dependency of the listener is down; retries after `after`, or after a backoff.
    ///
    /// Counts no attempt while the dependency is down. After five such failures in a row the circuit breaker
    /// of this listener opens.
    #[must_use]
    pub fn unavailable(error: impl Into<Box<dyn Error + Send + Sync>>, after: Option<Duration>) -> Self {
        Self { kind: Kind::Unavailable(after), message: chain(&*error.into()) }
    }

    /// A dependency of the listener asks for fewer calls.
    ///
    /// Never counts an attempt. The engine slows down all deliveries, and starts
    /// none before `after` has passed.
    #[must_use]
    pub fn throttled(error: impl Into<Box<dyn Error + Send + Sync>>, after: Option<Duration>) -> Self {
        Self { kind: Kind::Throttled(after), message: chain(&*error.into()) }
    }

    /// The failure that an HTTP status calls for, if it is none of success. `retry_after` is the answer's header.
    ///
    /// 400, 413 and 422 are the event's own fault: the attempt counts. 429, and 503 with `retry_after`, throttle. All
    /// others are the receiver's fault, and [`unavailable`](Self::unavailable).
    #[must_use]
    pub fn from_status(status: u16, retry_after: Option<Duration>) -> Self {
        let error = format!("the receiver answered {status}");
        match status {
            400 | 413 | 422 => Self { kind: Kind::Again(retry_after), message: error },
            429 => Self::throttled(error, retry_after),
            503 if retry_after.is_some() => Self::throttled(error, retry_after),
            _ => Self::unavailable(error, retry_after),
        }
    }

    /// Converts a verdict for interceptors; `None` if the event was accepted.
    pub(crate) fn of(verdict: &Verdict) -> Option<Self> {
        let (kind, message) = match verdict {
            Verdict::Accepted | Verdict::Settled => return None,
            Verdict::Failed { error, after } => (Kind::Again(*after), error.as_str()),
            Verdict::Refused { error } => (Kind::Again(None), error.as_str()),
            Verdict::Rejected { error } => (Kind::Permanent, error.as_str()),
            Verdict::Unavailable { error, after, .. } => (Kind::Unavailable(*after), error.as_str()),
            Verdict::RouteUnavailable { error, after, .. } => (Kind::Unavailable(*after), error.as_str()),
            Verdict::RouteShut { route, after } => (Kind::Unavailable(Some(*after)), route.as_str()),
            Verdict::Throttled { error, after } => (Kind::Throttled(*after), error.as_str()),
            Verdict::NoRoute { route } => (Kind::NoRoute, route.as_str()),
            Verdict::InFlight => (Kind::InFlight, "already in flight"),
            Verdict::Skipped => (Kind::Again(None), "the sink gave no verdict"),
        };
        Some(Self { kind, message: message.to_owned() })
    }

    /// The error message, followed by its causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the event is dead without further attempts.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self.kind, Kind::Permanent | Kind::NoRoute)
    }

    pub(crate) fn into_verdict(self) -> Verdict {
        let error = self.message;
        match self.kind {
            Kind::Again(after) => Verdict::Failed { error, after },
            Kind::Permanent => Verdict::Rejected { error },
            Kind::Unavailable(after) => Verdict::Unavailable { cause: Cause::Other, error, after },
            Kind::Throttled(after) => Verdict::Throttled { error, after },
            Kind::NoRoute => Verdict::NoRoute { route: error },
            Kind::InFlight => Verdict::InFlight,
        }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

/// Formats the error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
