//! Times and durations in the form MySQL takes: whole microseconds of UTC, without overflow.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, civil};
pub(crate) use pillarbox_store_kit::until;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::mysql::{MySql, MySqlTypeInfo};
use sqlx::{Encode, Type};

/// The first year of a `datetime`; earlier times are set to its start.
const FIRST_YEAR: i16 = 1;
/// The longest duration to add to a time: six thousand years, which does not overflow a `datetime`.
const LONGEST_US: u128 = 6_000 * 366 * 86_400 * 1_000_000;
/// The longest duration to subtract from a time: a thousand years, which does not underflow a `datetime`.
const LONGEST_BACK_US: u128 = 1_000 * 366 * 86_400 * 1_000_000;

/// A `datetime(6)`, bound as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Type<MySql> for Time {
    fn type_info() -> MySqlTypeInfo {
        <str as Type<MySql>>::type_info()
    }
}

impl Encode<'_, MySql> for Time {
    fn encode_by_ref(&self, buffer: &mut Vec<u8>) -> Result<IsNull, BoxDynError> {
        <String as Encode<MySql>>::encode(text(self.0), buffer)
    }
}

/// A time as text that the server parses under every setting.
pub(crate) fn text(at: Timestamp) -> String {
    let at = Offset::UTC.to_datetime(at);
    let at = if at.year() < FIRST_YEAR {
        civil::date(FIRST_YEAR, 1, 1).to_datetime(civil::Time::midnight())
    } else {
        at
    };
    let micros = at.subsec_nanosecond() / 1_000;
    let (date, clock) = (at.date(), at.time());
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{micros:06}",
        date.year(),
        date.month(),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    )
}

/// The SQL expression for the given time, or else for the database's time, which is
/// constant within a statement.
pub(crate) fn now_sql(now: Option<Timestamp>) -> String {
    match now {
        Some(now) => literal(now),
        None => "utc_timestamp(6)".to_owned(),
    }
}

/// A time as an SQL literal.
pub(crate) fn literal(at: Timestamp) -> String {
    format!("TIMESTAMP'{}'", text(at))
}

/// The SQL expression for the latest `created_at` of a row that is not skipped as too recent.
pub(crate) fn youngest_sql(now: Option<Timestamp>, skip_recent: Duration) -> String {
    if skip_recent.is_zero() {
        return literal(Timestamp::MAX);
    }
    format!("{} - INTERVAL {} MICROSECOND", now_sql(now), micros_back(skip_recent))
}

/// Decodes a time of the binary protocol: a length, then year, month and day, then
/// the parts that are not zero.
pub(crate) fn from_binary(bytes: &[u8]) -> Option<Timestamp> {
    let (_, bytes) = bytes.split_first()?;
    let part = |index: usize| bytes.get(index).copied().map_or(Some(0), |byte| i8::try_from(byte).ok());
    let year = i16::try_from(u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?])).ok()?;
    let micros = match bytes.get(7..11) {
        Some(four) => u32::from_le_bytes(four.try_into().ok()?),
        None => 0,
    };
    let nanos = i32::try_from(micros).ok()?.checked_mul(1_000)?;
    let at = DateTime::new(year, part(2)?, part(3)?, part(4)?, part(5)?, part(6)?, nanos).ok()?;
    Some(Offset::UTC.to_timestamp(at).unwrap_or(Timestamp::MAX))
}

/// Decodes a time of the text protocol.
pub(crate) fn from_text(text: &str) -> Option<Timestamp> {
    let at: DateTime = text.parse().ok()?;
    Some(Offset::UTC.to_timestamp(at).unwrap_or(Timestamp::MAX))
}

/// A duration in microseconds, limited so that it can be added to a time.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros().min(LONGEST_US)).unwrap_or(i64::MAX)
}

/// A duration in microseconds, limited so that it can be subtracted from a time.
pub(crate) fn micros_back(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros().min(LONGEST_BACK_US)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_whole_microseconds_of_the_years_there_are() {
        for (at, expected) in [
            ("2026-01-02T03:04:05.123456789Z", "2026-01-02 03:04:05.123456"),
            ("0001-01-01T00:00:00Z", "0001-01-01 00:00:00.000000"),
            ("-000043-03-15T12:00:00Z", "0001-01-01 00:00:00.000000"),
        ] {
            assert_eq!(text(at.parse().unwrap()), expected);
        }
        assert!(text(Timestamp::MAX).starts_with("9999-12-30 "));
    }

    #[test]
    fn times_are_read_in_each_length_they_come_in() {
        let read = |bytes: &[u8]| from_binary(bytes).map(|at| at.to_string());
        assert_eq!(read(&[4, 0xea, 7, 1, 2]).unwrap(), "2026-01-02T00:00:00Z");
        assert_eq!(read(&[7, 0xea, 7, 1, 2, 3, 4, 5]).unwrap(), "2026-01-02T03:04:05Z");
        assert_eq!(
            read(&[11, 0xea, 7, 1, 2, 3, 4, 5, 0x40, 0xe2, 1, 0]).unwrap(),
            "2026-01-02T03:04:05.123456Z"
        );
        assert_eq!(
            from_text("2026-01-02 03:04:05.123456").unwrap().to_string(),
            "2026-01-02T03:04:05.123456Z"
        );
        assert_eq!(from_text("0000-00-00 00:00:00"), None);
        for rubbish in [&[][..], &[0], &[4, 0, 0, 0, 0], &[4, 0xea, 7, 13, 2]] {
            assert_eq!(read(rubbish), None, "a date that is none");
        }
    }
}
