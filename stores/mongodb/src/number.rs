//! The order number: a counter, and who has drawn numbers whose rows are not there yet.
//!
//! The allocator draws numbers, never inside a transaction: one that its process has died in stays open on the server for a
//! minute, and would keep the counter from all others. It notes beside the counter from which number on rows may still
//! come; readers do not go past it meanwhile.

use std::sync::Arc;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};

use crate::allocator::{self, Round, crowded};
use crate::call::{Call, Find, whole};
use crate::error::Failure;
use crate::outbox::Outbox;
use crate::time::from_date;

pub(crate) const COUNTER: &str = "number";

/// How many processes may have draws open at once.
const NOTES: usize = 1_000;

/// Where the counter stands.
pub(crate) struct Head {
    /// The last number that was drawn.
    pub(crate) last: i64,
    /// Every number up to here has its row, or will never have one.
    pub(crate) vouched: i64,
    /// The database's now.
    pub(crate) now: Timestamp,
}

/// Numbers that nobody else has.
pub(crate) struct Drawn {
    pub(crate) first: i64,
    /// The database's now.
    pub(crate) now: Timestamp,
    /// What the allocator knows it by.
    pub(crate) open: u64,
}

/// The counter after a draw.
pub(crate) struct Raised {
    /// The last number that was drawn.
    pub(crate) last: i64,
    /// The database's now.
    pub(crate) now: Timestamp,
}

/// Reads the counter. Fails where the collections were not made.
pub(crate) async fn head(call: &mut Call<'_>) -> Result<Head, Failure> {
    let find = Find {
        filter: doc! { "_id": COUNTER },
        fields: Some(doc! { "value": 1, "open": 1, "now": "$$NOW" }),
        ..Find::default()
    };
    let quiet = call.outbox().allocator.quiet().filter(|_| !call.in_transaction());
    let found = call.first(&call.names().meta, find).await?;
    // Asked after the answer: what has ended by now the next read sees.
    let own = call.outbox().allocator.own(quiet);
    let counter = Document::try_from(&*found.ok_or_else(Failure::missing)?)?;
    let now = counter.get_datetime("now").copied().map_err(|_| Failure::missing())?;
    let last = whole(&counter, "value").ok_or_else(Failure::missing)?;
    let open = counter.get_array("open").map(Vec::as_slice).unwrap_or_default();
    let ours = |note: &Document| {
        own.as_ref().is_some_and(|own| note.get_object_id("id").is_ok_and(|id| id == own.note))
    };
    let held = open
        .iter()
        .filter_map(Bson::as_document)
        .filter(|note| note.get_datetime("until").is_ok_and(|until| *until > now) && !ours(note))
        .filter_map(|note| whole(note, "first"))
        .chain(own.as_ref().and_then(|own| own.lowest));
    Ok(Head { last, vouched: held.min().map_or(last, |first| last.min(first - 1)), now: from_date(now) })
}

/// Draws so many numbers.
pub(crate) async fn draw(call: &Call<'_>, count: usize) -> Result<Drawn, Failure> {
    allocator::draw(call.outbox(), i64::try_from(count).unwrap_or(i64::MAX)).await
}

/// Ends the draw once its work has ended, which in a transaction is the end of that. One of whose work nobody knows
/// whether it has is left to run out.
pub(crate) fn closed<T>(call: &mut Call<'_>, drawn: &Drawn, ended: Result<T, Failure>) -> Result<T, Failure> {
    if call.in_transaction() {
        call.draws.push(drawn.open);
    } else if ended.as_ref().err().is_none_or(Failure::is_answer) {
        allocator::end(call.outbox(), drawn.open);
    }
    ended
}

/// Raises the counter for a round of the allocator, and puts the note of this process in its place.
pub(crate) async fn raise(outbox: &Arc<Outbox>, round: &Round) -> Result<Raised, Failure> {
    let mut call = Call::new(outbox, None);
    let until_ms = i64::try_from(outbox.hold().as_millis()).unwrap_or(i64::MAX / 2);
    let alive = doc! { "$gt": ["$$note.until", "$$NOW"] };
    let of_others = doc! { "$ne": ["$$note.id", round.note] };
    let others =
        doc! { "$filter": { "input": "$open", "as": "note", "cond": { "$and": [alive, of_others] } } };
    let mut notes = vec![Bson::from(others)];
    if round.lowest.is_some() || round.count.is_some() {
        let first = round.lowest.map_or_else(|| Bson::from(doc! { "$add": ["$value", 1_i64] }), Bson::from);
        let note = doc! { "id": round.note, "first": first, "until": { "$add": ["$$NOW", until_ms] } };
        notes.push(Bson::from(vec![Bson::from(note)]));
    }
    let mut change = doc! { "open": { "$concatArrays": notes }, "drawn_at": "$$NOW" };
    let mut counter = doc! { "_id": COUNTER };
    if let Some(count) = round.count {
        change.insert("value", doc! { "$add": ["$value", count] });
        counter.insert(format!("open.{}", NOTES - 1), doc! { "$exists": false });
    }
    let pipeline = vec![Bson::from(doc! { "$set": change })];
    match call.modify(&outbox.names.meta, counter, pipeline).await {
        Ok(Some(counter)) => raised_to(&counter),
        Ok(None) => {
            head(&mut call).await?;
            Err(crowded())
        }
        // A server may refuse to change what is in no collection.
        Err(failure) if failure.is_answer() => {
            head(&mut call).await?;
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

fn raised_to(counter: &Document) -> Result<Raised, Failure> {
    let last = whole(counter, "value").ok_or_else(Failure::missing)?;
    let now = counter.get_datetime("drawn_at").copied().map_err(|_| Failure::missing())?;
    Ok(Raised { last, now: from_date(now) })
}
