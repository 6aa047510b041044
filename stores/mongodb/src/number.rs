//! The order number: a counter, and who has drawn numbers whose rows are not there yet.
//!
//! In a transaction the counter is raised in it. Whoever raises it next conflicts until that transaction has ended, so
//! numbers come in the order of commits. Without transactions a draw is noted beside the counter, and struck out once
//! its rows are in; readers do not go past it meanwhile.

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::port::ErrorKind;

use crate::call::{Call, whole};
use crate::error::Failure;
use crate::time::from_date;

pub(crate) const COUNTER: &str = "number";

/// How many draws may be open at once.
const OPEN: usize = 1_000;
/// How long after the last moment of a call its draw still holds readers up, in milliseconds.
const GRACE_MS: i64 = 25_000;

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
    /// The note of it, where there is no transaction.
    open: Option<ObjectId>,
}

/// Reads the counter. Fails where the collections were not made.
pub(crate) async fn head(call: &mut Call<'_>) -> Result<Head, Failure> {
    let found = call
        .aggregate(
            &call.names().meta,
            vec![
                doc! { "$match": { "_id": COUNTER } },
                doc! { "$project": { "value": 1, "open": 1, "now": "$$NOW" } },
            ],
        )
        .await?;
    let counter = found.first().ok_or_else(Failure::missing)?;
    let now = counter.get_datetime("now").copied().map_err(|_| Failure::missing())?;
    let last = whole(counter, "value").ok_or_else(Failure::missing)?;
    let open = counter.get_array("open").map(Vec::as_slice).unwrap_or_default();
    let held = open
        .iter()
        .filter_map(Bson::as_document)
        .filter(|draw| draw.get_datetime("until").is_ok_and(|until| *until > now))
        .filter_map(|draw| whole(draw, "first"));
    Ok(Head { last, vouched: held.min().map_or(last, |first| last.min(first - 1)), now: from_date(now) })
}

/// Draws so many numbers.
pub(crate) async fn draw(call: &mut Call<'_>, count: usize) -> Result<Drawn, Failure> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let raised = doc! { "value": { "$add": ["$value", count] }, "drawn_at": "$$NOW" };
    if call.in_transaction() {
        let counter = raise(call, doc! { "_id": COUNTER }, doc! { "$set": raised }).await?;
        return drawn(counter.as_ref(), count, None);
    }
    let id = ObjectId::new();
    let until_ms = i64::try_from(call.outbox().timeout.as_millis()).unwrap_or(i64::MAX / 2) + GRACE_MS;
    let note =
        doc! { "id": id, "first": { "$add": ["$value", 1_i64] }, "until": { "$add": ["$$NOW", until_ms] } };
    let alive =
        doc! { "$filter": { "input": "$open", "as": "draw", "cond": { "$gt": ["$$draw.until", "$$NOW"] } } };
    let mut change = raised;
    change.insert("open", doc! { "$concatArrays": [alive, [note]] });
    let room = doc! { "_id": COUNTER, format!("open.{}", OPEN - 1): { "$exists": false } };
    let counter = raise(call, room, doc! { "$set": change }).await?;
    if counter.is_none() {
        head(call).await?;
        let detail = "too many writes are under way at once";
        return Err(Failure::Refused(ErrorKind::Conflict, detail.to_owned()));
    }
    drawn(counter.as_ref(), count, Some(id))
}

/// Strikes a draw out: its rows are in, or will never be. A draw whose outcome is not known is left to run out.
pub(crate) async fn close(call: &mut Call<'_>, drawn: &Drawn) -> Result<(), Failure> {
    let Some(id) = drawn.open else { return Ok(()) };
    let strike = doc! { "$pull": { "open": { "id": id } } };
    let statement = doc! { "q": { "_id": COUNTER }, "u": strike };
    call.update(&call.names().meta, vec![statement]).await.map(drop)
}

/// Closes the draw once its work has ended, unless nobody knows whether it has.
pub(crate) async fn closed<T>(
    call: &mut Call<'_>,
    drawn: &Drawn,
    ended: Result<T, Failure>,
) -> Result<T, Failure> {
    match ended {
        Err(failure) if !failure.is_answer() => Err(failure),
        ended => {
            let closed = close(call, drawn).await;
            let value = ended?;
            closed.map(|()| value)
        }
    }
}

async fn raise(call: &mut Call<'_>, of: Document, change: Document) -> Result<Option<Document>, Failure> {
    match call.modify(&call.names().meta, of, vec![Bson::from(change)]).await {
        // A server may refuse to change what is in no collection.
        Err(failure) if failure.is_answer() && !call.in_transaction() => {
            head(call).await?;
            Err(failure)
        }
        counter => counter,
    }
}

fn drawn(counter: Option<&Document>, count: i64, open: Option<ObjectId>) -> Result<Drawn, Failure> {
    let counter = counter.ok_or_else(Failure::missing)?;
    let last = whole(counter, "value").ok_or_else(Failure::missing)?;
    let now = counter.get_datetime("drawn_at").copied().map_err(|_| Failure::missing())?;
    Ok(Drawn { first: last - count + 1, now: from_date(now), open })
}
