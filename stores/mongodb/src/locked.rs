//! Changing documents beside documents that another transaction holds.
//!
//! Outside of a transaction, the server lets a write wait for the transaction that holds its document, and
//! every later statement of the command waits too. In a transaction, it refuses such a write at once. So a
//! command gets a short time. After that its documents are changed in transactions, halved at each conflict,
//! until only the held documents are left.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::port::ErrorKind;
use tokio::time::Instant;

use crate::call::Call;
use crate::error::DriverError;
use crate::outbox::{Operation, Outbox, Server, Step, pause};
use crate::sessions::Holder;

/// How long a command may wait for documents that others hold.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long one call looks for held documents. The documents it has not tried by then count as held.
const SEARCH: Duration = Duration::from_secs(1);
/// How many parts one call tries even after that time, so that a slow server does not end the search of a small batch.
const LEAST_PARTS: u32 = 64;
/// A document that is held is left out of searches for this long.
const LEFT_OUT: Duration = Duration::from_millis(250);
/// A document is remembered this long after it was last found to be held.
const REMEMBERED: Duration = Duration::from_secs(90);
/// The maximum number of remembered documents.
const MOST: usize = 1_000;
/// Attempts of a transaction on conflicts before it looks for held documents: most conflicts pass quickly.
const TRIES: u32 = 3;
/// How many times one transaction looks for held documents.
const ROUNDS: u32 = 8;
/// The server's codes of a command that has used up its time.
const OVERDUE: [i32; 3] = [24, 50, 262];

/// The documents that this process has found to be held by other transactions, and when.
#[derive(Default)]
pub(crate) struct HeldRows(Mutex<HashMap<String, (Bson, Instant)>>);

impl HeldRows {
    /// The documents that a search should leave out for now.
    pub(crate) fn left_out(&self) -> Vec<Bson> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = held.values().filter(|(_, found)| found.elapsed() < LEFT_OUT);
        recent.map(|(key, _)| key.clone()).collect()
    }

    fn has_any(&self, keys: &[Bson]) -> bool {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !held.is_empty() && keys.iter().any(|key| held.contains_key(&key.to_string()))
    }

    fn add(&self, keys: &[Bson]) {
        let (mut held, now) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        held.retain(|_, (_, found)| found.elapsed() < REMEMBERED);
        for key in keys.iter().take(MOST.saturating_sub(held.len())) {
            held.insert(key.to_string(), (key.clone(), now));
        }
    }

    fn remove(&self, keys: &[Bson]) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.is_empty() {
            keys.iter().for_each(|key| drop(held.remove(&key.to_string())));
        }
    }
}

/// The statements for the documents at these places.
pub(crate) type Statements<'a> = &'a (dyn Fn(Range<usize>) -> Vec<Document> + Send + Sync);

/// Documents to change, each at most once.
pub(crate) struct Changes<'a> {
    pub(crate) keys: &'a [Bson],
    pub(crate) statements: Statements<'a>,
    /// The maximum number of documents to change.
    pub(crate) most: usize,
    /// Whose transactions these are, if they are to be killed when it dies.
    pub(crate) holder: Option<Holder>,
}

/// The result of `change`.
pub(crate) struct Changed {
    /// How many documents changed. `None` if a command that ran out of time changed some.
    pub(crate) count: Option<u64>,
    /// Whether documents were left out because others hold them.
    pub(crate) has_met_held: bool,
}

