//! Column differences of items: the contents, and times in whole seconds.

use jiff::Timestamp;

use crate::time::literal;

/// The size of all contents in bytes if some of them were left out as too large, else NULL.
pub(crate) const LEFT_OUT: &str = "CASE WHEN length(payload) > {most} OR length(error_message) > {most} \
    THEN coalesce(length(payload), 0) + coalesce(length(error_message), 0) END AS left_out";

/// A time truncated to whole seconds, which the columns store. Some servers would round it instead.
pub(super) fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_microsecond().div_euclid(1_000_000)).unwrap_or(at)
}

/// The SQL expression for the given time, or else for the database's time, in whole seconds.
pub(super) fn now_sql(now: Option<Timestamp>) -> String {
    match now {
        Some(now) => literal(whole(now)),
        None => "utc_timestamp()".to_owned(),
    }
}
