//! Claiming rows under a lease.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use pillarbox::model::{Lane, OwnerId, Row, WithClaim};
use pillarbox::port::{Claim, ClaimFrom, DueTopics, Reap};
use uuid::Uuid;

use crate::adopt::adopted;
use crate::call::{Call, Find};
use crate::document::{pending, reaped, unclaimed};
use crate::error::Failure;
use crate::row::{Fields, SIZE, read_within, size, size_of};
use crate::sessions::end_of_owners;
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
        let found = request.bytes.fitting(free.iter().map(|candidate| candidate.bytes));
        free.truncate(found);
        if found == 0 {
            return Ok(Vec::new());
        }
        let claimed = take(call, request, now, free).await?;
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
fn some_of(mut ids: Vec<Candidate>, wanted: usize) -> Vec<Candidate> {
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
    if request.from == ClaimFrom::Queue && !request.topics.is_empty() {
        condition.insert("event_type", doc! { "$in": request.topics.to_vec() });
    }
    if !request.skip_recent.is_zero() {
        condition.insert("created_at", doc! { "$lte": us(earlier(now, request.skip_recent)) });
    }
    condition
}

/// A row that is free.
struct Candidate {
    key: Bson,
    bytes: usize,
    /// Whether the last claim on it ran out.
    lapsed: bool,
    /// Who made that claim, unless it was reaped.
    owner: Option<OwnerId>,
}

/// The rows that are free, in order.
async fn claimable(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Candidate>, Failure> {
    let sort = match request.from {
        ClaimFrom::Queue => doc! { "available_at": 1, "seq": 1 },
        ClaimFrom::Events => doc! { "seq": 1 },
    };
    let fields = Some(doc! { "_id": 1, "locked_at": 1, "locked_by": 1, SIZE: size() });
    let find = Find { filter: condition(request, now), sort: Some(sort), fields, limit };
    let found = call.find(&call.names().event, find).await?;
    let candidate = |document: &RawDocumentBuf| {
        let mut fields = Fields::new(document);
        let (lapsed, owner) = (fields.has("locked_at"), owner(&mut fields));
        Candidate { key: fields.key(), bytes: size_of(document), lapsed, owner }
    };
    Ok(found.iter().map(candidate).collect())
}

/// Takes those that are still free, and reads them back by the marks of this claim.
async fn take(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    found: Vec<Candidate>,
) -> Result<Vec<Row>, Failure> {
    let any_lapsed = found.iter().any(|candidate| candidate.lapsed);
    // A worker that died in a settle would keep its rows from this claim, and the claim from all others.
    let dead = found.iter().filter_map(|candidate| candidate.owner.clone());
    end_of_owners(call, dead.filter(|owner| *owner != request.owner).collect()).await?;
    let ids: Vec<Bson> = found.into_iter().map(|candidate| candidate.key).collect();
    let (mark, lapsed_mark) = (ObjectId::new(), ObjectId::new());
    let mut taken = lock(call, request, now, &ids, (mark, Lapsed::No)).await?;
    if any_lapsed {
        taken += lock(call, request, now, &ids, (lapsed_mark, Lapsed::Yes)).await?;
    }
    if taken == 0 {
        return Ok(Vec::new());
    }
    let find = Find {
        filter: doc! { "_id": { "$in": ids.clone() }, "mark": { "$in": [mark, lapsed_mark] } },
        fields: Some(doc! { "failures": 0 }),
        ..Find::default()
    };
    let taken = call.find(&call.names().event, find).await?;
    let read = |document: &RawDocumentBuf| {
        let lapsed = Fields::new(document).is("mark", lapsed_mark);
        (key_text(document), Row { lapsed, ..read_within(document, WithClaim::Yes, &request.bytes) })
    };
    let mut rows: HashMap<String, Row> = taken.iter().map(read).collect();
    Ok(ids.iter().filter_map(|id| rows.remove(&id.to_string())).collect())
}

/// Whether rows are meant whose last claim ran out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lapsed {
    No,
    Yes,
}

/// Locks those of these rows that are still free; how many. An attempt that a claim that ran out has counted is not
/// counted again.
async fn lock(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    ids: &[Bson],
    (mark, lapsed): (ObjectId, Lapsed),
) -> Result<u64, Failure> {
    let mut filter = condition(request, now);
    filter.insert("_id", doc! { "$in": ids.to_vec() });
    let made = if lapsed == Lapsed::Yes {
        doc! { "$ne": Bson::Null }
    } else {
        doc! { "$eq": Bson::Null }
    };
    filter.insert("locked_at", made);
    let lock = doc! {
        "locked_by": request.owner.as_str(),
        "locked_at": us(now),
        "locked_until": us(later(now, request.lease)),
        "mark": mark,
    };
    let attempts = i32::from(lapsed == Lapsed::No);
    let change = doc! { "$set": lock, "$inc": { "lock_token": 1_i64, "attempts": attempts } };
    call.update_all(&call.names().event, filter, change).await
}

/// Who claimed a row last.
fn owner(fields: &mut Fields<'_>) -> Option<OwnerId> {
    fields.text("locked_by").and_then(|owner| OwnerId::new(owner).ok())
}

/// Which topics have messages that could be claimed, one after the other: none is looked for twice.
pub(crate) async fn due_topics(call: &mut Call<'_>, request: &DueTopics) -> Result<Vec<String>, Failure> {
    let now = match request.now {
        Some(now) => cut(now),
        None => crate::number::head(call).await?.now,
    };
    let mut known: Vec<String> = request.except.to_vec();
    while known.len() - request.except.len() < request.limit {
        let filter = doc! {
            "status": pending(),
            "slot": i32::from(Lane::QUEUE.0),
            "event_type": { "$nin": known.clone() },
            "available_at": { "$lte": us(now) },
            "$or": unclaimed(now),
        };
        let fields = Some(doc! { "event_type": 1 });
        let find = Find { filter, sort: Some(doc! { "event_type": 1 }), fields, limit: 1 };
        let found = call.first(&call.names().event, find).await?;
        let Some(topic) = found.and_then(|row| Fields::new(&row).text("event_type").map(str::to_owned))
        else {
            break;
        };
        known.push(topic);
    }
    Ok(known.split_off(request.except.len()))
}

/// Gives back what was claimed until too long ago; whoever claims one meanwhile keeps it.
pub(crate) async fn reap(call: &mut Call<'_>, request: &Reap) -> Result<u64, Failure> {
    let now = match request.now {
        Some(now) => cut(now),
        None => crate::number::head(call).await?.now,
    };
    let over = us(earlier(now, request.older_than));
    let stuck = doc! { "status": pending(), "locked_until": { "$lte": over } };
    let fields = Some(doc! { "locked_by": 1 });
    let find = Find { filter: stuck.clone(), fields, limit: request.rows.min(MOST), ..Find::default() };
    let found = call.find(&call.names().event, find).await?;
    let owners = found.iter().filter_map(|document| owner(&mut Fields::new(document)));
    end_of_owners(call, owners.collect()).await?;
    set_some(call, stuck, request.rows, reaped()).await
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
