//! Read-only views for operators: pages, one event, counts, statistics.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{EventId, GLOBAL, Record, Status};
use pillarbox::port::{AuditEntry, Contents, GroupState, List, NodeInfo, Select, Shown, Stats, TypeCount};

use crate::adopt::adopt;
use crate::call::{Call, Find, whole};
use crate::document::{code, pending};
use crate::error::DriverError;
use crate::members::infos;
use crate::membership::members;
use crate::number::head;
use crate::row::{Fields, read_attempts, read_record};
use crate::time::{earlier, from_us, until, us};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A selection as a filter.
pub(crate) fn selection(select: &Select) -> Document {
    let mut filter = Document::new();
    if !select.ids.is_empty() {
        let ids: Vec<&str> = select.ids.iter().map(EventId::as_str).collect();
        filter.insert("_id", doc! { "$in": ids });
    }
    if !select.statuses.is_empty() {
        let codes: Vec<i32> = select.statuses.iter().map(|status| code(*status)).collect();
        filter.insert("status", doc! { "$in": codes });
    }
    if let Some(name) = &select.event_type {
        filter.insert("event_type", name.as_str());
    }
    match select.aggregate_type.as_deref() {
        // A row without an aggregate type belongs to the global one.
        Some(GLOBAL) => filter.insert("aggregate_type", doc! { "$in": [GLOBAL, Bson::Null] }),
        Some(name) => filter.insert("aggregate_type", name),
        None => None,
    };
    if let Some(group) = &select.group {
        filter.insert("group_key", group.as_str());
    }
    if let Some(before) = select.ended_before {
        filter.insert("done_at", doc! { "$lt": us(before) });
    }
    filter
}

pub(crate) async fn list(call: &mut Call<'_>, request: &List) -> Result<Vec<Record>, DriverError> {
    adopt(call).await?;
    head(call).await?;
    if request.limit == 0 {
        return Ok(Vec::new());
    }
    let (beyond, direction) = request.order.either(("$gt", 1), ("$lt", -1));
    let mut filter = selection(&request.select);
    if let Some(after) = request.after {
        filter.insert("seq", doc! { beyond: after.0 });
    }
    let find = Find {
        filter,
        sort: Some(doc! { "seq": direction }),
        fields: Some(match request.contents {
            Contents::Whole => doc! { "failures": 0 },
            Contents::LeftOut => doc! { "failures": 0, "headers": 0, "payload": 0, "payload_bytes": 0 },
        }),
        limit: request.limit,
    };
    Ok(call.find(&call.names().event, find).await?.iter().map(|row| read_record(row)).collect())
}

pub(crate) async fn show(call: &mut Call<'_>, id: &EventId) -> Result<Option<Shown>, DriverError> {
    let find = || Find { filter: doc! { "_id": id.as_str() }, ..Find::default() };
    let mut found = call.first(&call.names().event, find()).await?;
    match &found {
        None => {
            head(call).await?;
        }
        Some(row) if Fields::new(row).number("seq").is_none() => {
            adopt(call).await?;
            found = call.first(&call.names().event, find()).await?;
        }
        Some(_) => {}
    }
    Ok(found.map(|row| Shown { record: read_record(&row), attempts: read_attempts(&row) }))
}

pub(crate) async fn count(call: &mut Call<'_>, select: &Select) -> Result<u64, DriverError> {
    head(call).await?;
    matching(call, selection(select)).await
}

/// Counts the rows that match a filter.
pub(crate) async fn matching(call: &mut Call<'_>, condition: Document) -> Result<u64, DriverError> {
    let pipeline = vec![doc! { "$match": condition }, doc! { "$count": "n" }];
    let found = call.aggregate(&call.names().event, pipeline).await?;
    Ok(found.first().map_or(0, |found| number(found, "n")))
}

