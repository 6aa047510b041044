//! Reporting outcomes under a fence: one command a batch, and one more only where something did not change.

use std::collections::HashSet;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{Lane, Status, StepState, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled, Wait};

use crate::call::{Call, Find};
use crate::document::{code, pending, unlocked};
use crate::done::{self, Caution, NAMED, deletable};
use crate::error::Failure;
use crate::groups;
use crate::membership::hold;
use crate::number::head;
use crate::row::Fields;
use crate::steps::{self, joined};
use crate::time::{cut, later, us};

/// How many failed attempts a document keeps, the newest: with the longest errors it stays within its bound.
const FAILURES: i32 = -200;

pub(crate) async fn settle(
    call: &mut Call<'_>,
    request: &Settle,
    caution: Caution,
) -> Result<Settled, Failure> {
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
    let (stale, reused) = if matched == batch.changing.len() as u64 {
        (HashSet::new(), false)
    } else {
        batch.stale(call).await?
    };
    batch.delete(call).await?;
    for (place, outcome) in &batch.changing {
        if let Change::Dead { error, blocks: Some(group), .. } = &outcome.change
            && !stale.contains(place)
        {
            groups::block(call, group, &outcome.id, error, now).await?;
        }
    }
    batch.end_steps(call, &steps, &stale).await?;
    let mut stale: Vec<usize> = stale.into_iter().collect();
    stale.sort_unstable();
    Ok(Settled { reused, ..Settled::all_but(stale) })
}

/// How a step stands after this; `None` if it has not ended.
fn state_after(change: &Change) -> Option<StepState> {
    match change {
        Change::Done => Some(StepState::Completed),
        Change::Dead { .. } => Some(StepState::Failed),
        _ => None,
    }
}

/// The messages that end, if any can be a step of a join: nodes have none of the queue.
fn ending(request: &Settle) -> Vec<&str> {
    if matches!(request.fence, Fence::Node(_)) {
        return Vec::new();
    }
    let ends = |outcome: &&Outcome| state_after(&outcome.change).is_some();
    request.outcomes.iter().filter(ends).map(|outcome| outcome.id.as_str()).collect()
}

