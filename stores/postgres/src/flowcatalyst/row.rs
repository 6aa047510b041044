//! Decodes items: a read never fails, whatever another program has written.

use pillarbox::model::RowDecoder;
use pillarbox::model::flowcatalyst::Item;

use crate::row::{Values, counted};

/// The size of the item `e` in bytes.
pub(crate) const ITEM_BYTES: &str = "(octet_length(concat(e.id, e.type, e.message_group)) \
    + coalesce(octet_length(e.payload), 0)::bigint + coalesce(octet_length(e.error_message), 0))";

/// Decodes a taken item. An item of more than `most` bytes comes without contents and is set aside.
pub(super) fn read_taken(decoder: &RowDecoder, values: &Values<'_>, most: usize) -> Item {
    let mut item = decoder.item(values);
    item.bytes = counted(decoder, values);
    if item.bytes > most {
        item.set_aside(item.bytes, most);
    }
    item
}
