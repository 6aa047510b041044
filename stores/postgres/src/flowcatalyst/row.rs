//! Items as they are read: whatever someone else wrote, a read never fails on it.

use pillarbox::model::RowDecoder;
use pillarbox::model::flowcatalyst::Item;

use crate::row::{Values, counted};

/// How many bytes the row `e` has.
pub(crate) const ITEM_BYTES: &str = "(octet_length(concat(e.id, e.type, e.message_group)) \
    + coalesce(octet_length(e.payload), 0)::bigint + coalesce(octet_length(e.error_message), 0))";

/// Reads one row that was taken. Its contents are there unless they are more than a row may have.
pub(super) fn read_taken(decoder: &RowDecoder, values: &Values<'_>, most: usize) -> Item {
    let mut item = decoder.item(values);
    item.bytes = counted(decoder, values);
    if item.bytes > most {
        item.set_aside(item.bytes, most);
    }
    item
}
