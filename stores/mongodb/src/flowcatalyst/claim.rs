//! Claiming items, one command each: the time of the claim is its token, so it is later with each claim.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use pillarbox::model::{Row, Slot, SlotSet, Token};
use pillarbox::port::{ByteLimits, Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Reap, Scope};

use super::item::{PENDING, PROCESSING, date, ended_before, now, order, read_taken, read_within};
use crate::call::{Call, Find};
use crate::claim::set_some;
use crate::error::Failure;
use crate::membership::Waiting;
use crate::row::{Fields, SIZE, size, size_of};
use crate::time::earlier;

/// How many commands of one claim are under way at once.
const AT_ONCE: usize = 8;
/// How many items one claim takes at most.
const MOST: usize = 10_000;
/// How often a claim looks again for items in the place of those that others took meanwhile.
const TRIES: usize = 8;

pub(crate) async fn claim(call: &mut Call<'_>, request: &Claim) -> Result<Vec<Row>, Failure> {
    if request.from == ClaimFrom::Queue {
        return Err(unsupported("there is no queue in the layout flowcatalyst"));
    }
    let now = now(call, request.now).await?;
    let mut filter = doc! { "status": PENDING };
    if !request.skip_recent.is_zero() {
        filter.insert("createdAt", doc! { "$lte": date(earlier(now, request.skip_recent)) });
    }
    let wanted = request.rows.min(MOST);
    let (mut rows, mut limits) = (Vec::new(), request.bytes);
    for _ in 0..TRIES {
        let room = wanted - rows.len();
        if room == 0 || (limits.total == 0 && !rows.is_empty()) {
            break;
        }
        let (found, failure) = match candidates(call, &filter, room).await {
            Ok(found) => {
                let fitting = limits.fitting(found.iter().map(|(_, size)| *size));
                let keys: Vec<Bson> = found.iter().take(fitting).map(|(key, _)| key.clone()).collect();
                let (taken, failure) = take_each(call, &keys, now, &limits).await;
                let bytes: usize = taken.iter().map(|row| row.bytes).sum();
                limits.total = limits.total.saturating_sub(bytes);
                rows.extend(taken);
                // Where not all of them fit there is no room for more.
                (if fitting < found.len() { 0 } else { keys.len() }, failure)
            }
            Err(failure) => (0, Some(failure)),
        };
        match failure {
            Some(failure) if rows.is_empty() => return Err(failure),
            // What is claimed is claimed: it is answered, and what failed will show again.
            Some(_) => break,
            // Fewer than there was room for: there are no more.
            None if found < room => break,
            None => {}
        }
    }
    sort(&mut rows);
    Ok(rows)
}

/// Puts rows into the order of claims.
pub(super) fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| (&a.group, a.created_at, &a.id).cmp(&(&b.group, b.created_at, &b.id)));
}

/// What becomes of an item that is claimed now.
pub(super) fn later(now: Timestamp) -> Vec<Bson> {
    let later = doc! { "$max": [date(now), { "$add": ["$processedAt", 1_i64] }] };
    vec![Bson::from(doc! { "$set": { "status": PROCESSING, "processedAt": later } })]
}

/// The keys of items that wait, in order, and their sizes. One read for all of them: a server that sorts what it finds does so once.
async fn candidates(
    call: &mut Call<'_>,
    filter: &Document,
    limit: usize,
) -> Result<Vec<(Bson, usize)>, Failure> {
    let fields = Some(doc! { "_id": 1, SIZE: size() });
    let find = Find { filter: filter.clone(), sort: Some(order()), fields, limit };
    let found = call.find(&call.names().event, find).await?;
    Ok(found.iter().map(|document| (Fields::new(document).key(), size_of(document))).collect())
}

