//! Operators' changes to rows: replay, discard, cancel, purge.

use std::collections::HashSet;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use pillarbox::model::{EventId, Lane, Status, StepState};
use pillarbox::port::{Cancel, Discard, Purge, PurgeStatus, Replay, Select};

use crate::adopt::adopt;
use crate::allocator::GRACE;
use crate::call::{Call, Find, whole};
use crate::document::{code, pending, unclaimed};
use crate::error::DriverError;
use crate::groups::{free_behind, heads, revived};
use crate::inspect::selection;
use crate::kind::Kind;
use crate::number::{closed, draw, head};
use crate::outbox::Server;
use crate::row::Fields;
use crate::steps::{self, joined, open_steps};
use crate::time::{cut, earlier, later, us};

/// The id of the counter of audit entries.
pub(crate) const AUDIT: &str = "audit";
/// The maximum number of rows in one call: one command contains all of their keys.
const MOST: usize = 10_000;
/// The id of the document that names the process which purges.
const PURGE_TURN: &str = "purge";

/// A row selected by an operator.
struct Target {
    key: Bson,
    id: EventId,
    seq: i64,
    slot: i32,
    home: i32,
}

impl Target {
    fn read(document: &RawDocumentBuf) -> Self {
        let mut fields = Fields::new(document);
        Self {
            key: fields.key(),
            id: fields.id(),
            seq: fields.seq().0,
            slot: fields.slot(),
            home: fields.number("home").map_or(0, |home| home as i32),
        }
    }
}

pub(crate) async fn replay(call: &mut Call<'_>, request: &Replay) -> Result<u64, DriverError> {
    adopt(&mut call.beside()).await?;
    let now = head(call).await?.now;
    let now = request.now.map_or(now, cut);
    let dead = dead(call, &request.select, request.limit).await?;
    if dead.is_empty() {
        return Ok(0);
    }
    let ids: Vec<&str> = dead.iter().map(|row| row.id.as_str()).collect();
    let heads = heads(call, &ids).await?;
    let mark = ObjectId::new();
    let drawn = draw(call, dead.len() - heads.len().min(dead.len())).await?;
    let mut numbers = drawn.first..;
    let statement = |row: &Target| {
        let mut set = revived(now);
        set.insert("mark", mark);
        if !heads.contains(row.id.as_str()) {
            set.insert("seq", numbers.next());
            set.insert("slot", if row.slot == i32::from(Lane::QUEUE.0) { row.slot } else { row.home });
        }
        doc! { "q": { "_id": row.key.clone(), "seq": row.seq, "status": code(Status::Dead) }, "u": { "$set": set } }
    };
    let statements = dead.iter().map(statement).collect();
    let updated = call.update(&call.names().event, statements).await;
    let count = closed(call, &drawn, updated)?;
    let revived = marked(call, &dead, mark, count).await?;
    // Groups are freed after the rows change: if the process crashes in between, an operator can free the
    // group again.
    let freed: Vec<&str> = revived.iter().copied().filter(|id| heads.contains(*id)).collect();
    if !freed.is_empty() {
        free_behind(call, &freed).await?;
    }
    record(call, now, &request.by, "replay", &revived).await?;
    Ok(count)
}

pub(crate) async fn discard(call: &mut Call<'_>, request: &Discard) -> Result<u64, DriverError> {
    adopt(&mut call.beside()).await?;
    let now = head(call).await?.now;
    let now = request.now.map_or(now, cut);
    let dead = dead(call, &request.select, request.limit).await?;
    let gone = doc! { "status": code(Status::Dead) };
    let taken = take(call, &dead, gone, now).await?;
    free_behind(call, &taken).await?;
    record(call, now, &request.by, "discard", &taken).await?;
    Ok(taken.len() as u64)
}

