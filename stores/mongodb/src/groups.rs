//! Held groups: listing, blocking, pausing and freeing them.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocument, doc};
use pillarbox::model::{EventId, GroupKey, Status, held_reason};
use pillarbox::port::{GroupAction, GroupChange, GroupState, GroupStates, HeldGroup, HeldGroups};
use pillarbox::rules::{Head, held_after};

use crate::call::{Call, Find, whole};
use crate::document::{code, unlocked};
use crate::error::DriverError;
use crate::kind::Kind;
use crate::number::head;
use crate::operate::record;
use crate::row::Fields;
use crate::time::{cut, us};

/// The id of the epoch document. The epoch grows with every change of held groups.
///
/// A transaction does not write this document: the server would keep it locked for a minute if the process
/// crashed. It inserts a document of its own instead, whose id begins with this one. The epoch is the sum of
/// all of them.
pub(crate) const EPOCH: &str = "groups_epoch";
/// Greater than the ids of all documents that the epoch is the sum of.
const BEYOND_EPOCH: &str = "groups_epoch!";
/// This many documents of transactions are added to the epoch document and deleted.
const FOLDED: usize = 100;
/// The maximum number of such documents in one fold.
const FOLDED_AT_ONCE: usize = 1_000;

/// Reads one page of held groups, ordered by key.
pub(crate) async fn held_groups(
    call: &mut Call<'_>,
    page: &HeldGroups,
) -> Result<Vec<HeldGroup>, DriverError> {
    if page.limit == 0 {
        return Ok(Vec::new());
    }
    let after = page.after.as_ref().map(|after| doc! { "_id": { "$gt": after.as_str() } });
    let sort = Some(doc! { "_id": 1 });
    let find = Find { filter: after.unwrap_or_default(), sort, limit: page.limit, ..Find::default() };
    let found = call.find(&call.names().group, find).await?;
    Ok(found.iter().map(|document| held_group(document)).collect())
}

/// The held groups among `groups`, ordered by key.
pub(crate) async fn held_of(call: &mut Call<'_>, groups: &[&str]) -> Result<Vec<HeldGroup>, DriverError> {
    let filter = doc! { "_id": { "$in": groups } };
    let find = Find { filter, sort: Some(doc! { "_id": 1 }), ..Find::default() };
    let found = call.find(&call.names().group, find).await?;
    Ok(found.iter().map(|document| held_group(document)).collect())
}

fn held_group(document: &RawDocument) -> HeldGroup {
    let mut fields = Fields::new(document);
    HeldGroup {
        group: GroupKey::new(fields.text("_id").unwrap_or_default()),
        state: GroupState::from_stored(fields.text("state").unwrap_or_default()),
        event: fields.text("event_id").map(EventId::from_row),
        reason: fields.text("reason").map(str::to_owned),
        by: fields.text("held_by").unwrap_or_default().to_owned(),
        since: fields.time("since").unwrap_or_default(),
    }
}

/// The held groups with their epoch. The epoch was read before the groups, so a change in between is read
/// again at the next heartbeat.
pub(crate) async fn group_states(call: &mut Call<'_>, epoch: i64) -> Result<GroupStates, DriverError> {
    Ok(GroupStates { epoch, held: held_groups(call, &HeldGroups::first()).await? })
}

pub(crate) async fn grow_epoch(call: &mut Call<'_>, by: i64) -> Result<(), DriverError> {
    if by == 0 {
        return Ok(());
    }
    if call.in_transaction() {
        let own = doc! { "_id": format!("{EPOCH} {}", ObjectId::new()), "value": by };
        return call.insert(&call.names().meta, vec![own]).await;
    }
    let statement = doc! { "q": { "_id": EPOCH }, "u": { "$inc": { "value": by } } };
    call.update(&call.names().meta, vec![statement]).await.map(drop)
}

/// The ids of the documents that the epoch is the sum of.
///
/// They must be read in the order of their ids: the epoch document first. A concurrent fold then makes the
/// sum too small for a moment, never too large. A node that took too large a sum for the epoch would miss the
/// changes until the epoch has grown to it.
pub(crate) fn epoch_ids() -> Document {
    doc! { "$gte": EPOCH, "$lt": BEYOND_EPOCH }
}

