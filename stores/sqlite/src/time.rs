//! Times as the tables store them: whole microseconds since 1970 UTC, without overflow.

use std::time::Duration;

use jiff::Timestamp;
pub(crate) use pillarbox_store_kit::from_micros as timestamp;

/// The given time, which tests set, or else the machine's clock, which all processes on one file share.
pub(crate) fn now(given: Option<Timestamp>) -> Timestamp {
    let now = given.unwrap_or_else(Timestamp::now);
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// `now + after` in microseconds.
pub(crate) fn later(now: Timestamp, after: Duration) -> i64 {
    now.saturating_add(after).unwrap_or(Timestamp::MAX).as_microsecond()
}

/// `now - before` in microseconds.
pub(crate) fn earlier(now: Timestamp, before: Duration) -> i64 {
    now.saturating_sub(before).unwrap_or(Timestamp::MIN).as_microsecond()
}

/// The latest `created_at` of a row that is not skipped as too recent. Without
/// `skip_recent`, no row is too recent.
pub(crate) fn old_enough(now: Timestamp, skip_recent: Duration) -> i64 {
    if skip_recent.is_zero() { i64::MAX } else { earlier(now, skip_recent) }
}

/// The time from `now` until `then_us`; zero if that has passed.
pub(crate) fn until(now: Timestamp, then_us: i64) -> Duration {
    u64::try_from(then_us.saturating_sub(now.as_microsecond())).map(Duration::from_micros).unwrap_or_default()
}
