//! Marking items as taken: the time of the take is its token, so it must increase with each take of an item.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use jiff::Timestamp;
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use pillarbox::model::Row;
use pillarbox::port::ByteLimits;

use super::item::{PENDING, PROCESSING, date, read_taken};
use crate::call::{Call, Find};
use crate::error::DriverError;

/// The maximum number of concurrent commands of one call.
const AT_ONCE: usize = 8;

/// Marks items as processing and returns them. In a transaction, takes all items or conflicts;
/// otherwise takes the items that nobody else took in between.
pub(super) async fn mark(
    call: &mut Call<'_>,
    keys: Vec<Bson>,
    now: Timestamp,
    limits: &ByteLimits,
) -> Result<Vec<Row>, DriverError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    if !call.in_transaction() {
        let (mut rows, failure) = take_each(call, &keys, now, limits).await;
        sort(&mut rows);
        return match failure {
            Some(failure) if rows.is_empty() => Err(failure),
            _ => Ok(rows),
        };
    }
    let these = doc! { "_id": { "$in": keys } };
    let mut waiting = these.clone();
    waiting.insert("status", PENDING);
    let statement = doc! { "q": waiting, "u": taken_at(now), "multi": true };
    call.update(&call.names().event, vec![statement]).await?;
    let taken = call.find(&call.names().event, Find { filter: these, ..Find::default() }).await?;
    let mut rows: Vec<Row> = taken.iter().map(|document| read_taken(document, limits).into_row()).collect();
    sort(&mut rows);
    Ok(rows)
}

/// Sorts rows into delivery order: by group, time and id.
fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| (&a.group, a.created_at, &a.id).cmp(&(&b.group, b.created_at, &b.id)));
}

/// The update that takes an item. `$max` keeps the token increasing when the clock does not. A time that is
/// not a date counts as none.
pub(super) fn taken_at(now: Timestamp) -> Vec<Bson> {
    let is_date = doc! { "$eq": [{ "$type": "$processedAt" }, "date"] };
    let after = doc! { "$cond": [is_date, { "$add": ["$processedAt", 1_i64] }, date(now)] };
    let later = doc! { "$max": [date(now), after] };
    vec![Bson::from(doc! { "$set": { "status": PROCESSING, "processedAt": later } })]
}

/// Takes the items that are still pending, with one command per item and several commands at once.
async fn take_each(
    call: &Call<'_>,
    keys: &[Bson],
    now: Timestamp,
    limits: &ByteLimits,
) -> (Vec<Row>, Option<DriverError>) {
    let (outbox, next) = (call.outbox(), &AtomicUsize::new(0));
    let lines = (0..AT_ONCE.min(keys.len())).map(|_| async move {
        let mut call = Call::new(outbox, None);
        let mut rows = Vec::new();
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            match take_one(&mut call, key, now, limits).await {
                Ok(row) => rows.extend(row),
                Err(failure) => return (rows, Some(failure)),
            }
        }
        (rows, None)
    });
    let (mut rows, mut failed) = (Vec::new(), None);
    for (taken, failure) in join_all(lines).await {
        rows.extend(taken);
        failed = failed.or(failure);
    }
    (rows, failed)
}

/// Takes one item; `None` if it is no longer pending.
async fn take_one(
    call: &mut Call<'_>,
    key: &Bson,
    now: Timestamp,
    limits: &ByteLimits,
) -> Result<Option<Row>, DriverError> {
    let waits = doc! { "_id": key, "status": PENDING };
    let taken = call.modify(&call.names().event, waits, taken_at(now)).await?;
    let document = taken.and_then(|document| RawDocumentBuf::try_from(&document).ok());
    Ok(document.map(|document| read_taken(&document, limits).into_row()))
}