/// Cancels pending rows. Also runs in a caller's own transaction.
pub(crate) async fn cancel(call: &mut Call<'_>, request: &Cancel) -> Result<Vec<EventId>, DriverError> {
    let now = head(call).await?.now;
    let now = request.now.map_or(now, cut);
    let ids: Vec<&str> = request.ids.iter().map(EventId::as_str).collect();
    let free = doc! { "status": pending(), "$or": unclaimed(now) };
    let mut filter = free.clone();
    filter.insert("_id", doc! { "$in": ids });
    let found = targets(call, filter, MOST).await?;
    let steps = joined(call, found.iter().map(|row| row.id.as_str()).collect()).await?;
    let taken = take(call, &found, free, now).await?;
    record(call, now, &request.by, "cancel", &taken).await?;
    let taken: Vec<EventId> = taken.into_iter().map(EventId::from_row).collect();
    let ended = taken.iter().filter(|id| steps.contains(id.as_str())).map(|id| (id, StepState::Failed));
    steps::ended(call, &ended.collect::<Vec<_>>(), now).await?;
    Ok(taken)
}

pub(crate) async fn purge(call: &mut Call<'_>, request: &Purge) -> Result<u64, DriverError> {
    let now = head(call).await?.now;
    let oldest = earlier(request.now.map_or(now, cut), request.older_than);
    let before = us(oldest);
    let has_joins = call.outbox().server == Server::Replicated;
    if has_joins && request.status == PurgeStatus::Done {
        steps::purge(call, oldest, request.limit.min(MOST)).await?;
    }
    let ended = |status| {
        let unstamped = doc! { "done_at": Bson::Null, "created_at": { "$lt": before } };
        let old = vec![Bson::from(doc! { "done_at": { "$lt": before } }), Bson::from(unstamped)];
        doc! { "status": code(status), "$or": old }
    };
    let old = match request.status {
        PurgeStatus::Done => ended(Status::Done),
        PurgeStatus::Dead => ended(Status::Dead),
        PurgeStatus::Any => doc! { "created_at": { "$lt": before } },
    };
    let mut from = old.clone();
    loop {
        let found = targets(call, from.clone(), request.limit.min(MOST)).await?;
        let Some(last) = found.last().map(|row| row.seq) else { return Ok(0) };
        let rows = free_to_go(call, found).await?;
        if !rows.is_empty() {
            let mut filter = old;
            filter.insert("_id", keys(&rows));
            return call.delete(&call.names().event, filter).await;
        }
        // Every row of this page must stay. Go on behind it, or the page would block all later rows forever.
        from.insert("seq", doc! { "$gt": last });
    }
}

/// Purges, unless another process is purging: then it deletes nothing. Items have no document for turns, so
/// their purges do not check.
pub(crate) async fn purge_in_turn<K: Kind>(call: &mut Call<'_>, request: &Purge) -> Result<u64, DriverError> {
    if !K::NUMBERED {
        return K::purge(call, request).await;
    }
    let Some(turn) = purge_turn(call).await? else { return Ok(0) };
    let purged = K::purge(call, request).await;
    let over = doc! { "q": { "_id": PURGE_TURN, "by": turn }, "u": { "$set": { "until": 0_i64 } } };
    if call.update(&call.names().meta, vec![over]).await.is_err() {
        tracing::debug!("could not end the turn of a purge; it expires");
    }
    purged
}