/// Changes events, except those that another transaction holds.
pub(crate) async fn change(call: &mut Call<'_>, changes: &Changes<'_>) -> Result<Changed, DriverError> {
    let (outbox, all) = (call.outbox(), 0..changes.keys.len());
    let whole = |count| Changed { count: Some(count), has_met_held: false };
    if outbox.server == Server::Alone {
        return call.update(&outbox.names.event, (changes.statements)(all)).await.map(whole);
    }
    if changes.keys.len() > changes.most || outbox.held.has_any(changes.keys) {
        return in_parts(outbox, changes).await;
    }
    let mut brief = call.beside().within(PATIENCE);
    match brief.update(&outbox.names.event, (changes.statements)(all)).await {
        Err(failure) if failure.code().is_some_and(|code| OVERDUE.contains(&code)) => {}
        updated => return updated.map(whole),
    }
    let changed = in_parts(outbox, changes).await?;
    // The command that ran out of time did not wait for the majority. A write that changes nothing waits for
    // all earlier ones.
    let nothing = doc! { "q": { "_id": ObjectId::new() }, "u": { "$set": { "mark": Bson::Null } } };
    call.beside().update(&outbox.names.event, vec![nothing]).await?;
    Ok(Changed { count: None, ..changed })
}

/// Changes documents in transactions. Halves those that conflict until the held documents are found.
async fn in_parts(outbox: &Arc<Outbox>, changes: &Changes<'_>) -> Result<Changed, DriverError> {
    let step = match &changes.holder {
        Some(holder) => Step::Of(holder.clone(), 1),
        None => Step::Briefly(1),
    };
    let mut halves = Halves::new(changes.keys.len());
    let mut count = 0;
    while let Some(part) = halves.next(changes.most.saturating_sub(count)) {
        let statements = (changes.statements)(part.clone());
        let update: Operation<Vec<Document>, u64> =
            |call, statements| Box::pin(async { call.update(&call.names().event, statements.clone()).await });
        match outbox.perform(step.clone(), outbox.deadline(), &statements, update).await {
            Ok(changed) => {
                outbox.held.remove(&changes.keys[part]);
                count += usize::try_from(changed).unwrap_or(usize::MAX);
            }
            Err(failure) if failure.has_lost() => halves.split(part),
            Err(failure) => return Err(failure),
        }
    }
    let held = halves.held(changes.keys);
    outbox.held.add(&held);
    Ok(Changed { count: Some(count as u64), has_met_held: !held.is_empty() })
}

/// Parts of a list of documents that are still to be tried, and the places that were found to be held.
struct Halves {
    /// The last part is tried first.
    parts: Vec<Range<usize>>,
    held: Vec<Range<usize>>,
    tried: u32,
    until: Instant,
}

impl Halves {
    fn new(length: usize) -> Self {
        let whole = 0..length;
        Self { parts: vec![whole], held: Vec::new(), tried: 0, until: Instant::now() + SEARCH }
    }

    /// The next part to try, of at most `room` places. `None` if nothing is left to try, or no room or time.
    fn next(&mut self, room: usize) -> Option<Range<usize>> {
        if room == 0 {
            return None;
        }
        if self.tried >= LEAST_PARTS && Instant::now() >= self.until {
            self.held.append(&mut self.parts);
        }
        self.tried += 1;
        let part = self.parts.pop().filter(|part| !part.is_empty())?;
        let end = part.end.min(part.start.saturating_add(room));
        if end < part.end {
            self.parts.push(end..part.end);
        }
        Some(part.start..end)
    }

    /// Tries a part that conflicts again in halves, unless it is a single place.
    fn split(&mut self, part: Range<usize>) {
        if part.len() == 1 {
            self.held.push(part);
        } else {
            let middle = part.start + part.len() / 2;
            self.parts.extend([middle..part.end, part.start..middle]);
        }
    }

    fn held(&self, keys: &[Bson]) -> Vec<Bson> {
        self.held.iter().flat_map(|part| &keys[part.clone()]).cloned().collect()
    }
}

/// A request, and the documents to leave out because other transactions hold them.
pub(crate) struct Around<'a, R> {
    pub(crate) request: &'a R,
    pub(crate) held: Vec<Bson>,
}

