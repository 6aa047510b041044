//! Items as they are read: whatever someone else wrote, a read never fails on it.

use jiff::Timestamp;
use pillarbox::model::Record;
use pillarbox::model::flowcatalyst::Item;
use sqlx::postgres::PgRow;
use sqlx::{Row as _, ValueRef};

use crate::time::from_binary;

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
/// The database's now, after the columns of a read.
pub(super) const NOW: usize = 9;

/// Whether the node leads, after the columns of a take.
pub(super) const LEADS: usize = 9;

/// Reads one row. Times without a zone are in UTC.
pub(super) fn read_item(row: &PgRow) -> Item {
    let value = |column: usize| -> Option<&[u8]> {
        let value = row.try_get_raw(column).ok()?;
        if value.is_null() { None } else { value.as_bytes().ok() }
    };
    let mut item = Item::default();
    let mut text = |column: usize| {
        let text = std::str::from_utf8(value(column)?).ok().map(str::to_owned);
        if text.is_none() {
            item.blame(format!("{} is not UTF-8", COLUMNS.split(", ").nth(column).unwrap_or_default()));
        }
        text
    };
    let (id, item_type, message_group) = (text(ID), text(TYPE), text(MESSAGE_GROUP));
    let (payload, status, error_message) = (text(PAYLOAD), text(STATUS), text(ERROR_MESSAGE));
    let time = |column: usize| -> Option<Timestamp> { from_binary(value(column)?).ok() };
    if time(CREATED_AT).is_none() {
        item.blame("created_at is not a time");
    }
    Item {
        id: id.unwrap_or_default(),
        item_type,
        message_group,
        payload,
        status,
        retry_count: value(RETRY_COUNT).and_then(number),
        created_at: time(CREATED_AT),
        processed_at: time(PROCESSED_AT),
        error_message,
        wrong: item.wrong,
    }
}

/// An integer of whatever width.
fn number(bytes: &[u8]) -> Option<i64> {
    Some(match bytes.len() {
        2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
        4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
        _ => i64::from_be_bytes(bytes.try_into().ok()?),
    })
}

/// Whether there is an item in a row that may hold nothing but the time.
pub(super) fn is_there(row: &PgRow) -> bool {
    row.try_get_raw(ID).is_ok_and(|id| !id.is_null())
}

/// Everything in a row, for people.
pub(crate) fn read_record(row: &PgRow) -> Record {
    read_item(row).into_record()
}
