//! Marking items as taken: the time of the claim is its token, so it is later with each claim.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use jiff::Timestamp;
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use pillarbox::model::Row;
use pillarbox::port::ByteLimits;

use super::item::{PENDING, PROCESSING, date, read_taken};
use crate::call::{Call, Find};
use crate::error::Failure;

/// How many commands of one call are under way at once.
const AT_ONCE: usize = 8;

/// Marks items as claimed. In a transaction all that were found are taken, or it is begun again; without one, those that
/// nobody else took meanwhile.
pub(super) async fn mark(
    call: &mut Call<'_>,
    keys: Vec<Bson>,
    now: Timestamp,
    limits: &ByteLimits,
) -> Result<Vec<Row>, Failure> {
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
    let statement = doc! { "q": waiting, "u": later(now), "multi": true };
    call.update(&call.names().event, vec![statement]).await?;
    let taken = call.find(&call.names().event, Find { filter: these, ..Find::default() }).await?;
    let mut rows: Vec<Row> = taken.iter().map(|document| read_taken(document, limits).into_row()).collect();
    sort(&mut rows);
    Ok(rows)
}

/// Puts rows into the order of claims.
fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| (&a.group, a.created_at, &a.id).cmp(&(&b.group, b.created_at, &b.id)));
}

/// What becomes of an item that is claimed now.
fn later(now: Timestamp) -> Vec<Bson> {
    let later = doc! { "$max": [date(now), { "$add": ["$processedAt", 1_i64] }] };
    vec![Bson::from(doc! { "$set": { "status": PROCESSING, "processedAt": later } })]
}

/// Takes those that still wait, several at once, each by a command of its own.
async fn take_each(
    call: &Call<'_>,
    keys: &[Bson],
    now: Timestamp,
    limits: &ByteLimits,
) -> (Vec<Row>, Option<Failure>) {
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

/// Takes one item, unless someone else has.
async fn take_one(
    call: &mut Call<'_>,
    key: &Bson,
    now: Timestamp,
    limits: &ByteLimits,
) -> Result<Option<Row>, Failure> {
    let waits = doc! { "_id": key, "status": PENDING };
    let taken = call.modify(&call.names().event, waits, later(now)).await?;
    let document = taken.and_then(|document| RawDocumentBuf::try_from(&document).ok());
    Ok(document.map(|document| read_taken(&document, limits).into_row()))
}
