//! Claiming rows under a lease.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocument, doc};
use pillarbox::model::{Lane, Row};
use pillarbox::port::{Claim, ClaimFrom, Reap};
use uuid::Uuid;

use crate::adopt::adopted;
use crate::call::{Call, Find};
use crate::document::{pending, unclaimed, unlocked};
use crate::error::Failure;
use crate::row::{Claimed, Fields, SIZE, read_within, size, size_of};
use crate::time::{cut, earlier, later, us};

/// How many rows one claim takes at most: their ids stand in one command.
const MOST: usize = 10_000;
/// How often a claim looks again that lost all it found to others.
const TRIES: usize = 8;
/// How much further a claim looks where others claim too, and for how many claims it remembers that they do.
const CROWD: usize = 8;
const REMEMBERED: u32 = 16;

pub(crate) async fn claim(call: &mut Call<'_>, request: &Claim) -> Result<Vec<Row>, Failure> {
    let head = adopted(call).await?;
    let now = request.now.map_or(head.now, cut);
    let wanted = request.rows.min(MOST);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    for _ in 0..TRIES {
        let crowd = &call.outbox().crowd;
        let crowded = crowd.load(Ordering::Relaxed) > 0;
        let look = if crowded { wanted.saturating_mul(CROWD).min(MOST) } else { wanted };
        let mut free = claimable(call, request, now, look).await?;
        if crowded {
            free = some_of(free, wanted);
        }
        let found = request.bytes.fitting(free.iter().map(|(_, size)| *size));
        let ids: Vec<Bson> = free.into_iter().take(found).map(|(id, _)| id).collect();
        if found == 0 {
            return Ok(Vec::new());
        }
        let claimed = take(call, request, now, ids).await?;
        if claimed.len() < found {
            crowd.store(REMEMBERED, Ordering::Relaxed);
        } else if crowded {
            let _ = crowd.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        }
        if !claimed.is_empty() {
            return Ok(claimed);
        }
    }
    Ok(Vec::new())
}

/// A run of so many, beginning anywhere: claimers that all began with the oldest would all want the same rows.
fn some_of(mut ids: Vec<(Bson, usize)>, wanted: usize) -> Vec<(Bson, usize)> {
    let runs = ids.len().div_ceil(wanted).max(1);
    let begin = (Uuid::new_v4().as_u128() % runs as u128) as usize * wanted;
    ids.drain(begin..ids.len().min(begin + wanted)).collect()
}

/// Which rows may be had now.
fn condition(request: &Claim, now: Timestamp) -> Document {
    let mut condition = doc! {
        "status": pending(),
        "slot": match request.from {
            ClaimFrom::Queue => Bson::from(i32::from(Lane::QUEUE.0)),
            ClaimFrom::Events => Bson::from(doc! { "$gte": -1 }),
        },
        "available_at": { "$lte": us(now) },
        "$or": unclaimed(now),
    };
    if !request.skip_recent.is_zero() {
        condition.insert("created_at", doc! { "$lte": us(earlier(now, request.skip_recent)) });
    }
    condition
}

/// The keys of rows that are free, in order, and their sizes.
async fn claimable(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(Bson, usize)>, Failure> {
    let sort = match request.from {
        ClaimFrom::Queue => doc! { "available_at": 1, "seq": 1 },
        ClaimFrom::Events => doc! { "seq": 1 },
    };
    let fields = Some(doc! { "_id": 1, SIZE: size() });
    let find = Find { filter: condition(request, now), sort: Some(sort), fields, limit };
    let found = call.find(&call.names().event, find).await?;
    Ok(found.iter().map(|document| (Fields::new(document).key(), size_of(document))).collect())
}

/// Takes those that are still free, and reads them back by the mark of this claim.
async fn take(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    ids: Vec<Bson>,
) -> Result<Vec<Row>, Failure> {
    let mark = ObjectId::new();
    let mut filter = condition(request, now);
    filter.insert("_id", doc! { "$in": ids.clone() });
    let lock = doc! {
        "locked_by": request.owner.as_str(),
        "locked_at": us(now),
        "locked_until": us(later(now, request.lease)),
        "mark": mark,
    };
    let change = doc! { "$set": lock, "$inc": { "lock_token": 1_i64, "attempts": 1 } };
    if call.update_all(&call.names().event, filter, change).await? == 0 {
        return Ok(Vec::new());
    }
    let find = Find {
        filter: doc! { "_id": { "$in": ids.clone() }, "mark": mark },
        fields: Some(doc! { "failures": 0 }),
        ..Find::default()
    };
    let taken = call.find(&call.names().event, find).await?;
    let mut rows: HashMap<String, Row> =
        taken.iter().map(|row| (key_text(row), read_within(row, Claimed::Yes, &request.bytes))).collect();
    Ok(ids.iter().filter_map(|id| rows.remove(&id.to_string())).collect())
}

/// Gives back what was claimed until too long ago; whoever claims one meanwhile keeps it.
pub(crate) async fn reap(call: &mut Call<'_>, request: &Reap) -> Result<u64, Failure> {
    let now = match request.now {
        Some(now) => cut(now),
        None => crate::number::head(call).await?.now,
    };
    let over = us(earlier(now, request.older_than));
    let stuck = doc! { "status": pending(), "locked_until": { "$lte": over } };
    set_some(call, stuck, request.rows, unlocked()).await
}

/// Sets fields of up to so many documents that match, and still do when their turn comes; how many.
pub(crate) async fn set_some(
    call: &mut Call<'_>,
    mut filter: Document,
    most: usize,
    fields: Document,
) -> Result<u64, Failure> {
    if most == 0 {
        return Ok(0);
    }
    let find = Find {
        filter: filter.clone(),
        fields: Some(doc! { "_id": 1 }),
        limit: most.min(MOST),
        ..Find::default()
    };
    let found = call.find(&call.names().event, find).await?;
    if found.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Bson> = found.iter().map(|document| Fields::new(document).key()).collect();
    filter.insert("_id", doc! { "$in": ids });
    call.update_all(&call.names().event, filter, doc! { "$set": fields }).await
}

fn key_text(document: &RawDocument) -> String {
    Fields::new(document).key().to_string()
}
