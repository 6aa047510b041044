//! Items as they are read: whatever someone else wrote, a read never fails on it.

use pillarbox::model::Record;
use pillarbox::model::flowcatalyst::Item;
use rusqlite::types::ValueRef;

use super::time::stored;
use crate::time::timestamp;

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
/// Where a row is, after the columns of a claim.
pub(super) const ROWID: usize = 9;

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
    Item {
        id: id.unwrap_or_default(),
        item_type,
        message_group,
        payload,
        status,
        retry_count,
        created_at: time(CREATED_AT),
        processed_at: time(PROCESSED_AT),
        error_message,
        wrong: item.wrong,
    }
}

/// Everything in a row, for people.
pub(crate) fn read_record(row: &rusqlite::Row<'_>) -> Record {
    read_item(row).into_record()
}