/// The epoch of held groups, from the documents of a read.
#[derive(Clone, Copy)]
pub(crate) struct Epoch {
    pub(crate) value: i64,
    /// Whether enough documents of transactions are there for a fold.
    pub(crate) is_scattered: bool,
}

impl Epoch {
    /// `None` if the epoch document is missing.
    pub(crate) fn read(documents: &[Document]) -> Option<Self> {
        let id = |document: &&Document| document.get_str("_id").unwrap_or_default().to_owned();
        let parts = || documents.iter().filter(|document| id(document).starts_with(EPOCH));
        parts().find(|document| id(document) == EPOCH)?;
        let value = parts().filter_map(|document| whole(document, "value")).sum();
        Some(Self { value, is_scattered: parts().count() > FOLDED })
    }
}

/// What a fold has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    All,
    SomeLeft,
}

/// Whether this process is folding the epoch, and whether it has reported that it may not.
#[derive(Default)]
pub(crate) struct FoldState {
    pub(crate) is_running: AtomicBool,
    pub(crate) is_told: AtomicBool,
}

/// Adds the documents of transactions to the epoch document and deletes them, a bounded number at a time.
///
/// A transaction, so that the sum does not change. If the process crashes in it, only the next fold waits.
pub(crate) async fn fold_epoch(call: &mut Call<'_>) -> Result<Folded, DriverError> {
    let scattered = doc! { "$gt": EPOCH, "$lt": BEYOND_EPOCH };
    let find = Find { filter: doc! { "_id": scattered }, limit: FOLDED_AT_ONCE, ..Find::default() };
    let found = call.find(&call.names().meta, find).await?;
    let sum: i64 = found.iter().filter_map(|part| Fields::new(part).number("value")).sum();
    let ids: Vec<Bson> = found.iter().map(|part| Fields::new(part).key()).collect();
    let statement = doc! { "q": { "_id": EPOCH }, "u": { "$inc": { "value": sum } } };
    call.update(&call.names().meta, vec![statement]).await?;
    call.delete(&call.names().meta, doc! { "_id": { "$in": ids } }).await?;
    Ok(if found.len() < FOLDED_AT_ONCE { Folded::All } else { Folded::SomeLeft })
}

/// Blocks a group behind its dead event. A paused group stays paused and becomes blocked when it is resumed.
/// Returns by how much the epoch must grow.
pub(crate) async fn block(
    call: &mut Call<'_>,
    group: &GroupKey,
    event: &EventId,
    error: &str,
    now: Timestamp,
) -> Result<i64, DriverError> {
    let key = group.as_str();
    let fresh = doc! {
        "state": GroupState::Blocked.as_str(),
        "event_id": event.as_str(),
        "reason": held_reason(error),
        "held_by": "engine",
        "since": us(now),
    };
    // The held group may be freed between the two statements. Then the next event of the group that goes dead
    // blocks it.
    let changed = call
        .update(
            &call.names().group,
            vec![doc! { "q": { "_id": key, "event_id": Bson::Null }, "u": { "$set": { "event_id": event.as_str() } } }],
        )
        .await?;
    if changed == 0 {
        let mut held = fresh;
        held.insert("_id", key);
        match call.find(&call.names().group, Find { filter: doc! { "_id": key }, ..Find::default() }).await? {
            found if !found.is_empty() => return Ok(0),
            _ => match call.insert(&call.names().group, vec![held]).await {
                Err(failure) if failure.is_duplicate() && !call.in_transaction() => return Ok(0),
                inserted => inserted?,
            },
        }
    }
    Ok(1)
}

/// The events among `events` that have a group blocked behind them.
pub(crate) async fn heads(call: &mut Call<'_>, events: &[&str]) -> Result<HashSet<String>, DriverError> {
    let find = Find { filter: doc! { "event_id": { "$in": events } }, ..Find::default() };
    let found = call.find(&call.names().group, find).await?;
    Ok(found.iter().filter_map(|group| held_group(group).event).map(|event| event.to_string()).collect())
}

