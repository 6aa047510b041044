//! Claiming rows under a lease.

use std::collections::HashMap;
use std::ops::Range;
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
use crate::error::DriverError;
use crate::locked::{self, Changed, Changes};
use crate::row::{Fields, SIZE, read_within, size, size_of};
use crate::sessions::{Holder, end_of_owners};
use crate::time::{cut, earlier, later, us};

/// The maximum number of rows in one claim: one command contains all of their ids.
const MOST: usize = 10_000;
/// Attempts of a claim that lost every row it found to other claimers.
const TRIES: usize = 8;
/// Under contention a claim looks this many times further, and continues to do so for `REMEMBERED` claims.
const CROWD: usize = 8;
const REMEMBERED: u32 = 16;
/// A claim that found only rows held by other transactions looks this many rows further, and doubles it with
/// each attempt.
const BEYOND_HELD: usize = 64;

pub(crate) async fn claim(call: &mut Call<'_>, request: &Claim) -> Result<Vec<Row>, DriverError> {
    let head = adopted(call).await?;
    let now = request.now.map_or(head.now, cut);
    let wanted = request.rows.min(MOST);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let mut has_met_held = false;
    for tried in 0..TRIES {
        let crowd = &call.outbox().crowd;
        let crowded = crowd.load(Ordering::Relaxed) > 0;
        let look = if crowded { wanted.saturating_mul(CROWD).min(MOST) } else { wanted };
        let look = if has_met_held { look.max(BEYOND_HELD << tried).min(MOST) } else { look };
        let mut free = claimable(call, request, now, look).await?;
        if crowded && !has_met_held {
            free = some_of(free, wanted);
        }
        let found = request.bytes.fitting(free.iter().map(|candidate| candidate.bytes));
        free.truncate(found);
        if found == 0 {
            return Ok(Vec::new());
        }
        let (claimed, held) = take(call, request, now, free).await?;
        has_met_held |= held;
        if claimed.len() < found.min(wanted) && !has_met_held {
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

/// A random run of at most `wanted` candidates. Claimers that all began with the oldest rows would compete
/// for the same ones.
fn some_of(mut ids: Vec<Candidate>, wanted: usize) -> Vec<Candidate> {
    let runs = ids.len().div_ceil(wanted).max(1);
    let begin = (Uuid::new_v4().as_u128() % runs as u128) as usize * wanted;
    ids.drain(begin..ids.len().min(begin + wanted)).collect()
}

/// The filter of claimable rows.
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

/// A claimable row.
struct Candidate {
    key: Bson,
    bytes: usize,
    /// Whether the lease of its last claim expired.
    lapsed: bool,
    /// The owner of that claim, unless the claim was reaped.
    owner: Option<OwnerId>,
}

/// Claimable rows, in claim order.
async fn claimable(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Candidate>, DriverError> {
    let sort = match request.from {
        ClaimFrom::Queue => doc! { "available_at": 1, "seq": 1 },
        ClaimFrom::Events => doc! { "seq": 1 },
    };
    let fields = Some(doc! { "_id": 1, "locked_at": 1, "locked_by": 1, SIZE: size() });
    let mut filter = condition(request, now);
    leave_out_held(call, &mut filter);
    let find = Find { filter, sort: Some(sort), fields, limit };
    let found = call.find(&call.names().event, find).await?;
    let candidate = |document: &RawDocumentBuf| {
        let mut fields = Fields::new(document);
        let (lapsed, owner) = (fields.has("locked_at"), owner(&mut fields));
        Candidate { key: fields.key(), bytes: size_of(document), lapsed, owner }
    };
    Ok(found.iter().map(candidate).collect())
}

/// Leaves out rows that other transactions were found to hold a moment ago.
fn leave_out_held(call: &Call<'_>, filter: &mut Document) {
    let held = call.outbox().held.left_out();
    if !held.is_empty() {
        filter.insert("_id", doc! { "$nin": held });
    }
}

/// Locks the candidates that are still free, and reads them back by the marks of this claim. Also returns
/// whether other transactions hold some of them.
async fn take(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    found: Vec<Candidate>,
) -> Result<(Vec<Row>, bool), DriverError> {
    let any_lapsed = found.iter().any(|candidate| candidate.lapsed);
    // A crashed worker may have left a settle open. Its transaction would block this claim, so its sessions
    // are killed first.
    let dead = found.iter().filter_map(|candidate| candidate.owner.clone());
    end_of_owners(call, dead.filter(|owner| *owner != request.owner).collect()).await?;
    let ids: Vec<Bson> = found.into_iter().map(|candidate| candidate.key).collect();
    let (mark, lapsed_mark) = (ObjectId::new(), ObjectId::new());
    let mut most = request.rows.min(MOST);
    let locked = lock(call, request, now, (&ids, most), (mark, Lapsed::No)).await?;
    let (mut taken, mut has_met_held) = (locked.count, locked.has_met_held);
    if any_lapsed {
        most = most.saturating_sub(taken.and_then(|taken| usize::try_from(taken).ok()).unwrap_or_default());
        let locked = lock(call, request, now, (&ids, most), (lapsed_mark, Lapsed::Yes)).await?;
        taken = taken.zip(locked.count).map(|(one, other)| one + other);
        has_met_held |= locked.has_met_held;
    }
    if taken == Some(0) {
        return Ok((Vec::new(), has_met_held));
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
    Ok((ids.iter().filter_map(|id| rows.remove(&id.to_string())).collect(), has_met_held))
}

/// Whether a lock applies to rows whose last claim expired.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lapsed {
    No,
    Yes,
}

/// Locks at most this many of the rows that are still free. An expired claim has already counted its attempt,
/// so it is not counted again.
async fn lock(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    (keys, most): (&[Bson], usize),
    (mark, lapsed): (ObjectId, Lapsed),
) -> Result<Changed, DriverError> {
    let mut filter = condition(request, now);
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
    let statements = of_these(keys, &filter, &change);
    let holder = Some(Holder::Owner(request.owner.clone()));
    locked::change(call, &Changes { keys, statements: &statements, most, holder }).await
}

/// Statements that change the documents at some places, if they match.
fn of_these<'a>(
    keys: &'a [Bson],
    filter: &'a Document,
    change: &'a Document,
) -> impl Fn(Range<usize>) -> Vec<Document> + Send + Sync + 'a {
    move |part| {
        let mut filter = filter.clone();
        filter.insert("_id", doc! { "$in": keys[part].to_vec() });
        vec![doc! { "q": filter, "u": change.clone(), "multi": true }]
    }
}

/// The owner of the row's last claim.
fn owner(fields: &mut Fields<'_>) -> Option<OwnerId> {
    fields.text("locked_by").and_then(|owner| OwnerId::new(owner).ok())
}

/// The topics with claimable messages. Finds them one by one and excludes each topic found, so no topic is
/// searched twice.
pub(crate) async fn due_topics(call: &mut Call<'_>, request: &DueTopics) -> Result<Vec<String>, DriverError> {
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

/// Releases claims whose lease expired more than `older_than` ago. A row that is claimed again in between
/// keeps its new claim.
pub(crate) async fn reap(call: &mut Call<'_>, request: &Reap) -> Result<u64, DriverError> {
    let now = match request.now {
        Some(now) => cut(now),
        None => crate::number::head(call).await?.now,
    };
    let over = us(earlier(now, request.older_than));
    let mut stuck = doc! { "status": pending(), "locked_until": { "$lte": over } };
    leave_out_held(call, &mut stuck);
    let fields = Some(doc! { "locked_by": 1 });
    let find = Find { filter: stuck.clone(), fields, limit: request.rows.min(MOST), ..Find::default() };
    let found = call.find(&call.names().event, find).await?;
    let owners = found.iter().filter_map(|document| owner(&mut Fields::new(document)));
    end_of_owners(call, owners.collect()).await?;
    set_some(call, stuck, request.rows, reaped()).await
}

/// Sets fields of at most `most` documents that match, and still match at the update. Returns how many
/// changed; if documents that others hold made it slow, how many were found.
pub(crate) async fn set_some(
    call: &mut Call<'_>,
    mut filter: Document,
    most: usize,
    fields: Document,
) -> Result<u64, DriverError> {
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
    let keys: Vec<Bson> = found.iter().map(|document| Fields::new(document).key()).collect();
    let change = doc! { "$set": fields };
    if call.in_transaction() {
        filter.insert("_id", doc! { "$in": keys });
        return call.update_all(&call.names().event, filter, change).await;
    }
    let statements = of_these(&keys, &filter, &change);
    let changes = Changes { keys: &keys, statements: &statements, most: keys.len(), holder: None };
    let changed = locked::change(call, &changes).await?;
    Ok(changed.count.unwrap_or(keys.len() as u64))
}

fn key_text(document: &RawDocument) -> String {
    Fields::new(document).key().to_string()
}
