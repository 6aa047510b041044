//! Inserting items: all items of a call or none.

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::flowcatalyst::{NewItem, number_of};
use pillarbox::model::{NewRow, Written};
use pillarbox::port::ErrorKind;

use super::item::{PENDING, date, now};
use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::insert::taken;

/// Inserts all items or none.
pub(super) async fn insert_rows(
    call: &mut Call<'_>,
    rows: &[NewRow],
    given: Option<Timestamp>,
) -> Result<Vec<Written>, DriverError> {
    let items = NewItem::of_rows(rows, &call.outbox().table)
        .map_err(|invalid| DriverError::Refused(ErrorKind::InvalidInput, invalid.to_string()))?;
    let ids: Vec<&str> = items.iter().map(|item| item.id).collect();
    let known = doc! { "_id": { "$in": ids.clone() } };
    let find = Find { filter: known, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    // This read also runs without items: it checks that the transaction can still commit.
    if !call.find(&call.names().event, find).await?.is_empty() {
        return Err(taken());
    }
    let now = now(call, given).await?;
    let documents = items.iter().map(|item| document(item, now)).collect();
    if let Err(failure) = call.insert(&call.names().event, documents).await {
        let failure = if failure.is_duplicate() { taken() } else { failure };
        if !call.in_transaction() {
            take_back(call, &ids, now).await?;
        }
        return Err(failure);
    }
    let written = |row: &NewRow| {
        let id = row.event.id().clone();
        Written { seq: number_of(&id), id, fresh: true, delayed: false }
    };
    Ok(rows.iter().map(written).collect())
}

fn document(item: &NewItem<'_>, now: Timestamp) -> Document {
    doc! {
        "_id": item.id,
        "type": item.item_type,
        "messageGroup": item.message_group.as_deref(),
        "payload": item.payload,
        "status": PENDING,
        "retryCount": 0,
        "createdAt": date(now),
        "processedAt": Bson::Null,
        "errorMessage": Bson::Null,
    }
}

/// Deletes the items inserted before an error, where there is no transaction.
///
/// These are items that did not exist a moment ago, have exactly this call's time, and are still untouched.
async fn take_back(call: &mut Call<'_>, ids: &[&str], now: Timestamp) -> Result<(), DriverError> {
    let fresh =
        doc! { "_id": { "$in": ids }, "status": PENDING, "createdAt": date(now), "processedAt": Bson::Null };
    call.delete(&call.names().event, fresh).await.map(drop)
}