/// Takes those that still wait, several at once, each by a command of its own.
pub(super) async fn take_each(
    call: &Call<'_>,
    keys: &[Bson],
    now: Timestamp,
    limits: &ByteLimits,
) -> (Vec<Row>, Option<Failure>) {
    let (outbox, next) = (call.outbox(), &AtomicUsize::new(0));
    let lines = (0..AT_ONCE.min(keys.len())).map(|_| async move {
        let mut call = Call::new(outbox, None);
        let mut rows = Vec::new();
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            match take_one(&mut call, key, now, limits).await {
                Ok(row) => rows.extend(row),
                Err(failure) => return (rows, Some(failure)),
            }
        }
        (rows, None)
    });
    let (mut rows, mut failed) = (Vec::new(), None);
    for (taken, failure) in join_all(lines).await {
        rows.extend(taken);
        failed = failed.or(failure);
    }
    (rows, failed)
}

/// Takes one item, unless someone else has.
async fn take_one(
    call: &mut Call<'_>,
    key: &Bson,
    now: Timestamp,
    limits: &ByteLimits,
) -> Result<Option<Row>, Failure> {
    let waits = doc! { "_id": key, "status": PENDING };
    let taken = call.modify(&call.names().event, waits, later(now)).await?;
    let document = taken.and_then(|document| RawDocumentBuf::try_from(&document).ok());
    Ok(document.map(|document| read_taken(&document, limits).into_row()))
}

/// Reads without claiming: what waits, in the order of claims.
pub(crate) async fn fetch(call: &mut Call<'_>, request: &Fetch) -> Result<Fetched, Failure> {
    let now = now(call, request.now).await?;
    let mut fetched = Fetched { rows: Vec::new(), cursor: Cursor::default(), more: false, now };
    match &request.scope {
        Scope::Due => {}
        // Asking for nothing tells the time.
        Scope::Slots { slots, .. } if slots.is_empty() => return Ok(fetched),
        _ => return Err(unsupported("rows of the layout flowcatalyst have no numbers to be read by")),
    }
    let mut filter = doc! { "status": PENDING };
    if !request.skip_recent.is_zero() {
        filter.insert("createdAt", doc! { "$lte": date(earlier(now, request.skip_recent)) });
    }
    let find = Find { filter, sort: Some(order()), limit: request.rows.saturating_add(1), ..Find::default() };
    let mut bytes = 0_usize;
    let keep = |document: &RawDocument| {
        let full = request.bytes.reached_by(bytes) && !fetched.rows.is_empty();
        if fetched.rows.len() >= request.rows || full {
            fetched.more = true;
            return ControlFlow::Break(());
        }
        let item = read_within(document, &request.bytes);
        bytes = bytes.saturating_add(item.bytes);
        fetched.rows.push(Row { token: Token::default(), ..item.into_row() });
        ControlFlow::Continue(())
    };
    call.each(&call.names().event, find, keep).await?;
    Ok(fetched)
}

/// Gives back what was claimed too long ago; its time stays, so that the next claim has a later one.
pub(crate) async fn reap(call: &mut Call<'_>, request: &Reap) -> Result<u64, Failure> {
    let now = now(call, request.now).await?;
    let stuck = doc! { "status": PROCESSING, "$or": ended_before(earlier(now, request.older_than)) };
    set_some(call, stuck, request.rows, doc! { "status": PENDING }).await
}

/// Whether items wait, for whoever leads.
pub(crate) async fn waiting(call: &mut Call<'_>, held: &SlotSet) -> Result<Waiting, Failure> {
    let mut waiting = Waiting { ready: false, oldest: None, next_due: None };
    if held.contains(Slot(0)) {
        let filter = doc! { "status": PENDING };
        // As far as the index has it in order: a sort by ids would read all that waits.
        let sort = Some(doc! { "messageGroup": 1, "createdAt": 1 });
        let find = Find { filter, sort, fields: Some(doc! { "createdAt": 1 }), limit: 1 };
        let first = call.first(&call.names().event, find).await?;
        waiting.ready = first.is_some();
        waiting.oldest = first.and_then(|row| Fields::new(&row).time("createdAt"));
    }
    Ok(waiting)
}

fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
