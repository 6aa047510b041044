//! Deleting done rows without marking them first.
//!
//! Marking shows which settle changed a row, but costs many times as much, so it is only for rows in doubt. A
//! settle that can be retried in a new transaction skips the check before the delete as well.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use mongodb::bson::{Bson, Document, RawDocument, doc};
use pillarbox::port::{Change, Fence, OnDone, Outcome, Settle};

use crate::call::{Call, Find};
use crate::document::pending;
use crate::error::DriverError;
use crate::row::Fields;
use crate::settle::named;

/// The maximum number of rows in one check.
const LOOK: usize = 5_000;
/// The maximum number of rows in one statement: a server may compare each row with every number of the
/// statement.
pub(crate) const NAMED: usize = 100;
/// The maximum number of rows in one statement that finds the id of a row by its number at once.
const PLACED: usize = 1_000;
/// The maximum range of numbers of such a statement, as a multiple of its rows.
const SPREAD: usize = 4;

/// After a settle found unexpected rows, this many further settles check their rows first.
const DOUBTED: u32 = 100;

/// Whether to check rows before deleting them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caution {
    LookFirst,
    /// Delete at once, since nearly always every row can be deleted. If one cannot, the transaction is
    /// retried with `LookFirst`.
    IfInDoubt,
}

impl Caution {
    /// Chooses the caution of a call that can be retried.
    pub(crate) fn of(call: &Call<'_>, request: &Settle) -> Self {
        let is_doubted = || {
            let doubts = &call.outbox().doubts;
            doubts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        };
        match request.fence {
            Fence::Node(_) if call.in_transaction() && !is_doubted() => Self::IfInDoubt,
            _ => Self::LookFirst,
        }
    }
}

/// The places of done outcomes whose rows are to be deleted.
fn done(request: &Settle) -> Vec<usize> {
    let numbers: HashSet<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
    // If a row has two outcomes, only the first counts. Only marks can tell which one that is.
    if request.on_done == OnDone::Keep || numbers.len() < request.outcomes.len() {
        return Vec::new();
    }
    let done = |at: &usize| request.outcomes[*at].change == Change::Done;
    (0..request.outcomes.len()).filter(done).collect()
}

/// Deletes the rows of all done outcomes and returns their places. If a row cannot be deleted, fails with a
/// conflict, so that the transaction is retried with `LookFirst`.
pub(crate) async fn delete_all(call: &mut Call<'_>, request: &Settle) -> Result<Vec<usize>, DriverError> {
    let mut places = done(request);
    if places.is_empty() {
        return Ok(places);
    }
    places.sort_unstable_by_key(|at| request.outcomes[*at].seq);
    let selected = |part: &[usize]| match placed(request, part) {
        Some(filter) => vec![filter],
        None => part.chunks(NAMED).map(|part| pairs(request, part)).collect(),
    };
    let mut filters: Vec<Document> = places.chunks(PLACED).flat_map(selected).collect();
    filters.iter_mut().for_each(|filter| filter.extend(condition(request)));
    if call.delete_each(&call.names().event, filters).await? == places.len() as u64 {
        return Ok(places);
    }
    call.outbox().doubts.store(DOUBTED, Ordering::Relaxed);
    Err(DriverError::met())
}

/// The places of done outcomes whose rows can be deleted.
///
/// Such a row exists, is pending, passes the fence, and has neither a message id nor a join.
pub(crate) async fn deletable(call: &mut Call<'_>, request: &Settle) -> Result<Vec<usize>, DriverError> {
    let done = done(request);
    let mut found = HashMap::new();
    for part in done.chunks(LOOK) {
        let mut filter = doc! { "_id": ids(request, part) };
        filter.extend(condition(request));
        let fields = Some(doc! { "seq": 1, "lock_token": 1 });
        let note = |row: &RawDocument| {
            let mut fields = Fields::new(row);
            let pair = (fields.id(), fields.seq());
            found.insert(pair, fields.number("lock_token").unwrap_or_default());
            ControlFlow::Continue(())
        };
        let find = Find { filter, sort: None, fields, limit: part.len() };
        call.each(&call.names().event, find, note).await?;
    }
    let matches = |at: &usize| {
        let outcome = &request.outcomes[*at];
        found
            .get(&(outcome.id.clone(), outcome.seq))
            .is_some_and(|found| token(request, outcome).is_none_or(|token| token == *found))
    };
    Ok(done.into_iter().filter(matches).collect())
}