pub(crate) async fn stats(call: &mut Call<'_>) -> Result<Stats, DriverError> {
    let mut stats = Stats::default();
    let now = head(call).await?.now;
    let minute_ago = us(earlier(now, MINUTE));
    let is = |field: &str, value: i32| doc! { "$eq": [format!("${field}"), value] };
    let count = |condition: Document| doc! { "$sum": { "$cond": [condition, 1, 0] } };
    let message = |status: Status| doc! { "$and": [is("slot", -2), is("status", code(status))] };
    let due = doc! { "$cond": [{ "$lte": ["$available_at", us(now)] }, "$created_at", Bson::Null] };
    let waiting = doc! {
        "_id": Bson::Null,
        "new": count(is("status", code(Status::New))),
        "retry": count(is("status", code(Status::Retry))),
        "delayed": count(is("slot", -1)),
        "queue_new": count(message(Status::New)),
        "queue_retry": count(message(Status::Retry)),
        "oldest": { "$min": due },
    };
    if let Some(found) = group(call, doc! { "status": pending() }, waiting).await? {
        (stats.queue.new, stats.queue.retry) = (number(&found, "queue_new"), number(&found, "queue_retry"));
        stats.events.new = number(&found, "new") - stats.queue.new;
        stats.events.retry = number(&found, "retry") - stats.queue.retry;
        stats.delayed = number(&found, "delayed");
        stats.oldest = whole(&found, "oldest").map(|written| until(from_us(written), now));
    }
    let done = doc! {
        "_id": Bson::Null,
        "n": { "$sum": 1 },
        "queue": count(is("slot", -2)),
        "last": count(doc! { "$gt": ["$done_at", minute_ago] }),
    };
    if let Some(found) = group(call, doc! { "status": code(Status::Done) }, done).await? {
        stats.queue.done = number(&found, "queue");
        stats.events.done = number(&found, "n") - stats.queue.done;
        stats.done_last_minute = number(&found, "last");
    }
    let written = doc! { "_id": Bson::Null, "n": { "$sum": 1 } };
    if let Some(found) = group(call, doc! { "created_at": { "$gt": minute_ago } }, written).await? {
        stats.written_last_minute = number(&found, "n");
    }
    dead(call, &mut stats, doc! { "status": code(Status::Dead) }, "$event_type").await?;
    beside(call, &mut stats).await?;
    Ok(stats)
}

async fn group(
    call: &mut Call<'_>,
    filter: Document,
    group: Document,
) -> Result<Option<Document>, DriverError> {
    let pipeline = vec![doc! { "$match": filter }, doc! { "$group": group }];
    Ok(call.aggregate(&call.names().event, pipeline).await?.pop())
}

/// Adds the counts of dead rows, which match this filter, grouped by the field of their type.
pub(crate) async fn dead(
    call: &mut Call<'_>,
    stats: &mut Stats,
    condition: Document,
    event_type: &str,
) -> Result<(), DriverError> {
    let message = doc! { "$cond": [{ "$eq": ["$slot", -2] }, 1, 0] };
    let by_type = doc! { "_id": event_type, "n": { "$sum": 1 }, "queue": { "$sum": message } };
    let pipeline = vec![doc! { "$match": condition }, doc! { "$group": by_type }];
    let found = call.aggregate(&call.names().event, pipeline).await?;
    let one = |found: &Document| TypeCount {
        event_type: found.get_str("_id").unwrap_or_default().to_owned(),
        count: number(found, "n"),
    };
    stats.dead_by_type = found.iter().map(one).collect();
    stats.dead_by_type.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.event_type.cmp(&b.event_type)));
    stats.queue.dead = found.iter().map(|one| number(one, "queue")).sum();
    stats.events.dead = stats.dead_by_type.iter().map(|one| one.count).sum::<u64>() - stats.queue.dead;
    Ok(())
}

pub(crate) async fn beside(call: &mut Call<'_>, stats: &mut Stats) -> Result<(), DriverError> {
    let (members, now) = members(call).await?;
    stats.free_slots = members.slots().iter().filter(|record| record.state.holder.is_none()).count() as u64;
    stats.nodes = infos(&members, now).iter().filter(|info| info.expires_in.is_some()).count() as u64;
    let pipeline = vec![doc! { "$group": { "_id": "$state", "n": { "$sum": 1 } } }];
    for found in call.aggregate(&call.names().group, pipeline).await? {
        match GroupState::from_stored(found.get_str("_id").unwrap_or_default()) {
            GroupState::Blocked => stats.blocked_groups += number(&found, "n"),
            GroupState::Paused => stats.paused_groups += number(&found, "n"),
        }
    }
    Ok(())
}

pub(crate) async fn nodes(call: &mut Call<'_>) -> Result<Vec<NodeInfo>, DriverError> {
    let (members, now) = members(call).await?;
    Ok(infos(&members, now))
}

pub(crate) async fn audits(call: &mut Call<'_>, limit: usize) -> Result<Vec<AuditEntry>, DriverError> {
    head(call).await?;
    if limit == 0 {
        return Ok(Vec::new());
    }
    let find = Find { sort: Some(doc! { "_id": -1 }), limit, ..Find::default() };
    let found = call.find(&call.names().audit, find).await?;
    let entry = |document| {
        let mut fields = Fields::new(document);
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        AuditEntry {
            at: fields.time("at").unwrap_or_default(),
            by: text(fields.text("actor")),
            action: text(fields.text("action")),
            target: text(fields.text("target")),
        }
    };
    Ok(found.iter().map(|document| entry(document)).collect())
}

pub(crate) fn number(document: &Document, field: &str) -> u64 {
    whole(document, field).unwrap_or_default().unsigned_abs()
}
