//! Items as they are read: whatever someone else wrote, a read never fails on it.

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::Item;
use sqlx::mysql::MySqlRow;

use crate::row::{bytes_of, number_of, time_of};
use crate::time::literal;

/// What every read of items selects, in the order of the constants below.
pub(crate) const COLUMNS: &str =
    "id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message";

/// The same for a read that loads no contents beyond so many bytes: what is larger is NULL.
pub(crate) const LIGHT_COLUMNS: &str = "id, type, message_group, \
    CASE WHEN length(payload) <= {most} THEN payload END AS payload, status, retry_count, created_at, processed_at, \
    CASE WHEN length(error_message) <= {most} THEN error_message END AS error_message";
/// How many bytes the contents have of which some were left out; NULL where none were.
pub(crate) const LEFT_OUT: &str = "CASE WHEN length(payload) > {most} OR length(error_message) > {most} \
    THEN coalesce(length(payload), 0) + coalesce(length(error_message), 0) END";

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
/// Bytes of contents that were left out, after the time.
const LEFT_OUT_BYTES: usize = 10;

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
    let item = Item {
        id: id.unwrap_or_default(),
        item_type,
        message_group,
        payload,
        status,
        retry_count: number_of(row, RETRY_COUNT),
        created_at: time_of(row, CREATED_AT),
        processed_at: time_of(row, PROCESSED_AT),
        error_message,
        bytes: 0,
        wrong: item.wrong,
    };
    Item { bytes: item.size(), ..item }
}

/// Reads one row of which contents may have been left out: how many bytes it then has.
pub(super) fn read_light(row: &MySqlRow) -> (Item, Option<usize>) {
    let item = read_item(row);
    let contents = number_of(row, LEFT_OUT_BYTES).and_then(|size| usize::try_from(size).ok());
    let names = [Some(&item.id), item.item_type.as_ref(), item.message_group.as_ref()];
    let names: usize = names.into_iter().flatten().map(String::len).sum();
    (item, contents.map(|contents| names + contents))
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
