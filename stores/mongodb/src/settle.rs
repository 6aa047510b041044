//! Settling under a fence: one update command per batch, and a second look only if some rows did not change.

use std::collections::HashSet;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{Lane, Status, StepState, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled, Wait};

use crate::call::{Call, Find};
use crate::document::{code, pending, unlocked};
use crate::done::{self, Caution, NAMED, deletable};
use crate::error::DriverError;
use crate::groups;
use crate::membership::hold;
use crate::number::head;
use crate::row::Fields;
use crate::steps::{self, joined};
use crate::time::{cut, later, us};

/// A document keeps the newest 200 failed attempts. Even with the longest errors it stays below the document
/// size limit.
const FAILURES: i32 = -200;

pub(crate) async fn settle(
    call: &mut Call<'_>,
    request: &Settle,
    caution: Caution,
) -> Result<Settled, DriverError> {
    let (now, deleting) = look(call, request, caution).await?;
    let Some(now) = now else {
        return Ok(Settled::lost(request.outcomes.len()));
    };
    let steps = joined(call, ending(request)).await?;
    let deleted: HashSet<usize> = match caution {
        Caution::IfInDoubt => done::delete_all(call, request).await?.into_iter().collect(),
        Caution::LookFirst => {
            let left = done::delete(call, request, &deleting).await?;
            deleting.into_iter().filter(|at| !left.contains(at)).collect()
        }
    };
    let changing = request.outcomes.iter().enumerate().filter(|(place, _)| !deleted.contains(place));
    let batch = Batch { request, changing: changing.collect(), now, mark: ObjectId::new() };
    if batch.changing.is_empty() {
        batch.end_steps(call, &steps, &HashSet::new()).await?;
        return Ok(Settled::all_but(Vec::new()));
    }
    let matched = call.update(&call.names().event, batch.statements()).await?;
    // A statement changes at most one row per outcome, so equal counts mean that no outcome is stale.
    let (stale, reused) = if matched == batch.changing.len() as u64 {
        (HashSet::new(), false)
    } else {
        batch.stale(call).await?
    };
    batch.delete(call).await?;
    let mut blocked = 0;
    for (place, outcome) in &batch.changing {
        if let Change::Dead { error, blocks: Some(group), .. } = &outcome.change
            && !stale.contains(place)
        {
            blocked += groups::block(call, group, &outcome.id, error, now).await?;
        }
    }
    groups::grow_epoch(call, blocked).await?;
    batch.end_steps(call, &steps, &stale).await?;
    let mut stale: Vec<usize> = stale.into_iter().collect();
    stale.sort_unstable();
    Ok(Settled { reused, ..Settled::all_but(stale) })
}

/// The state of a join step after this change; `None` if the step has not ended.
fn state_after(change: &Change) -> Option<StepState> {
    match change {
        Change::Done => Some(StepState::Completed),
        Change::Dead { .. } => Some(StepState::Failed),
        _ => None,
    }
}

/// The messages that this settle ends and that may be steps of a join. Nodes deliver no queue messages, so
/// they have none.
fn ending(request: &Settle) -> Vec<&str> {
    if matches!(request.fence, Fence::Node(_)) {
        return Vec::new();
    }
    let ends = |outcome: &&Outcome| state_after(&outcome.change).is_some();
    request.outcomes.iter().filter(ends).map(|outcome| outcome.id.as_str()).collect()
}

/// Checks the fence and finds rows that can be deleted without marking.
///
/// Returns the current time, or `None` if the fence fails, and the places of the outcomes whose rows can be
/// deleted.
async fn look(
    call: &mut Call<'_>,
    request: &Settle,
    caution: Caution,
) -> Result<(Option<Timestamp>, Vec<usize>), DriverError> {
    let at = |now| request.now.map_or(now, cut);
    match &request.fence {
        Fence::Node(node) if caution == Caution::IfInDoubt => {
            Ok((hold(call, *node).await?.map(at), Vec::new()))
        }
        Fence::Node(node) if call.in_transaction() => match hold(call, *node).await? {
            Some(now) => Ok((Some(at(now)), deletable(call, request).await?)),
            None => Ok((None, Vec::new())),
        },
        // Without a transaction both only read, so they run concurrently.
        Fence::Node(node) => {
            let mut beside = Call::new(call.outbox(), None);
            let (now, deleting) = tokio::try_join!(hold(&mut beside, *node), deletable(call, request))?;
            Ok((now.map(at), deleting))
        }
        Fence::Owner(_) | Fence::Open => {
            let now = match request.now {
                Some(now) => cut(now),
                None => head(call).await?.now,
            };
            Ok((Some(now), deletable(call, request).await?))
        }
    }
}

