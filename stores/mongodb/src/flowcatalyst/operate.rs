//! Operators' changes to items: replay, discard, cancel, purge.
//!
//! Replay, discard and cancel send one command per item, whose answer tells which call changed the item.

use mongodb::bson::{Bson, doc};
use pillarbox::model::EventId;
use pillarbox::port::{Cancel, Discard, Purge, PurgeStatus, Replay, Select};

use super::inspect::selection;
use super::item::{COMPLETED, FAILED, PENDING, date, ended_before, now};
use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::groups::{free_behind, heads};
use crate::operate::{only_dead, record};
use crate::row::Fields;
use crate::time::earlier;

/// The maximum number of items in one call.
const MOST: usize = 10_000;

pub(super) async fn replay(call: &mut Call<'_>, request: &Replay) -> Result<u64, DriverError> {
    let now = now(call, request.now).await?;
    let mut revived = Vec::new();
    for id in dead(call, &request.select, request.limit).await? {
        if revive(call, &id).await? > 0 {
            revived.push(id);
        }
    }
    let ids: Vec<&str> = revived.iter().map(EventId::as_str).collect();
    free_behind(call, &ids).await?;
    record(call, now, &request.by, "replay", &ids).await?;
    Ok(ids.len() as u64)
}

pub(super) async fn discard(call: &mut Call<'_>, request: &Discard) -> Result<u64, DriverError> {
    let now = now(call, request.now).await?;
    let mut gone = Vec::new();
    for id in dead(call, &request.select, request.limit).await? {
        if call.delete(&call.names().event, doc! { "_id": id.as_str(), "status": FAILED }).await? > 0 {
            gone.push(id);
        }
    }
    let ids: Vec<&str> = gone.iter().map(EventId::as_str).collect();
    free_behind(call, &ids).await?;
    record(call, now, &request.by, "discard", &ids).await?;
    Ok(ids.len() as u64)
}

/// Cancels pending items. Also runs in a caller's own transaction.
pub(super) async fn cancel(call: &mut Call<'_>, request: &Cancel) -> Result<Vec<EventId>, DriverError> {
    let now = now(call, request.now).await?;
    let mut cancelled = Vec::new();
    for id in &request.ids {
        if call.delete(&call.names().event, doc! { "_id": id.as_str(), "status": PENDING }).await? > 0 {
            cancelled.push(id.clone());
        }
    }
    let ids: Vec<&str> = cancelled.iter().map(EventId::as_str).collect();
    record(call, now, &request.by, "cancel", &ids).await?;
    Ok(cancelled)
}

pub(super) async fn purge(call: &mut Call<'_>, request: &Purge) -> Result<u64, DriverError> {
    let before = earlier(now(call, request.now).await?, request.older_than);
    let old = match request.status {
        PurgeStatus::Done => doc! { "status": COMPLETED, "$or": ended_before(before) },
        PurgeStatus::Dead => doc! { "status": FAILED, "$or": ended_before(before) },
        PurgeStatus::Any => doc! { "createdAt": { "$lt": date(before) } },
    };
    if request.limit == 0 {
        return Ok(0);
    }
    let fields = Some(doc! { "_id": 1 });
    let mut find = Find { filter: old.clone(), fields, limit: request.limit.min(MOST), ..Find::default() };
    loop {
        let found = call.find(&call.names().event, find.clone()).await?;
        let keys: Vec<Bson> = found.iter().map(|row| Fields::new(row).key()).collect();
        let Some(last) = keys.last().cloned() else { return Ok(0) };
        let keys = match request.status {
            PurgeStatus::Done => keys,
            PurgeStatus::Dead | PurgeStatus::Any => free_to_go(call, keys).await?,
        };
        if !keys.is_empty() {
            let mut filter = old;
            filter.insert("_id", doc! { "$in": keys });
            return call.delete(&call.names().event, filter).await;
        }
        // Every item of this page must stay. Go on in the order of ids, or the page would block all others
        // forever; without an order, the first page may be any. `$not` also finds ids of other types.
        if find.sort.replace(doc! { "_id": 1 }).is_some() {
            find.filter.insert("_id", doc! { "$not": { "$lte": last } });
        }
    }
}

/// Filters out the heads of held groups, because unblocking would silently skip a missing head.
async fn free_to_go(call: &mut Call<'_>, keys: Vec<Bson>) -> Result<Vec<Bson>, DriverError> {
    let ids: Vec<&str> = keys.iter().filter_map(Bson::as_str).collect();
    let heads = heads(call, &ids).await?;
    Ok(keys.into_iter().filter(|key| !key.as_str().is_some_and(|id| heads.contains(id))).collect())
}

/// Makes one failed item pending again and returns how many changed. Its time stays, so that the next take
/// gets a later token.
pub(super) async fn revive(call: &mut Call<'_>, id: &EventId) -> Result<u64, DriverError> {
    let failed = doc! { "_id": id.as_str(), "status": FAILED };
    let fresh = doc! { "status": PENDING, "retryCount": 0, "errorMessage": Bson::Null };
    call.update(&call.names().event, vec![doc! { "q": failed, "u": { "$set": fresh } }]).await
}

/// The failed items of a selection, oldest first; empty if the selection excludes them.
async fn dead(call: &mut Call<'_>, select: &Select, limit: usize) -> Result<Vec<EventId>, DriverError> {
    let Some(select) = only_dead(select).filter(|_| limit > 0) else { return Ok(Vec::new()) };
    let find = Find {
        filter: selection(&select),
        sort: Some(doc! { "createdAt": 1, "_id": 1 }),
        fields: Some(doc! { "_id": 1 }),
        limit: limit.min(MOST),
    };
    let found = call.find(&call.names().event, find).await?;
    Ok(found.iter().map(|document| Fields::new(document).id()).collect())
}
