//! Encoding of items as documents. Their times are BSON dates, with millisecond precision.

use jiff::Timestamp;
use mongodb::bson::{Bson, DateTime, RawDocument, doc};
use pillarbox::model::flowcatalyst::Item;
use pillarbox::port::ByteLimits;

use crate::call::Call;
use crate::error::DriverError;
use crate::row::Fields;

pub(super) const PENDING: &str = "PENDING";
pub(super) const PROCESSING: &str = "PROCESSING";
pub(super) const COMPLETED: &str = "COMPLETED";
pub(super) const FAILED: &str = "FAILED";

/// Encodes a time, truncated to milliseconds.
pub(super) fn date(at: Timestamp) -> DateTime {
    DateTime::from_millis(at.as_millisecond())
}

/// The given time, which tests set, or the server's time.
pub(super) async fn now(call: &Call<'_>, given: Option<Timestamp>) -> Result<Timestamp, DriverError> {
    if let Some(now) = given {
        return Ok(Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now));
    }
    // `hello` reports the time even if no collection exists yet.
    let answer = call.outbox().database.run_command(doc! { "hello": 1 }).await?;
    let now = answer.get_datetime("localTime").copied().unwrap_or_else(|_| DateTime::now());
    Ok(crate::time::from_date(now))
}

/// Decodes one item. Problems make it malformed; decoding never fails.
pub(super) fn read_item(document: &RawDocument) -> Item {
    let mut fields = Fields::new(document);
    let mut text = |field: &str| fields.text(field).map(str::to_owned);
    let (item_type, message_group) = (text("type"), text("messageGroup"));
    let (payload, status, error_message) = (text("payload"), text("status"), text("errorMessage"));
    let id = fields.id().to_string();
    let retry_count = fields.number("retryCount");
    let (created_at, processed_at) = (fields.time("createdAt"), fields.time("processedAt"));
    let wrong = fields.wrong();
    let mut item = Item {
        id,
        item_type,
        message_group,
        payload,
        status,
        retry_count,
        created_at,
        processed_at,
        error_message,
        bytes: 0,
        wrong: None,
    };
    item.bytes = item.size();
    if let Some(wrong) = wrong {
        item.blame(wrong);
    }
    if item.created_at.is_none() {
        item.blame("createdAt is not a time");
    }
    item
}

/// Decodes a taken item within limits: the content of an item larger than `limits.row` is dropped after
/// loading. The server limits documents to 16 MiB, so loading is safe.
///
/// The item counts with its document size, as it did before it was taken.
pub(super) fn read_taken(document: &RawDocument, limits: &ByteLimits) -> Item {
    let mut item = read_item(document);
    if item.bytes > limits.row {
        (item.payload, item.error_message) = (None, None);
        item.set_aside(item.bytes, limits.row);
    }
    let bytes = if item.bytes == 0 { 0 } else { document.as_bytes().len() };
    Item { bytes, ..item }
}

/// Alternatives for `$or`: the item was processed before a time, or it has no such time and was written
/// before it.
pub(super) fn ended_before(before: Timestamp) -> Vec<Bson> {
    let before = date(before);
    let unstamped = doc! { "processedAt": Bson::Null, "createdAt": { "$lt": before } };
    vec![Bson::from(doc! { "processedAt": { "$lt": before } }), Bson::from(unstamped)]
}
