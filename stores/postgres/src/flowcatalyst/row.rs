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

/// The same for a read that loads no contents beyond `$1` bytes: what is larger is NULL.
pub(crate) const LIGHT_COLUMNS: &str = "id, type, message_group, \
    CASE WHEN octet_length(payload) <= $1 THEN payload END AS payload, status, retry_count, created_at, processed_at, \
    CASE WHEN octet_length(error_message) <= $1 THEN error_message END AS error_message";
/// How many bytes the contents have of which some were left out; NULL where none were. The length is known without them.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > $1 OR octet_length(error_message) > $1 \
    THEN coalesce(octet_length(payload), 0)::bigint + coalesce(octet_length(error_message), 0) END";
/// How many bytes the row `e` has.
pub(crate) const ITEM_BYTES: &str = "(octet_length(concat(e.id, e.type, e.message_group)) \
    + coalesce(octet_length(e.payload), 0)::bigint + coalesce(octet_length(e.error_message), 0))";
/// The columns that are left out where a row is too large.
pub(crate) const HEAVY: [&str; 2] = ["payload", "error_message"];

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
/// The database's now, after them.
pub(super) const NOW: usize = 10;

/// How many bytes a row has that was taken, after its columns.
const TAKEN_BYTES: usize = 9;
/// Whether the node leads, after them.
pub(super) const LEADS: usize = 10;

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
    let item = Item {
        id: id.unwrap_or_default(),
        item_type,
        message_group,
        payload,
        status,
        retry_count: value(RETRY_COUNT).and_then(number),
        created_at: time(CREATED_AT),
        processed_at: time(PROCESSED_AT),
        error_message,
        bytes: 0,
        wrong: item.wrong,
    };
    Item { bytes: item.size(), ..item }
}

/// Reads one row that was taken. Its contents are there unless they are more than a row may have.
pub(super) fn read_taken(row: &PgRow, most: usize) -> Item {
    let mut item = read_item(row);
    item.bytes = size(row, TAKEN_BYTES).unwrap_or_default();
    if item.bytes > most {
        item.set_aside(item.bytes, most);
    }
    item
}

/// How many bytes a row has of which contents were left out.
pub(super) fn left_out(row: &PgRow, item: &Item) -> Option<usize> {
    let names = [Some(&item.id), item.item_type.as_ref(), item.message_group.as_ref()];
    let names: usize = names.into_iter().flatten().map(String::len).sum();
    Some(names + size(row, LEFT_OUT_BYTES)?)
}

fn size(row: &PgRow, column: usize) -> Option<usize> {
    let value = row.try_get_raw(column).ok()?;
    usize::try_from(if value.is_null() { return None } else { number(value.as_bytes().ok()?)? }).ok()
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
