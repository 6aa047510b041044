//! Times and durations of PostgreSQL: whole microseconds, clamped instead of overflowing.

use std::time::Duration;

use jiff::Timestamp;
pub(crate) use pillarbox_store_kit::{from_micros, until};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, Postgres};
use sqlx::{Decode, Encode, Type};

/// PostgreSQL's epoch, 2000-01-01, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;
/// The earliest time of PostgreSQL, 4714-11-24 BC, in microseconds from its epoch.
const FIRST_US: i64 = -211_813_488_000_000_000;
/// The type `timestamptz`. Its number is the same in every server, which saves a lookup.
const TIMESTAMPTZ: Oid = Oid(1184);
const TIMESTAMPTZ_ARRAY: Oid = Oid(1185);
/// Six thousand years: longer than any duration in practice, and still in range when added to or subtracted
/// from a date.
const LONGEST_US: u128 = 6_000 * 366 * 86_400 * 1_000_000;

/// A `timestamptz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Time {
    /// Microseconds from PostgreSQL's epoch, as sent over the wire.
    pub(crate) fn wire(self) -> i64 {
        (self.0.as_microsecond() - EPOCH_US).max(FIRST_US)
    }
}

impl Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for Time {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
    }
}

impl Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<Postgres>>::encode(self.wire(), buffer)
    }

    fn size_hint(&self) -> usize {
        size_of::<i64>()
    }
}

impl<'r> Decode<'r, Postgres> for Time {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => Ok(Self(from_binary(value.as_bytes()?)?)),
            PgValueFormat::Text => Err("a time in text form".into()),
        }
    }
}

/// Decodes a time from the wire. Clamps times out of range, also `infinity`.
pub(crate) fn from_binary(bytes: &[u8]) -> Result<Timestamp, BoxDynError> {
    let us = i64::from_be_bytes(bytes.try_into()?).saturating_add(EPOCH_US);
    Ok(from_micros(us))
}

/// Clamps a time to the earliest one that PostgreSQL supports.
pub(crate) fn from_first(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(FIRST_US + EPOCH_US).map_or(at, |first| at.max(first))
}

/// A duration in microseconds, at most `LONGEST_US`.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros().min(LONGEST_US)).unwrap_or(i64::MAX)
}

/// The age in microseconds below which rows are skipped; `None` to skip none.
pub(crate) fn skipped(skip_recent: Duration) -> Option<i64> {
    (!skip_recent.is_zero()).then(|| micros(skip_recent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_time_are_cut() {
        assert_eq!(from_binary(&0_i64.to_be_bytes()).ok(), Timestamp::from_microsecond(EPOCH_US).ok());
        for (infinite, end) in [(i64::MAX, Timestamp::MAX), (i64::MIN, Timestamp::MIN)] {
            let cut = from_binary(&infinite.to_be_bytes()).map(Timestamp::as_microsecond);
            assert_eq!(cut.ok(), Some(end.as_microsecond()));
        }
        assert!(from_binary(&[1, 2]).is_err());
    }

    #[test]
    fn the_longest_duration_can_be_added() {
        assert!(Timestamp::MAX.as_microsecond().checked_add(micros(Duration::MAX)).is_some());
    }
}
