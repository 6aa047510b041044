//! Items as they are read: whatever someone else wrote, a read never fails on it.

use pillarbox::model::Record;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::port::ByteLimits;
use rusqlite::types::ValueRef;

use super::time::stored;
use crate::time::timestamp;

/// What every read of items selects, in the order of the constants below.
pub(crate) const COLUMNS: &str =
    "id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message";

/// The same for a read that loads no contents beyond `?1` bytes: what is larger is NULL. Lengths are known without contents.
pub(crate) const LIGHT_COLUMNS: &str = "id, type, message_group, \
    iif(octet_length(payload) <= ?1, payload, NULL) AS payload, status, retry_count, created_at, processed_at, \
    iif(octet_length(error_message) <= ?1, error_message, NULL) AS error_message";
/// How many bytes the contents have of which some were left out; NULL where none were.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > ?1 OR octet_length(error_message) > ?1 \
    THEN ifnull(octet_length(payload), 0) + ifnull(octet_length(error_message), 0) END";

const ID: usize = 0;
const TYPE: usize = 1;
const MESSAGE_GROUP: usize = 2;
const PAYLOAD: usize = 3;
const STATUS: usize = 4;
const RETRY_COUNT: usize = 5;
const CREATED_AT: usize = 6;
const PROCESSED_AT: usize = 7;
const ERROR_MESSAGE: usize = 8;
/// Bytes of contents that were left out, after the columns of a read.
const LEFT_OUT_BYTES: usize = 9;

/// Reads one row.
pub(super) fn read_item(row: &rusqlite::Row<'_>) -> Item {
    let value = |column: usize| row.get_ref(column).unwrap_or(ValueRef::Null);
    let mut item = Item::default();
    let mut text = |column: usize| {
        let text = match value(column) {
            ValueRef::Null => return None,
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ => None,
        };
        if text.is_none() {
            item.blame(format!("{} is not text", COLUMNS.split(", ").nth(column).unwrap_or_default()));
        }
        text
    };
    let (id, item_type, message_group) = (text(ID), text(TYPE), text(MESSAGE_GROUP));
    let (payload, status, error_message) = (text(PAYLOAD), text(STATUS), text(ERROR_MESSAGE));
    let retry_count = value(RETRY_COUNT).as_i64().ok();
    let time = |column: usize| stored(value(column)).map(timestamp);
    if time(CREATED_AT).is_none() {
        item.blame("created_at is not a time");
    }
    let item = Item {
        id: id.unwrap_or_default(),
        item_type,
        message_group,
        payload,
        status,
        retry_count,
        created_at: time(CREATED_AT),
        processed_at: time(PROCESSED_AT),
        error_message,
        bytes: 0,
        wrong: item.wrong,
    };
    Item { bytes: item.size(), ..item }
}

/// Reads one row within limits: one that has more bytes than a row may have comes without its contents.
pub(super) fn read_within(row: &rusqlite::Row<'_>, limits: &ByteLimits) -> Item {
    let mut item = read_item(row);
    let left_out = row.get::<_, Option<i64>>(LEFT_OUT_BYTES).ok().flatten();
    let size = left_out.map_or(item.bytes, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if size > limits.row {
        item.set_aside(size, limits.row);
    }
    item
}

/// Everything in a row, for people.
pub(crate) fn read_record(row: &rusqlite::Row<'_>) -> Record {
    read_item(row).into_record()
}
