//! A moment: fixed, or counted from the database's now.

use std::time::Duration;

use jiff::Timestamp;

/// When something is due or expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At this time.
    At(Timestamp),
    /// So long after the row is written, by the database's clock.
    In(Duration),
}

impl When {
    /// The moment, given the database's now; past the end of time it stays there.
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

/// `now + after`, without overflow.
pub(crate) fn later(now: Timestamp, after: Duration) -> Timestamp {
    now.saturating_add(after).unwrap_or(Timestamp::MAX)
}

/// The time cut to what every database keeps: microseconds.
pub(crate) fn micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