/// Takes the turn to purge, for as long as a call can last. `None` if another process has it.
async fn purge_turn(call: &mut Call<'_>) -> Result<Option<ObjectId>, DriverError> {
    let (now, turn) = (head(call).await?.now, ObjectId::new());
    let until = later(now, call.outbox().timeout + GRACE);
    let free = doc! { "_id": PURGE_TURN, "until": { "$lte": us(now) } };
    let mine = doc! { "$set": { "by": turn, "until": us(until) } };
    match call.update(&call.names().meta, vec![doc! { "q": free, "u": mine, "upsert": true }]).await {
        Ok(_) => Ok(Some(turn)),
        Err(failure) if failure.is_duplicate() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Filters out rows that a purge must keep: heads of blocked groups, because unblocking would silently skip a
/// missing head, and steps of pending joins.
async fn free_to_go(call: &mut Call<'_>, rows: Vec<Target>) -> Result<Vec<Target>, DriverError> {
    let ids: Vec<&str> = rows.iter().filter_map(|row| row.key.as_str()).collect();
    let mut kept = heads(call, &ids).await?;
    if call.outbox().server == Server::Replicated {
        kept.extend(open_steps(call, &ids).await?);
    }
    let waits = |row: &Target| row.key.as_str().is_some_and(|id| kept.contains(id));
    Ok(rows.into_iter().filter(|row| !waits(row)).collect())
}

/// The dead rows of a selection, in order; empty if the selection excludes them.
async fn dead(call: &mut Call<'_>, select: &Select, limit: usize) -> Result<Vec<Target>, DriverError> {
    match only_dead(select) {
        Some(select) => targets(call, selection(&select), limit.min(MOST)).await,
        None => Ok(Vec::new()),
    }
}

/// Narrows a selection to dead rows; `None` if it excludes them.
pub(crate) fn only_dead(select: &Select) -> Option<Select> {
    let includes_dead = select.statuses.is_empty() || select.statuses.contains(&Status::Dead);
    includes_dead.then(|| Select { statuses: vec![Status::Dead], ..select.clone() })
}

async fn targets(call: &mut Call<'_>, filter: Document, limit: usize) -> Result<Vec<Target>, DriverError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let fields = Some(doc! { "seq": 1, "slot": 1, "home": 1 });
    let find = Find { filter, sort: Some(doc! { "seq": 1 }), fields, limit };
    Ok(call.find(&call.names().event, find).await?.iter().map(Target::read).collect())
}

fn keys(rows: &[Target]) -> Document {
    doc! { "$in": rows.iter().map(|row| row.key.clone()).collect::<Vec<Bson>>() }
}

/// Deletes the rows that still meet the condition and returns their ids.
///
/// It first marks them as done. The mark shows which call took each row, and if the process crashes before
/// the delete, the rows that remain are never delivered.
async fn take<'a>(
    call: &mut Call<'_>,
    rows: &'a [Target],
    condition: Document,
    now: Timestamp,
) -> Result<Vec<&'a str>, DriverError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mark = ObjectId::new();
    let mut filter = condition;
    filter.insert("_id", keys(rows));
    let set = doc! { "status": code(Status::Done), "done_at": us(now), "mark": mark };
    let count = call.update_all(&call.names().event, filter, doc! { "$set": set }).await?;
    let taken = marked(call, rows, mark, count).await?;
    call.delete(&call.names().event, doc! { "_id": keys(rows), "mark": mark }).await?;
    Ok(taken)
}

/// The ids of the rows that carry the mark. If `count` equals the number of rows, all of them do.
async fn marked<'a>(
    call: &mut Call<'_>,
    rows: &'a [Target],
    mark: ObjectId,
    count: u64,
) -> Result<Vec<&'a str>, DriverError> {
    if count == rows.len() as u64 {
        return Ok(rows.iter().map(|row| row.id.as_str()).collect());
    }
    let find = Find {
        filter: doc! { "_id": keys(rows), "mark": mark },
        fields: Some(doc! { "_id": 1 }),
        ..Find::default()
    };
    let found = call.find(&call.names().event, find).await?;
    let found: HashSet<String> = found.iter().map(|row| Fields::new(row).key().to_string()).collect();
    let mine = rows.iter().filter(|row| found.contains(&row.key.to_string()));
    Ok(mine.map(|row| row.id.as_str()).collect())
}

/// Writes audit entries, one per target, in order.
///
/// Their numbers are drawn outside of the transaction: the server would keep the counter of an operator that
/// crashed in it locked for a minute. A transaction that rolls back leaves a gap.
pub(crate) async fn record(
    call: &mut Call<'_>,
    now: Timestamp,
    by: &str,
    action: &str,
    targets: &[&str],
) -> Result<(), DriverError> {
    if targets.is_empty() {
        return Ok(());
    }
    let count = i64::try_from(targets.len()).unwrap_or(i64::MAX);
    let change = doc! { "$inc": { "value": count } };
    let counted = call.beside().modify(&call.names().meta, doc! { "_id": AUDIT }, change).await?;
    let last = counted.and_then(|counter| whole(&counter, "value")).ok_or_else(DriverError::missing)?;
    let entry = |(number, target): (i64, &&str)| {
        doc! { "_id": number, "at": us(now), "actor": by, "action": action, "target": *target }
    };
    let entries = (last - count + 1..).zip(targets).map(entry).collect();
    call.insert(&call.names().audit, entries).await
}
