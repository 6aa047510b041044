//! Counting ended messages in their joins, and ending joins.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{Counted, EventId, JoinRecord, JoinStatus, NewRow, StepState};

use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::insert;
use crate::join_record::{self, fields, in_state, read_member};
use crate::row::Fields;
use crate::time::us;

/// The messages among `ids` that are or were attached to a join.
pub(crate) async fn joined(call: &mut Call<'_>, ids: Vec<&str>) -> Result<HashSet<String>, DriverError> {
    // Joins exist only where the server has transactions.
    if ids.is_empty() || !call.in_transaction() {
        return Ok(HashSet::new());
    }
    let filter = doc! { "_id": { "$in": ids }, "joined": true };
    let find = Find { filter, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    let found = call.find(&call.names().event, find).await?;
    Ok(found.iter().map(|row| Fields::new(row).id().to_string()).collect())
}

/// Counts each ended message in the joins where it is a pending member, then ends those joins in the order of
/// their ids.
pub(crate) async fn ended(
    call: &mut Call<'_>,
    messages: &[(&EventId, StepState)],
    now: Timestamp,
) -> Result<(), DriverError> {
    if messages.is_empty() {
        return Ok(());
    }
    let states: HashMap<&str, StepState> = messages.iter().map(|(id, state)| (id.as_str(), *state)).collect();
    let ids: Vec<&str> = states.keys().copied().collect();
    let filter = doc! { "message": { "$in": ids }, "state": in_state(StepState::Pending) };
    let found = call.find(&call.names().member, Find { filter, ..Find::default() }).await?;
    let mut counts: BTreeMap<String, Counted> = BTreeMap::new();
    let mut changes: Vec<Document> = Vec::new();
    for member in &found {
        let message = read_member(member)?.message;
        let (Some(state), Some(join)) =
            (states.get(message.as_str()), Fields::new(member).text("join").map(str::to_owned))
        else {
            continue;
        };
        let own = doc! { "_id": { "join": &join, "message": message.as_str() } };
        changes.push(doc! { "q": own, "u": { "$set": { "state": in_state(*state) } } });
        counts.entry(join).or_default().add(*state);
    }
    if changes.is_empty() {
        return Ok(());
    }
    call.update(&call.names().member, changes).await?;
    let ids: Vec<&str> = counts.keys().map(String::as_str).collect();
    let find =
        Find { filter: doc! { "_id": { "$in": ids } }, sort: Some(doc! { "_id": 1 }), ..Find::default() };
    let mut joins = join_record::find(call, find).await?;
    for join in &mut joins {
        join.count(counts[join.id.as_str()]);
    }
    finish(call, joins, now).await
}

/// Writes changed joins, ends the joins whose last step has ended, and enqueues their continuations.
pub(crate) async fn finish(
    call: &mut Call<'_>,
    mut joins: Vec<JoinRecord>,
    now: Timestamp,
) -> Result<(), DriverError> {
    let mut fired: Vec<NewRow> = Vec::new();
    for join in &mut joins {
        join.updated_at = now;
        if join.end() {
            fired.extend(join.continuation(now));
        }
    }
    let statement =
        |join: &JoinRecord| doc! { "q": { "_id": join.id.as_str() }, "u": { "$set": fields(join) } };
    call.update(&call.names().join, joins.iter().map(statement).collect()).await?;
    if fired.is_empty() {
        return Ok(());
    }
    // A continuation that already exists was enqueued by an earlier call.
    let ids: Vec<&str> = fired.iter().map(|row| row.event.id().as_str()).collect();
    let find =
        Find { filter: doc! { "_id": { "$in": ids } }, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    let there = call.find(&call.names().event, find).await?;
    let mut there: HashSet<String> = there.iter().map(|row| Fields::new(row).id().to_string()).collect();
    let fresh: Vec<&NewRow> = fired.iter().filter(|row| there.insert(row.event.id().to_string())).collect();
    if fresh.is_empty() {
        return Ok(());
    }
    insert::add(call, &fresh, Some(now)).await.map(drop)
}

/// The messages among `ids` that are steps of pending joins.
pub(crate) async fn open_steps(call: &mut Call<'_>, ids: &[&str]) -> Result<HashSet<String>, DriverError> {
    let filter = doc! { "message": { "$in": ids } };
    let found = call.find(&call.names().member, Find { filter, ..Find::default() }).await?;
    let joins: Vec<String> =
        found.iter().filter_map(|member| Fields::new(member).text("join").map(str::to_owned)).collect();
    let pending = i32::from(JoinStatus::Pending.code());
    let filter = doc! { "_id": { "$in": joins }, "status": pending };
    let open = join_record::find(call, Find { filter, ..Find::default() }).await?;
    let open: HashSet<&str> = open.iter().map(|join| join.id.as_str()).collect();
    let mut steps = HashSet::new();
    for member in &found {
        if Fields::new(member).text("join").is_some_and(|join| open.contains(join)) {
            steps.insert(read_member(member)?.message.to_string());
        }
    }
    Ok(steps)
}

/// Deletes at most `limit` joins that ended before a time. Members go first: if the call fails in between,
/// the next purge still finds the join.
pub(crate) async fn purge(call: &mut Call<'_>, before: Timestamp, limit: usize) -> Result<(), DriverError> {
    let pending = i32::from(JoinStatus::Pending.code());
    let filter = doc! { "status": { "$ne": pending }, "updated_at": { "$lt": us(before) } };
    let old = join_record::find(call, Find { filter, limit, ..Find::default() }).await?;
    if old.is_empty() {
        return Ok(());
    }
    let ids: Vec<Bson> = old.iter().map(|join| Bson::from(join.id.as_str())).collect();
    call.delete(&call.names().member, doc! { "join": { "$in": ids.clone() } }).await?;
    call.delete(&call.names().join, doc! { "_id": { "$in": ids } }).await.map(drop)
}
