//! Time arithmetic in whole microseconds, as tables store times, without overflow.

use std::time::Duration;

use jiff::Timestamp;

/// Truncates a time to microseconds.
pub(super) fn cut(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// `now + after`, saturating.
pub(super) fn later(now: Timestamp, after: Duration) -> Timestamp {
    now.saturating_add(after).map_or(Timestamp::MAX, cut)
}

/// `now - before`, saturating.
pub(super) fn earlier(now: Timestamp, before: Duration) -> Timestamp {
    now.saturating_sub(before).map_or(Timestamp::MIN, cut)
}

/// Duration from `now` until `then`; zero if `then` has passed.
pub(super) fn until(now: Timestamp, then: Timestamp) -> Duration {
    then.duration_since(now).try_into().unwrap_or_default()
}
