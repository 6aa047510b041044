//! Read-only views for operators: pages, one item, counts, statistics.

use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{EventId, GLOBAL, Record, Status};
use pillarbox::port::{Contents, List, Select, Shown, Stats};

use super::item::{COMPLETED, FAILED, PENDING, PROCESSING, date, now, read_item};
use super::migrate::has_beside;
use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::inspect::{MINUTE, beside, dead, matching, number};
use crate::time::{earlier, from_date, until};

/// A selection as a filter. Items with an unknown status match only a selection without statuses.
pub(super) fn selection(select: &Select) -> Document {
    let mut all: Vec<Bson> = Vec::new();
    if !select.ids.is_empty() {
        let ids: Vec<&str> = select.ids.iter().map(EventId::as_str).collect();
        all.push(Bson::from(doc! { "_id": { "$in": ids } }));
    }
    if !select.statuses.is_empty() {
        let open = doc! { "$in": [PENDING, PROCESSING] };
        let of = |status: &Status| {
            Bson::from(match status {
                Status::New => doc! { "status": open.clone(), "retryCount": { "$not": { "$gt": 0 } } },
                Status::Retry => doc! { "status": open.clone(), "retryCount": { "$gt": 0 } },
                Status::Done => doc! { "status": COMPLETED },
                Status::Dead => doc! { "status": FAILED },
            })
        };
        all.push(Bson::from(doc! { "$or": select.statuses.iter().map(of).collect::<Vec<_>>() }));
    }
    if let Some(name) = &select.event_type {
        all.push(Bson::from(doc! { "type": name.as_str() }));
    }
    if select.aggregate_type.as_deref().is_some_and(|name| name != GLOBAL) {
        all.push(Bson::from(doc! { "_id": { "$in": [] } }));
    }
    if let Some(group) = &select.group {
        all.push(Bson::from(doc! { "messageGroup": group.as_str() }));
    }
    if let Some(before) = select.ended_before {
        let ended = doc! { "$in": [COMPLETED, FAILED] };
        all.push(Bson::from(doc! { "status": ended, "processedAt": { "$lt": date(before) } }));
    }
    if all.is_empty() {
        Document::new()
    } else {
        doc! { "$and": all }
    }
}

pub(super) async fn list(call: &mut Call<'_>, request: &List) -> Result<Vec<Record>, DriverError> {
    if request.limit == 0 {
        return Ok(Vec::new());
    }
    let (beyond, direction) = request.order.either(("$gt", 1), ("$lt", -1));
    let mut filter = selection(&request.select);
    if let Some(after) = &request.after_id {
        filter.insert("_id", doc! { beyond: after.as_str() });
    }
    let fields = (request.contents == Contents::LeftOut).then(|| doc! { "payload": 0 });
    let find = Find { filter, sort: Some(doc! { "_id": direction }), limit: request.limit, fields };
    let found = call.find(&call.names().event, find).await?;
    Ok(found.iter().map(|document| read_item(document).into_record()).collect())
}

pub(super) async fn show(call: &mut Call<'_>, id: &EventId) -> Result<Option<Shown>, DriverError> {
    let find = Find { filter: doc! { "_id": id.as_str() }, ..Find::default() };
    let found = call.first(&call.names().event, find).await?;
    Ok(found.map(|document| Shown { record: read_item(&document).into_record(), attempts: Vec::new() }))
}

pub(super) async fn count(call: &mut Call<'_>, select: &Select) -> Result<u64, DriverError> {
    matching(call, selection(select)).await
}

pub(super) async fn stats(call: &mut Call<'_>) -> Result<Stats, DriverError> {
    let mut stats = Stats::default();
    let now = now(call, None).await?;
    let minute_ago = date(earlier(now, MINUTE));
    let retried = doc! { "$cond": [{ "$gt": ["$retryCount", 0] }, 1, 0] };
    let waits = doc! { "$cond": [{ "$eq": ["$status", PENDING] }, "$createdAt", Bson::Null] };
    let open = vec![
        doc! { "$match": { "status": { "$in": [PENDING, PROCESSING] } } },
        doc! { "$group": { "_id": Bson::Null, "n": { "$sum": 1 }, "retry": { "$sum": retried }, "oldest": { "$min": waits } } },
    ];
    if let Some(found) = call.aggregate(&call.names().event, open).await?.pop() {
        stats.events.retry = number(&found, "retry");
        stats.events.new = number(&found, "n") - stats.events.retry;
        stats.oldest = found.get_datetime("oldest").ok().map(|written| until(from_date(*written), now));
    }
    let done_since = doc! { "status": COMPLETED, "processedAt": { "$gt": minute_ago } };
    stats.events.done = matching(call, doc! { "status": COMPLETED }).await?;
    stats.done_last_minute = matching(call, done_since).await?;
    stats.written_last_minute = matching(call, doc! { "createdAt": { "$gt": minute_ago } }).await?;
    dead(call, &mut stats, doc! { "status": FAILED }, "$type").await?;
    // A collection of items may exist without the store's own collections.
    if has_beside(call).await? {
        beside(call, &mut stats).await?;
    }
    Ok(stats)
}
