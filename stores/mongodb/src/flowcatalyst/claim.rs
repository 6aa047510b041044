//! Claiming items, one command each: the time of the claim is its token, so it is later with each claim.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use pillarbox::model::{Row, Slot, SlotSet, Token};
use pillarbox::port::{Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Reap, Scope};

use super::item::{PENDING, PROCESSING, date, ended_before, now, order, read_item};
use crate::call::{Call, Find};
use crate::error::Failure;
use crate::membership::Waiting;
use crate::row::Fields;
use crate::time::earlier;

/// How many commands of one claim are under way at once.
const AT_ONCE: usize = 8;
/// How many items one claim takes at most.
const MOST: usize = 10_000;

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
    let left = AtomicUsize::new(wanted);
    let outbox = call.outbox();
    let lines = join_all((0..AT_ONCE.min(wanted)).map(|_| {
        let (filter, left) = (&filter, &left);
        async move { take(&mut Call::new(outbox, None), filter, now, left).await }
    }));
    let (mut rows, mut failed) = (Vec::new(), None);
    for (taken, failure) in lines.await {
        rows.extend(taken);
        failed = failed.or(failure);
    }
    match failed {
        // What is claimed is claimed: it is answered, and what failed will show again.
        Some(failure) if rows.is_empty() => Err(failure),
        _ => {
            rows.sort_by(|a, b| (&a.group, a.created_at, &a.id).cmp(&(&b.group, b.created_at, &b.id)));
            Ok(rows)
        }
    }
}

/// Takes items one after another while there are any and some are still wanted.
async fn take(
    call: &mut Call<'_>,
    filter: &Document,
    now: Timestamp,
    left: &AtomicUsize,
) -> (Vec<Row>, Option<Failure>) {
    let later = doc! { "$max": [date(now), { "$add": ["$processedAt", 1_i64] }] };
    let change = vec![Bson::from(doc! { "$set": { "status": PROCESSING, "processedAt": later } })];
    let mut rows = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let taken = call.modify_first(&call.names().event, filter.clone(), order(), change.clone()).await;
        match taken.map(|found| found.map(|document| RawDocumentBuf::try_from(&document))) {
            Ok(Some(Ok(document))) => rows.push(read_item(&document).into_row()),
            Ok(Some(Err(_))) => {}
            Ok(None) => break,
            Err(failure) => return (rows, Some(failure)),
        }
    }
    (rows, None)
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
    for document in call.find(&call.names().event, find).await? {
        if fetched.rows.len() >= request.rows || (bytes >= request.bytes && !fetched.rows.is_empty()) {
            fetched.more = true;
            break;
        }
        let row = Row { token: Token::default(), ..read_item(&document).into_row() };
        bytes = bytes.saturating_add(row.event.as_ref().map_or(0, |event| event.payload().size()));
        fetched.rows.push(row);
    }
    Ok(fetched)
}

/// Gives back what was claimed too long ago; its time stays, so that the next claim has a later one.
pub(crate) async fn reap(call: &mut Call<'_>, request: &Reap) -> Result<u64, Failure> {
    let now = now(call, request.now).await?;
    let stuck = doc! { "status": PROCESSING, "$or": ended_before(earlier(now, request.older_than)) };
    if request.rows == 0 {
        return Ok(0);
    }
    let fields = Some(doc! { "_id": 1 });
    let find = Find { filter: stuck.clone(), fields, limit: request.rows.min(MOST), ..Find::default() };
    let found = call.find(&call.names().event, find).await?;
    if found.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Bson> = found.iter().map(|row| Fields::new(row).key()).collect();
    let mut filter = stuck;
    filter.insert("_id", doc! { "$in": ids });
    call.update_all(&call.names().event, filter, doc! { "$set": { "status": PENDING } }).await
}

/// Whether items wait, for whoever leads.
pub(crate) async fn waiting(call: &mut Call<'_>, held: &SlotSet) -> Result<Waiting, Failure> {
    let mut waiting = Waiting { ready: false, oldest: None, next_due: None };
    if held.contains(Slot(0)) {
        let filter = doc! { "status": PENDING };
        let find = Find { filter, sort: Some(order()), fields: Some(doc! { "createdAt": 1 }), limit: 1 };
        let first = call.first(&call.names().event, find).await?;
        waiting.ready = first.is_some();
        waiting.oldest = first.and_then(|row| Fields::new(&row).time("createdAt"));
    }
    Ok(waiting)
}

fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
