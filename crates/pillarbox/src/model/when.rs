//! A time that is absolute, or relative to the database's current time.

use std::time::Duration;

use jiff::Timestamp;

/// The time at which something is due or expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At this time.
    At(Timestamp),
    /// This long after the row is written, by the database's clock.
    In(Duration),
}

impl When {
    /// The absolute time, given the database's current time; saturates at the latest time.
    #[must_use]
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(after) => later(now, after),
        }
    }
}

impl From<Timestamp> for When {
    fn from(at: Timestamp) -> Self {
        Self::At(at)
    }
}

impl From<Duration> for When {
    fn from(after: Duration) -> Self {
        Self::In(after)
    }
}

/// `now + after`; saturates at the latest time.
pub(crate) fn later(now: Timestamp, after: Duration) -> Timestamp {
    now.saturating_add(after).unwrap_or(Timestamp::MAX)
}

/// Truncates a time to microseconds, which every database can store.
pub(crate) fn micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
