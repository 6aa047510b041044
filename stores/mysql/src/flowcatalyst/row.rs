//! What the columns of items differ in: lengths of contents, times in whole seconds.

use jiff::Timestamp;

use crate::time::literal;

/// How many bytes the contents have of which some were left out; NULL where none were.
pub(crate) const LEFT_OUT: &str = "CASE WHEN length(payload) > {most} OR length(error_message) > {most} \
    THEN coalesce(length(payload), 0) + coalesce(length(error_message), 0) END AS left_out";

/// A time cut to the whole seconds of the columns, which some servers would round.
pub(super) fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_microsecond().div_euclid(1_000_000)).unwrap_or(at)
}

/// The expression for a time that was given, else for the database's now, in whole seconds.
pub(super) fn now_sql(now: Option<Timestamp>) -> String {
    match now {
        Some(now) => literal(whole(now)),
        None => "utc_timestamp()".to_owned(),
    }
}
