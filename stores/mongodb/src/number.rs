//! The sequence number: a counter, with notes of drawn numbers whose rows may still appear.
//!
//! The allocator draws numbers outside of transactions. If a process crashed during a transaction that raised
//! the counter, the server would keep the counter locked for a minute. Beside the counter each process notes
//! the lowest number whose row may still appear, and readers do not pass it.

use std::sync::Arc;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};

use crate::allocator::{self, Round, crowded};
use crate::call::{Call, Find, whole};
use crate::error::DriverError;
use crate::outbox::Outbox;
use crate::time::from_date;

pub(crate) const COUNTER: &str = "number";

/// The maximum number of processes with open draws.
const NOTES: usize = 1_000;

/// The state of the counter.
pub(crate) struct Head {
    /// The last number drawn.
    pub(crate) last: i64,
    /// Every number up to this one has its row already or never gets one.
    pub(crate) vouched: i64,
    /// The current time of the database.
    pub(crate) now: Timestamp,
}

/// Consecutive numbers reserved for one caller.
pub(crate) struct Drawn {
    pub(crate) first: i64,
    /// The current time of the database.
    pub(crate) now: Timestamp,
    /// The allocator's id of this draw.
    pub(crate) open: u64,
}

/// The state of the counter after a draw.
pub(crate) struct Raised {
    /// The last number drawn.
    pub(crate) last: i64,
    /// The current time of the database.
    pub(crate) now: Timestamp,
}

/// Reads the counter. Fails if the collections do not exist.
pub(crate) async fn head(call: &mut Call<'_>) -> Result<Head, DriverError> {
    let find = Find {
        filter: doc! { "_id": COUNTER },
        fields: Some(doc! { "value": 1, "open": 1, "now": "$$NOW" }),
        ..Find::default()
    };
    let quiet = call.outbox().allocator.quiet().filter(|_| !call.in_transaction());
    let found = call.first(&call.names().meta, find).await?;
    // Queried after the counter was read: the rows of a draw that has ended by now are committed, and the
    // next read sees them.
    let own = call.outbox().allocator.own(quiet);
    let counter = Document::try_from(&*found.ok_or_else(DriverError::missing)?)?;
    let now = counter.get_datetime("now").copied().map_err(|_| DriverError::missing())?;
    let last = whole(&counter, "value").ok_or_else(DriverError::missing)?;
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

/// Draws `count` numbers.
pub(crate) async fn draw(call: &Call<'_>, count: usize) -> Result<Drawn, DriverError> {
    allocator::draw(call.outbox(), i64::try_from(count).unwrap_or(i64::MAX)).await
}

/// Closes a draw after its work. In a transaction, the end of the transaction closes it instead.
///
/// If the outcome of the work is unknown, its rows may still appear, so the draw stays open until it expires.
pub(crate) fn closed<T>(
    call: &mut Call<'_>,
    drawn: &Drawn,
    ended: Result<T, DriverError>,
) -> Result<T, DriverError> {
    if call.in_transaction() {
        call.draws.push(drawn.open);
    } else if ended.as_ref().err().is_none_or(DriverError::is_answer) {
        allocator::end(call.outbox(), drawn.open);
    }
    ended
}

/// Raises the counter for one round of the allocator and replaces the note of this process in the same
/// command. Also drops expired notes.
pub(crate) async fn raise(outbox: &Arc<Outbox>, round: &Round) -> Result<Raised, DriverError> {
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
        // No match: either the counter is missing, which `head` reports, or too many processes have notes.
        Ok(None) => {
            head(&mut call).await?;
            Err(crowded())
        }
        // A server may refuse to change a missing collection. `head` then reports the missing schema instead.
        Err(failure) if failure.is_answer() => {
            head(&mut call).await?;
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

fn raised_to(counter: &Document) -> Result<Raised, DriverError> {
    let last = whole(counter, "value").ok_or_else(DriverError::missing)?;
    let now = counter.get_datetime("drawn_at").copied().map_err(|_| DriverError::missing())?;
    Ok(Raised { last, now: from_date(now) })
}
