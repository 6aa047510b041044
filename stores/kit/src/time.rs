//! Times as microseconds, without overflow.

use std::time::Duration;

use jiff::Timestamp;

/// A stored time in microseconds since 1970. Values out of range become the first or the last possible time.
#[must_use]
pub fn from_micros(us: i64) -> Timestamp {
    let end = if us < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(us).unwrap_or(end)
}

/// The time from `now` until `then`; zero if `then` has passed.
#[must_use]
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_becomes_an_end() {
        assert_eq!(from_micros(i64::MAX), Timestamp::MAX);
        assert_eq!(from_micros(i64::MIN), Timestamp::MIN);
        assert_eq!(until(Timestamp::MAX, Timestamp::MIN), Duration::ZERO);
    }
}