/// The time, if the fence lets the call through, and which outcomes only need their rows deleted.
async fn look(
    call: &mut Call<'_>,
    request: &Settle,
    caution: Caution,
) -> Result<(Option<Timestamp>, Vec<usize>), Failure> {
    let at = |now| request.now.map_or(now, cut);
    match &request.fence {
        Fence::Node(node) if caution == Caution::IfInDoubt => {
            Ok((hold(call, *node).await?.map(at), Vec::new()))
        }
        Fence::Node(node) if call.in_transaction() => match hold(call, *node).await? {
            Some(now) => Ok((Some(at(now)), deletable(call, request).await?)),
            None => Ok((None, Vec::new())),
        },
        // Both only read: neither need wait for the other.
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

/// One settle, and the mark that it leaves on every row it changes.
struct Batch<'a> {
    request: &'a Settle,
    /// The outcomes that are not settled yet, and their places.
    changing: Vec<(usize, &'a Outcome)>,
    now: Timestamp,
    mark: ObjectId,
}

impl Batch<'_> {
    /// Outcomes that say the same are one statement.
    fn statements(&self) -> Vec<Document> {
        let mut alike: Vec<(&Change, i64, Vec<&Outcome>)> = Vec::new();
        for (_, outcome) in &self.changing {
            let token = match self.request.fence {
                Fence::Owner(_) => outcome.token.0,
                Fence::Node(_) | Fence::Open => 0,
            };
            // A number stands once in a statement, where its place tells the id.
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
            if let Fence::Owner(owner) = &self.request.fence {
                filter.extend(doc! { "locked_by": owner.as_str(), "lock_token": token });
            } else if matches!(change, Change::Extend { .. }) {
                filter.insert("locked_by", doc! { "$ne": Bson::Null });
            }
            doc! { "q": filter, "u": self.change(change), "multi": true }
        };
        alike.into_iter().map(statement).collect()
    }

    /// What becomes of a row. In a pipeline text is taken as it stands only if it says so.
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
            Change::Attempt => return Bson::from(doc! { "$set": set, "$inc": { "attempts": 1 } }),
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
                let remembered = if *counts == Counts::Back { Remembered::No } else { Remembered::Yes };
                set.extend(self.failed(error, *counts, remembered));
                if *wait == Wait::Delayed {
                    set.insert("slot", put_off());
                }
            }
            Change::Dead { error, counts, .. } => {
                set.extend(doc! { "status": code(Status::Dead), "done_at": us(self.now) });
                if let Fence::Owner(owner) = &self.request.fence {
                    set.insert("processed_by", doc! { "$literal": owner.as_str() });
                }
                let remembered = if *counts == Counts::One { Remembered::Yes } else { Remembered::No };
                set.extend(self.failed(error, *counts, remembered));
            }
            Change::Delay => {
                set.insert("slot", put_off());
            }
            Change::Release => {
                set.insert("attempts", given_back(0));
            }
            Change::Untried => {
                set.insert("attempts", given_back(1));
            }
        }
        set.extend(unlocked());
        Bson::from(vec![Bson::from(doc! { "$set": set })])
    }

    fn failed(&self, error: &str, counts: Counts, remembered: Remembered) -> Document {
        let error = doc! { "$literal": stored_error(error) };
        let one = match counts {
            Counts::One => 1,
            Counts::None => 0,
            Counts::Back => -1,
        };
        let sum = doc! { "$add": ["$attempts", one] };
        let attempts = match counts {
            Counts::Back => doc! { "$cond": [{ "$gt": [sum.clone(), 0] }, sum, 0] },
            Counts::One | Counts::None => sum,
        };
        let mut set = doc! { "last_error": error.clone(), "attempts": attempts.clone() };
        if remembered == Remembered::Yes {
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

    /// Counts what has ended in the joins it is a step of.
    async fn end_steps(
        &self,
        call: &mut Call<'_>,
        steps: &HashSet<String>,
        stale: &HashSet<usize>,
    ) -> Result<(), Failure> {
        let changed = self.request.outcomes.iter().enumerate().filter(|(place, _)| !stale.contains(place));
        let ended = changed.filter_map(|(_, outcome)| Some((&outcome.id, state_after(&outcome.change)?)));
        let ended: Vec<_> = ended.filter(|(id, _)| steps.contains(id.as_str())).collect();
        steps::ended(call, &ended, self.now).await
    }

    /// The places of outcomes whose rows do not bear the mark, and whether one of their numbers is another event's.
    async fn stale(&self, call: &mut Call<'_>) -> Result<(HashSet<usize>, bool), Failure> {
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

    /// Deletes what this settle has made done. Marked first, so that it is known whose rows went.
    async fn delete(&self, call: &mut Call<'_>) -> Result<(), Failure> {
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

/// The rows that these outcomes name, each by its number and the id beside it: numbers come again when a server is put back.
///
/// A key that is no text is no event's id, and has none to compare: nothing was delivered of it, and it ends by its number.
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

/// Whether a failure goes into the history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remembered {
    Yes,
    No,
}

/// A row's attempts less so many, and less that of a claim.
fn given_back(attempts: i32) -> Document {
    let locked_by = doc! { "$ifNull": ["$locked_by", Bson::Null] };
    let claimed = doc! { "$cond": [{ "$eq": [locked_by, Bson::Null] }, 0, 1] };
    let rest = doc! { "$subtract": ["$attempts", { "$add": [claimed, attempts] }] };
    doc! { "$cond": [{ "$gt": [rest.clone(), 0] }, rest, 0] }
}

/// To lane −1, but for rows of the queue.
fn put_off() -> Document {
    let (queue, delayed) = (i32::from(Lane::QUEUE.0), i32::from(Lane::DELAYED.0));
    doc! { "$cond": [{ "$eq": ["$slot", queue] }, queue, delayed] }
}