/// Deletes the rows of these outcomes. Returns the places of rows that remain because another call changed
/// them.
///
/// If only some could be deleted, a row that another call deleted at the same time counts as deleted by both.
pub(crate) async fn delete(
    call: &mut Call<'_>,
    request: &Settle,
    places: &[usize],
) -> Result<Vec<usize>, DriverError> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    match delete_rows(call, request, places).await? {
        0 => return Ok(places.to_vec()),
        deleted if deleted == places.len() as u64 => return Ok(Vec::new()),
        _ => {}
    }
    let mut there = HashSet::new();
    for part in places.chunks(LOOK) {
        let numbers: Vec<i64> = part.iter().map(|at| request.outcomes[*at].seq.0).collect();
        let filter = doc! { "seq": { "$in": numbers } };
        let find = Find { filter, fields: Some(doc! { "seq": 1 }), ..Find::default() };
        let found = call.find(&call.names().event, find).await?;
        there.extend(found.iter().map(|row| Fields::new(row).seq()));
    }
    Ok(places.iter().copied().filter(|at| there.contains(&request.outcomes[*at].seq)).collect())
}

/// Deletes the rows of these outcomes. Returns how many were deleted.
async fn delete_rows(call: &mut Call<'_>, request: &Settle, places: &[usize]) -> Result<u64, DriverError> {
    let mut alike: HashMap<Option<i64>, Vec<usize>> = HashMap::new();
    for at in places {
        alike.entry(token(request, &request.outcomes[*at])).or_default().push(*at);
    }
    let statement = |token: Option<i64>, part: &[usize]| {
        let mut filter = keys(request, part);
        filter.extend(condition(request));
        filter.extend(token.map(|token| ("lock_token".to_owned(), Bson::from(token))));
        filter
    };
    let filters = alike.iter().flat_map(|(token, places)| {
        places.chunks(NAMED).map(|part| statement(*token, part)).collect::<Vec<_>>()
    });
    call.delete_each(&call.names().event, filters.collect()).await
}

/// Selects rows by ids and by numbers. Sufficient after `deletable`, which has compared each pair.
fn keys(request: &Settle, places: &[usize]) -> Document {
    let numbers: Vec<i64> = places.iter().map(|at| request.outcomes[*at].seq.0).collect();
    doc! { "_id": ids(request, places), "seq": { "$in": numbers } }
}

/// Selects each row by its own pair of id and number, as `pairs` does, but compares each row with one id only:
/// the one at the place of its number. `None` if the numbers are too far apart. The places are in the order of
/// numbers.
fn placed(request: &Settle, places: &[usize]) -> Option<Document> {
    let numbers: Vec<i64> = places.iter().map(|at| request.outcomes[*at].seq.0).collect();
    let (first, last) = (*numbers.first()?, *numbers.last()?);
    let range = usize::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
    if range > SPREAD * places.len() {
        return None;
    }
    let mut ids = vec![Bson::Null; range];
    for (at, number) in places.iter().zip(&numbers) {
        ids[usize::try_from(number - first).ok()?] = Bson::from(request.outcomes[*at].id.as_str());
    }
    let own = doc! { "$arrayElemAt": [{ "$literal": ids }, { "$subtract": ["$seq", first] }] };
    Some(doc! { "seq": { "$in": numbers }, "$expr": { "$eq": ["$_id", own] } })
}

/// Selects each row by its own pair of id and number.
fn pairs(request: &Settle, places: &[usize]) -> Document {
    named(&Change::Done, &places.iter().map(|at| &request.outcomes[*at]).collect::<Vec<_>>())
}

fn ids(request: &Settle, places: &[usize]) -> Document {
    doc! { "$in": places.iter().map(|at| request.outcomes[*at].id.as_str()).collect::<Vec<_>>() }
}

/// The conditions under which a row may be deleted unmarked.
fn condition(request: &Settle) -> Document {
    let mut condition = doc! { "status": pending(), "message_id": Bson::Null, "joined": { "$ne": true } };
    if let Fence::Owner(owner) = &request.fence {
        condition.insert("locked_by", owner.as_str());
    }
    condition
}

/// The token that the row must have under an owner's fence.
fn token(request: &Settle, outcome: &Outcome) -> Option<i64> {
    matches!(request.fence, Fence::Owner(_)).then_some(outcome.token.0)
}
