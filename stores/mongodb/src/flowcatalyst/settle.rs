//! Settling items whose claim still has the caller's token.

use std::collections::HashSet;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::stored_error;
use pillarbox::port::{Change, Fence, OnDone, Outcome, Settle, Settled};

use super::item::{COMPLETED, FAILED, PENDING, PROCESSING, date, now, read_item};
use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::groups;
use crate::membership::hold;
use crate::settle::stored_count;
use crate::time::from_us;

pub(super) async fn settle(call: &mut Call<'_>, request: &Settle) -> Result<Settled, DriverError> {
    if let Fence::Node(node) = &request.fence
        && hold(call, *node).await?.is_none()
    {
        return Ok(Settled::lost(request.outcomes.len()));
    }
    let now = now(call, request.now).await?;
    let mut held = claimed(call, &request.outcomes, now, Seen::Claimed).await?;
    let changed = apply(call, request, &held, now).await?;
    if changed < held.len() as u64 {
        // Another call changed an item between the check and the update. An item without the expected result
        // was not changed here.
        let after = claimed(call, &request.outcomes, now, Seen::Settled(request.on_done)).await?;
        held.retain(|place| after.contains(place));
    }
    let mut blocked = 0;
    for (place, outcome) in request.outcomes.iter().enumerate() {
        if let Change::Dead { error, blocks: Some(group), .. } = &outcome.change
            && held.contains(&place)
        {
            blocked += groups::block(call, group, &outcome.id, error, now).await?;
        }
    }
    groups::grow_epoch(call, blocked).await?;
    let stale = (0..request.outcomes.len()).filter(|place| !held.contains(place)).collect();
    Ok(Settled::all_but(stale))
}

/// The state to look for.
#[derive(Clone, Copy)]
enum Seen {
    /// Claimed under the outcome's token.
    Claimed,
    /// As the outcome leaves the item.
    Settled(OnDone),
}

/// The places of outcomes whose items are in the given state.
async fn claimed(
    call: &mut Call<'_>,
    outcomes: &[Outcome],
    now: Timestamp,
    seen: Seen,
) -> Result<HashSet<usize>, DriverError> {
    let ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    let fields = Some(doc! { "status": 1, "processedAt": 1 });
    let find = Find { filter: doc! { "_id": { "$in": ids } }, fields, ..Find::default() };
    let found = call.find(&call.names().event, find).await?;
    let found = found.iter().map(|document| read_item(document));
    let found: std::collections::HashMap<String, _> =
        found.map(|item| (item.id.clone(), (item.status, item.processed_at))).collect();
    let is = |outcome: &Outcome| {
        let there = found.get(outcome.id.as_str());
        let token = from_us(outcome.token.0);
        let (status, at) = match (seen, &outcome.change) {
            (Seen::Claimed, _) | (_, Change::Attempt { .. } | Change::Waits { .. }) => (PROCESSING, token),
            (Seen::Settled(OnDone::Delete), Change::Done) => return there.is_none(),
            (_, Change::Done) => (COMPLETED, token.max(now)),
            (_, Change::Dead { .. }) => (FAILED, token.max(now)),
            _ => (PENDING, token),
        };
        there.is_some_and(|(found, when)| found.as_deref() == Some(status) && *when == Some(at))
    };
    Ok(outcomes.iter().enumerate().filter(|(_, outcome)| is(outcome)).map(|(place, _)| place).collect())
}

/// Applies the outcomes at these places and returns how many items changed. Equal outcomes share one
/// statement.
async fn apply(
    call: &mut Call<'_>,
    request: &Settle,
    places: &HashSet<usize>,
    now: Timestamp,
) -> Result<u64, DriverError> {
    let mut alike: Vec<(&Change, i64, Vec<&str>)> = Vec::new();
    for (_, outcome) in request.outcomes.iter().enumerate().filter(|(place, _)| places.contains(place)) {
        let (token, id) = (outcome.token.0, outcome.id.as_str());
        match alike.iter_mut().find(|(change, of, _)| *of == token && **change == outcome.change) {
            Some((_, _, ids)) => ids.push(id),
            None => alike.push((&outcome.change, token, vec![id])),
        }
    }
    let (mut statements, mut deleted) = (Vec::new(), 0);
    for (change, token, ids) in alike {
        let at = from_us(token);
        let filter = doc! { "_id": { "$in": ids }, "status": PROCESSING, "processedAt": date(at) };
        if *change == Change::Done && request.on_done == OnDone::Delete {
            deleted += call.delete(&call.names().event, filter).await?;
        } else {
            statements.push(doc! { "q": filter, "u": changed(change, at.max(now)), "multi": true });
        }
    }
    if statements.is_empty() {
        return Ok(deleted);
    }
    Ok(deleted + call.update(&call.names().event, statements).await?)
}

/// The update for a change. `end` is the time of completion, if the item ends.
fn changed(change: &Change, end: Timestamp) -> Document {
    let mut set = match change {
        Change::Done => {
            doc! { "status": COMPLETED, "processedAt": date(end), "errorMessage": Bson::Null }
        }
        Change::Retry { error, .. } => doc! { "status": PENDING, "errorMessage": stored_error(error) },
        Change::Dead { error, .. } => {
            doc! { "status": FAILED, "processedAt": date(end), "errorMessage": stored_error(error) }
        }
        Change::Waits { error } => doc! { "errorMessage": stored_error(error) },
        // Items have no due time, so a delay is the same as a release.
        Change::Delay | Change::Release { .. } => doc! { "status": PENDING },
        // A claim on an item has no expiry to extend.
        Change::Attempt { .. } | Change::Extend { .. } => doc! { "status": PROCESSING },
    };
    if let Some(retries) = change.retries() {
        set.insert("retryCount", stored_count(retries));
    }
    doc! { "$set": set }
}
