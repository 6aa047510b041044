//! Times as stored in documents: microseconds since 1970 as a 64-bit integer, because a BSON date has only
//! milliseconds.

use std::time::Duration;

use jiff::Timestamp;
use mongodb::bson::{DateTime, RawBsonRef};
pub(crate) use pillarbox_store_kit::{from_micros as from_us, until};

/// Truncates a time to microseconds.
pub(crate) fn cut(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// `now + after`, truncated to microseconds; saturates.
pub(crate) fn later(now: Timestamp, after: Duration) -> Timestamp {
    now.saturating_add(after).map_or(Timestamp::MAX, cut)
}

/// `now - before`, truncated to microseconds; saturates.
pub(crate) fn earlier(now: Timestamp, before: Duration) -> Timestamp {
    now.saturating_sub(before).map_or(Timestamp::MIN, cut)
}

/// Encodes a time as microseconds since 1970.
pub(crate) fn us(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// Converts a BSON date.
pub(crate) fn from_date(date: DateTime) -> Timestamp {
    from_us(date.timestamp_millis().saturating_mul(1_000))
}

/// Decodes a time that another program may have written: a number of microseconds or a BSON date.
pub(crate) fn from_value(value: RawBsonRef<'_>) -> Option<Timestamp> {
    match value {
        RawBsonRef::Int64(us) => Some(from_us(us)),
        RawBsonRef::Int32(us) => Some(from_us(us.into())),
        RawBsonRef::Double(us) => Some(from_us(us as i64)),
        RawBsonRef::DateTime(date) => Some(from_date(date)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_time_are_cut() {
        assert_eq!(from_us(i64::MAX), Timestamp::MAX);
        assert_eq!(from_us(i64::MIN), Timestamp::MIN);
        assert_eq!(from_date(DateTime::MAX), Timestamp::MAX);
        assert_eq!(later(Timestamp::UNIX_EPOCH, Duration::MAX), cut(Timestamp::MAX));
    }

    #[test]
    fn a_date_is_a_time_too() {
        let at = from_us(1_704_067_200_123_000);
        assert_eq!(from_value(RawBsonRef::DateTime(DateTime::from_millis(1_704_067_200_123))), Some(at));
        assert_eq!(from_value(RawBsonRef::Int64(1_704_067_200_123_000)), Some(at));
        assert_eq!(from_value(RawBsonRef::Null), None);
    }
}
