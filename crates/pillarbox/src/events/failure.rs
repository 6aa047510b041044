//! How a listener fails.

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

/// A listener's failure. Any error becomes one that is tried again; `?` does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    kind: Kind,
    message: String,
}

impl Failure {
    /// Try again, by the retry policy.
    #[must_use]
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: Kind::Again(None), message: chain(&*error.into()) }
    }

    /// Try again after this long.
    #[must_use]
    pub fn retry_after(error: impl Into<Box<dyn Error + Send + Sync>>, after: Duration) -> Self {
        Self { kind: Kind::Again(Some(after)), message: chain(&*error.into()) }
    }

    /// It will never work: dead at once.
    #[must_use]
    pub fn permanent(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: Kind::Permanent, message: chain(&*error.into()) }
    }

    /// What the listener needs is down: no attempt is burnt, and after five in a row this listener gets nothing for a while.
    #[must_use]
    pub fn unavailable(error: impl Into<Box<dyn Error + Send + Sync>>, after: Option<Duration>) -> Self {
        Self { kind: Kind::Unavailable(after), message: chain(&*error.into()) }
    }

    /// What the listener needs wants fewer calls: no attempt is ever counted, all deliveries are paced, and none is begun
    /// before `after` has passed.
    #[must_use]
    pub fn throttled(error: impl Into<Box<dyn Error + Send + Sync>>, after: Option<Duration>) -> Self {
        Self { kind: Kind::Throttled(after), message: chain(&*error.into()) }
    }

    /// What a verdict tells interceptors; none where the event was taken.
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

    /// What went wrong, with its causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether it is dead at once.
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

/// The error and its causes, in one line.
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