/// Frees the groups blocked behind these events. Paused groups stay paused, without the event.
pub(crate) async fn free_behind(call: &mut Call<'_>, events: &[&str]) -> Result<(), DriverError> {
    let find = Find { filter: doc! { "event_id": { "$in": events } }, ..Find::default() };
    let found = call.find(&call.names().group, find).await?;
    let mut count = 0;
    for group in &found {
        let held = held_group(group);
        let Some(event) = held.event else { continue };
        let this =
            doc! { "_id": held.group.as_str(), "event_id": event.as_str(), "state": held.state.as_str() };
        let freed = match held.state {
            GroupState::Blocked => call.delete(&call.names().group, this).await?,
            GroupState::Paused => {
                let change = doc! { "$set": { "event_id": Bson::Null } };
                call.update_all(&call.names().group, this, change).await?
            }
        };
        count += i64::from(freed > 0);
    }
    grow_epoch(call, count).await
}

pub(crate) async fn change_group<K: Kind>(
    call: &mut Call<'_>,
    request: &GroupChange,
) -> Result<bool, DriverError> {
    let now = head(call).await?.now;
    let now = request.now.map_or(now, cut);
    let mut tried = 0;
    loop {
        if let Some(changed) = try_change::<K>(call, request, now).await? {
            return Ok(changed);
        }
        if !call.retry(tried).await {
            return Err(DriverError::lost());
        }
        tried += 1;
    }
}

/// Tries a change once. Returns `None` if another process changed the group in between.
async fn try_change<K: Kind>(
    call: &mut Call<'_>,
    request: &GroupChange,
    now: Timestamp,
) -> Result<Option<bool>, DriverError> {
    let key = request.group.as_str();
    let find = Find { filter: doc! { "_id": key }, ..Find::default() };
    let held = call.first(&call.names().group, find).await?.map(|document| held_group(&document));
    let state = held.as_ref().map(|held| held.state);
    let event = held.as_ref().and_then(|held| held.event.clone());
    let dead = if event.is_some() { Head::Dead } else { Head::Sound };
    let Some(next) = held_after(state, dead, request.action) else { return Ok(Some(false)) };
    if let (GroupAction::Unblock, Some(event)) = (request.action, &event) {
        K::revive(call, event, now).await?;
    }
    let event = event.as_ref().map(EventId::as_str);
    if !replace(call, request, state, next, event, now).await? {
        return Ok(None);
    }
    grow_epoch(call, 1).await?;
    record(call, now, &request.by, request.action.as_str(), &[key]).await?;
    Ok(Some(true))
}

/// Compare-and-swap: replaces the state of a group. Returns false if it has changed since the read.
async fn replace(
    call: &mut Call<'_>,
    request: &GroupChange,
    state: Option<GroupState>,
    next: Option<GroupState>,
    event: Option<&str>,
    now: Timestamp,
) -> Result<bool, DriverError> {
    let key = request.group.as_str();
    let held = |state: GroupState| {
        doc! {
            "state": state.as_str(),
            "event_id": event,
            "reason": request.reason.as_deref(),
            "held_by": request.by.as_str(),
            "since": us(now),
        }
    };
    let Some(state) = state else {
        let Some(next) = next else { return Ok(false) };
        let mut document = held(next);
        document.insert("_id", key);
        return match call.insert(&call.names().group, vec![document]).await {
            Err(failure) if failure.is_duplicate() && !call.in_transaction() => Ok(false),
            inserted => inserted.map(|()| true),
        };
    };
    let this = doc! { "_id": key, "state": state.as_str(), "event_id": event };
    let changed = match next {
        Some(next) => call.update_all(&call.names().group, this, doc! { "$set": held(next) }).await?,
        None => call.delete(&call.names().group, this).await?,
    };
    Ok(changed > 0)
}

/// Makes one dead event new again in its place in the order. Returns how many rows changed.
pub(crate) async fn revive(call: &mut Call<'_>, event: &EventId, now: Timestamp) -> Result<u64, DriverError> {
    let dead = doc! { "_id": event.as_str(), "status": code(Status::Dead) };
    call.update_all(&call.names().event, dead, doc! { "$set": revived(now) }).await
}

/// The fields that make a dead row new. Number, slot, token and history do not change.
pub(crate) fn revived(now: Timestamp) -> Document {
    let mut set = unlocked();
    set.extend(doc! {
        "status": code(Status::New),
        "attempts": 0,
        "available_at": us(now),
        "done_at": Bson::Null,
        "last_error": Bson::Null,
        "processed_by": Bson::Null,
    });
    set
}