/// One settle. It writes `mark` into every row it changes, which later tells its changes from those of
/// others.
struct Batch<'a> {
    request: &'a Settle,
    /// The outcomes still to apply, with their places in the request.
    changing: Vec<(usize, &'a Outcome)>,
    now: Timestamp,
    mark: ObjectId,
}

impl Batch<'_> {
    /// Builds the update statements. Equal outcomes share one statement.
    fn statements(&self) -> Vec<Document> {
        let mut alike: Vec<(&Change, i64, Vec<&Outcome>)> = Vec::new();
        for (_, outcome) in &self.changing {
            let token = match self.request.fence {
                Fence::Owner(_) => outcome.token.0,
                Fence::Node(_) | Fence::Open => 0,
            };
            // `named` finds the id by the position of the number, so a number may occur only once in a
            // statement.
            let same = |(change, of, rows): &&mut (&Change, i64, Vec<&Outcome>)| {
                *of == token
                    && **change == outcome.change
                    && rows.len() < NAMED
                    && rows.iter().all(|row| row.seq != outcome.seq)
            };
            match alike.iter_mut().find(same) {
                Some((_, _, rows)) => rows.push(outcome),
                None => alike.push((&outcome.change, token, vec![outcome])),
            }
        }
        let statement = |(change, token, rows): (&Change, i64, Vec<&Outcome>)| {
            let mut filter = named(change, &rows);
            filter.insert("status", pending());
            if let (Change::Retry { .. } | Change::Dead { .. }, Some(since)) = (change, self.request.repeats)
            {
                filter.insert("available_at", doc! { "$not": { "$gte": us(since) } });
            }
            if let Fence::Owner(owner) = &self.request.fence {
                filter.extend(doc! { "locked_by": owner.as_str(), "lock_token": token });
            } else if matches!(change, Change::Extend { .. }) {
                filter.insert("locked_by", doc! { "$ne": Bson::Null });
            }
            doc! { "q": filter, "u": self.change(change), "multi": true }
        };
        alike.into_iter().map(statement).collect()
    }

    /// The update of a row. In a pipeline, text must be wrapped in `$literal`, or a leading `$` would be
    /// evaluated.
    fn change(&self, change: &Change) -> Bson {
        let mut set = doc! { "mark": self.mark };
        match change {
            Change::Done => {
                set.extend(unlocked());
                set.extend(doc! { "status": code(Status::Done), "done_at": us(self.now) });
                if let Fence::Owner(owner) = &self.request.fence {
                    set.insert("processed_by", owner.as_str());
                }
                return Bson::from(doc! { "$set": set });
            }
            Change::Attempt { attempts } => {
                set.insert("attempts", stored_count(*attempts));
                return Bson::from(doc! { "$set": set });
            }
            Change::Waits { error } => {
                set.insert("last_error", stored_error(error));
                return Bson::from(doc! { "$set": set });
            }
            Change::Extend { lease } => {
                set.insert("locked_until", us(later(self.now, *lease)));
                return Bson::from(doc! { "$set": set });
            }
            Change::Retry { delay, error, counts, wait } => {
                set.extend(
                    doc! { "status": code(Status::Retry), "available_at": us(later(self.now, *delay)) },
                );
                set.extend(self.failed(error, *counts));
                if *wait == Wait::Delayed {
                    set.insert("slot", put_off());
                }
            }
            Change::Dead { error, counts, .. } => {
                set.extend(doc! { "status": code(Status::Dead), "done_at": us(self.now) });
                if let Fence::Owner(owner) = &self.request.fence {
                    set.insert("processed_by", doc! { "$literal": owner.as_str() });
                }
                set.extend(self.failed(error, *counts));
            }
            Change::Delay => {
                set.insert("slot", put_off());
            }
            Change::Release { attempts } => {
                set.insert("attempts", stored_count(*attempts));
            }
        }
        set.extend(unlocked());
        Bson::from(vec![Bson::from(doc! { "$set": set })])
    }

    fn failed(&self, error: &str, counts: Counts) -> Document {
        let error = doc! { "$literal": stored_error(error) };
        let attempts = stored_count(counts.attempts());
        let mut set = doc! { "last_error": error.clone(), "attempts": attempts };
        if counts.is_recorded() {
            let by = match &self.request.fence {
                Fence::Node(node) => node.to_string(),
                Fence::Owner(owner) => owner.to_string(),
                Fence::Open => "-".to_owned(),
            };
            let failure = doc! {
                "number": attempts,
                "failed_at": us(self.now),
                "failed_by": { "$literal": by },
                "error": error,
            };
            let all = doc! { "$concatArrays": [{ "$ifNull": ["$failures", []] }, [failure]] };
            set.insert("failures", doc! { "$slice": [all, FAILURES] });
        }
        set
    }

    /// Counts ended messages in their joins.
    async fn end_steps(
        &self,
        call: &mut Call<'_>,
        steps: &HashSet<String>,
        stale: &HashSet<usize>,
    ) -> Result<(), DriverError> {
        let changed = self.request.outcomes.iter().enumerate().filter(|(place, _)| !stale.contains(place));
        let ended = changed.filter_map(|(_, outcome)| Some((&outcome.id, state_after(&outcome.change)?)));
        let ended: Vec<_> = ended.filter(|(id, _)| steps.contains(id.as_str())).collect();
        steps::ended(call, &ended, self.now).await
    }

    /// The places of outcomes whose rows do not carry the mark, and whether one of their numbers belongs to
    /// another event now.
    async fn stale(&self, call: &mut Call<'_>) -> Result<(HashSet<usize>, bool), DriverError> {
        let pairs: HashSet<(i64, &str)> =
            self.changing.iter().map(|(_, outcome)| (outcome.seq.0, outcome.id.as_str())).collect();
        let numbers: Vec<i64> = pairs.iter().map(|(seq, _)| *seq).collect();
        let find = Find {
            filter: doc! { "seq": { "$in": numbers }, "$or": [{ "mark": self.mark }, { "status": pending() }] },
            fields: Some(doc! { "seq": 1, "mark": 1 }),
            ..Find::default()
        };
        let found = call.find(&call.names().event, find).await?;
        let (mut changed, mut reused) = (HashSet::new(), false);
        for row in &found {
            let mut fields = Fields::new(row);
            let pair = (fields.seq().0, fields.id());
            if fields.is("mark", self.mark) {
                changed.insert(pair);
            } else {
                reused |= !pairs.contains(&(pair.0, pair.1.as_str()));
            }
        }
        let changes = |outcome: &Outcome| changed.contains(&(outcome.seq.0, outcome.id.clone()));
        let stale = self.changing.iter().filter(|(_, outcome)| !changes(outcome));
        Ok((stale.map(|(place, _)| *place).collect(), reused))
    }

    /// Deletes the rows that this settle marked as done. The mark limits the delete to rows that this settle
    /// changed.
    ///
    /// Rows with a message id stay for deduplication, and steps of joins stay for their joins.
    async fn delete(&self, call: &mut Call<'_>) -> Result<(), DriverError> {
        if self.request.on_done == OnDone::Keep {
            return Ok(());
        }
        let done = self.changing.iter().filter(|(_, outcome)| outcome.change == Change::Done);
        let numbers: Vec<i64> = done.map(|(_, outcome)| outcome.seq.0).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let gone = doc! { "seq": { "$in": numbers }, "mark": self.mark, "status": code(Status::Done), "message_id": Bson::Null,
        "joined": { "$ne": true } };
        call.delete(&call.names().event, gone).await.map(drop)
    }
}