/// Runs a transaction of a holder. While it conflicts, finds the documents among `keys` that other
/// transactions hold, and runs it again without them.
///
/// `try_on` is the change that finds them; it is never committed.
pub(crate) async fn around<'a, R: Sync, T>(
    outbox: &Arc<Outbox>,
    holder: Holder,
    request: &'a R,
    (keys, try_on): (Operation<Around<'a, R>, Vec<Bson>>, Bson),
    work: Operation<Around<'a, R>, T>,
) -> Result<T, DriverError> {
    let (mut around, deadline) = (Around { request, held: Vec::new() }, outbox.deadline());
    for round in 0..ROUNDS {
        match outbox.perform(Step::Of(holder.clone(), TRIES), deadline, &around, work).await {
            Err(failure) if failure.is_transient() && outbox.server == Server::Replicated => {}
            ended => return ended,
        }
        let keys = keys(&mut Call::new(outbox, None), &around).await?;
        around.held.extend(held_among(outbox, &holder, &keys, &try_on).await?);
        pause(round).await;
    }
    outbox.perform(Step::Of(holder, TRIES), deadline, &around, work).await
}

/// The documents that another transaction holds. Tries a change in transactions that it aborts.
async fn held_among(
    outbox: &Arc<Outbox>,
    holder: &Holder,
    keys: &[Bson],
    try_on: &Bson,
) -> Result<Vec<Bson>, DriverError> {
    let mut halves = Halves::new(keys.len());
    while let Some(part) = halves.next(usize::MAX) {
        let these = doc! { "_id": { "$in": keys[part.clone()].to_vec() } };
        let statement = doc! { "q": these, "u": try_on.clone(), "multi": true };
        let update: Operation<Document, ()> = |call, statement| {
            Box::pin(async {
                call.update(&call.names().event, vec![statement.clone()]).await?;
                // An error makes the transaction abort.
                Err(DriverError::Refused(ErrorKind::Conflict, "tried on".to_owned()))
            })
        };
        match outbox.perform(Step::Of(holder.clone(), 1), outbox.deadline(), &statement, update).await {
            Err(failure) if failure.has_lost() => halves.split(part),
            Ok(()) | Err(DriverError::Refused(ErrorKind::Conflict, _)) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(halves.held(keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-080
    #[tokio::test]
    async fn halves_find_every_held_place_and_try_all_others() {
        let (held, mut free) = ([3_usize, 4, 9], Vec::new());
        let mut halves = Halves::new(10);
        while let Some(part) = halves.next(4) {
            if part.clone().any(|place| held.contains(&place)) {
                halves.split(part);
            } else {
                free.extend(part);
            }
        }
        assert_eq!(free, [0, 1, 2, 5, 6, 7, 8]);
        let keys: Vec<Bson> = (0..10).map(Bson::Int32).collect();
        assert_eq!(halves.held(&keys), [Bson::Int32(3), Bson::Int32(4), Bson::Int32(9)]);
        assert!(Halves::new(0).next(4).is_none());
        assert!(Halves::new(4).next(0).is_none(), "without room nothing is tried");
    }

    /// PBX-080
    #[tokio::test]
    async fn a_slow_search_tries_a_small_batch_to_its_end_and_a_large_one_in_part() {
        let tried = |length: usize| {
            let mut halves = Halves { until: Instant::now(), ..Halves::new(length) };
            std::iter::from_fn(|| halves.next(1)).count()
        };
        assert_eq!((tried(6), tried(1_000)), (6, LEAST_PARTS as usize));
    }

    /// PBX-080
    #[tokio::test]
    async fn a_held_row_is_left_out_for_a_moment_and_suspected_for_longer() {
        let (rows, key) = (HeldRows::default(), [Bson::from("a")]);
        rows.add(&key);
        assert_eq!((rows.left_out(), rows.has_any(&key)), (key.to_vec(), true));
        rows.0.lock().unwrap().values_mut().for_each(|(_, found)| *found -= LEFT_OUT);
        assert_eq!((rows.left_out(), rows.has_any(&key)), (Vec::new(), true));
        rows.remove(&key);
        assert!(!rows.has_any(&key));
    }
}
