//! Times of items: text in UTC with microseconds, which sorts correctly beside values of `CURRENT_TIMESTAMP`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use rusqlite::types::ValueRef;

/// A time as stored text.
pub(crate) fn text(us: i64) -> String {
    let at = Offset::UTC.to_datetime(crate::time::timestamp(us));
    let (date, clock) = (at.date(), at.time());
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}",
        date.year(),
        date.month(),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second(),
        clock.subsec_nanosecond() / 1_000
    )
}

/// Decodes a stored time to microseconds. Accepts text in most forms, as UTC unless it names a time zone, and
/// numbers since 1970, in seconds, milliseconds or microseconds depending on their size.
pub(crate) fn stored(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes).ok()?;
            let zoned = text.parse::<Timestamp>().ok();
            let plain = || Offset::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok();
            zoned.or_else(plain).map(Timestamp::as_microsecond)
        }
        ValueRef::Integer(number) => Some(by_size(number)),
        ValueRef::Real(number) => Some(by_size(number as i64)),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}

fn by_size(number: i64) -> i64 {
    match number.unsigned_abs() {
        0..100_000_000_000 => number * 1_000_000,
        100_000_000_000..100_000_000_000_000 => number * 1_000,
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RLY-003
    #[test]
    fn times_read_back_and_those_of_other_programs_are_understood() {
        let us = 1_736_937_000_123_456;
        assert_eq!(text(us), "2025-01-15 10:30:00.123456");
        let read = |text: &str| stored(ValueRef::Text(text.as_bytes()));
        assert_eq!(read(&text(us)), Some(us));
        for same in ["2025-01-15 10:30:00", "2025-01-15T10:30:00Z", "2025-01-15 11:30:00+01:00"] {
            assert_eq!(read(same), Some(1_736_937_000_000_000), "{same}");
        }
        for same in [1_736_937_000, 1_736_937_000_000, 1_736_937_000_000_000] {
            assert_eq!(stored(ValueRef::Integer(same)), Some(1_736_937_000_000_000));
        }
        assert_eq!(read("tomorrow"), None);
        assert!(text(i64::MIN) < text(0) && text(0) < text(i64::MAX));
    }
}