/// Selects the rows of these outcomes. Each must match both its number and its id, because a failover or a
/// restore can lead to reused numbers.
///
/// A row whose key is not text is malformed and was never delivered. It has no id to compare and is matched
/// by its number alone.
pub(crate) fn named(change: &Change, rows: &[&Outcome]) -> Document {
    let numbers: Vec<i64> = rows.iter().map(|outcome| outcome.seq.0).collect();
    let ids: Vec<&str> = rows.iter().map(|outcome| outcome.id.as_str()).collect();
    let beside = doc! { "$indexOfArray": [{ "$literal": numbers.clone() }, "$seq"] };
    let own = doc! { "$eq": ["$_id", { "$arrayElemAt": [{ "$literal": ids.clone() }, beside] }] };
    match change {
        Change::Done | Change::Retry { .. } => {
            doc! { "_id": { "$in": ids }, "seq": { "$in": numbers }, "$expr": own }
        }
        _ => {
            let unreadable = doc! { "$ne": [{ "$type": "$_id" }, "string"] };
            doc! { "seq": { "$in": numbers }, "$expr": { "$or": [own, unreadable] } }
        }
    }
}

/// A count as its field stores it.
pub(crate) fn stored_count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Moves a row to lane −1, unless it belongs to the queue.
fn put_off() -> Document {
    let (queue, delayed) = (i32::from(Lane::QUEUE.0), i32::from(Lane::DELAYED.0));
    doc! { "$cond": [{ "$eq": ["$slot", queue] }, queue, delayed] }
}
