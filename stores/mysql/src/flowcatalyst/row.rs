//! Items as they are read: whatever someone else wrote, a read never fails on it.

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::Item;
use sqlx::mysql::MySqlRow;

use crate::row::{bytes_of, number_of, time_of};
use crate::time::literal;

/// What every read of items selects, in the order of the constants below.
pub(crate) const COLUMNS: &str =
    "id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message";

const ID: usize = 0;
const TYPE: usize = 1;
const MESSAGE_GROUP: usize = 2;
const PAYLOAD: usize = 3;
const STATUS: usize = 4;
const RETRY_COUNT: usize = 5;
const CREATED_AT: usize = 6;
const PROCESSED_AT: usize = 7;
const ERROR_MESSAGE: usize = 8;
/// The database's now, after the columns of a claim.
pub(super) const NOW: usize = 9;

/// Reads one row of a prepared statement.
pub(super) fn read_item(row: &MySqlRow) -> Item {
    let mut item = Item::default();
    let mut text = |column: usize| {
        let text = std::str::from_utf8(bytes_of(row, column)?).ok().map(str::to_owned);
        if text.is_none() {
            item.blame(format!("{} is not UTF-8", COLUMNS.split(", ").nth(column).unwrap_or_default()));
        }
        text
    };
    let (id, item_type, message_group) = (text(ID), text(TYPE), text(MESSAGE_GROUP));
    let (payload, status, error_message) = (text(PAYLOAD), text(STATUS), text(ERROR_MESSAGE));
    if time_of(row, CREATED_AT).is_none() {
        item.blame("created_at is not a time");
    }
    Item {
        id: id.unwrap_or_default(),
        item_type,
        message_group,
        payload,
        status,
        retry_count: number_of(row, RETRY_COUNT),
        created_at: time_of(row, CREATED_AT),
        processed_at: time_of(row, PROCESSED_AT),
        error_message,
        wrong: item.wrong,
    }
}

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
