//! Inserting rows: all rows of a call or none.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use pillarbox::model::{EventId, Lane, NewRow, Seq, Written};
use pillarbox::port::ErrorKind;

use crate::call::{Call, Find};
use crate::document::fresh;
use crate::error::DriverError;
use crate::number::{closed, draw, head};
use crate::outbox::pause;
use crate::row::Fields;
use crate::time::cut;

/// Attempts of a write that conflicts with a concurrent write of the same message id.
const TRIES: u32 = 8;

/// What to do with one row of a call.
enum Fate<'a> {
    Fresh(&'a NewRow),
    /// A stored row has its message id.
    There(Written),
    /// An earlier row of the same call, at this place, has its message id.
    Same(usize),
}

/// Inserts all rows or none. Without rows it only checks that the transaction can still commit.
pub(crate) async fn insert_rows(
    call: &mut Call<'_>,
    rows: &[NewRow],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, DriverError> {
    if rows.is_empty() {
        head(call).await?;
        return Ok(Vec::new());
    }
    let has_messages = rows.iter().any(|row| row.event.message_id().is_some());
    for tried in 0..TRIES {
        match insert_once(call, rows, now, tried).await {
            // The conflicting row may have one of our message ids. The next attempt then returns that row.
            Err(failure) if failure.is_duplicate() && has_messages && !call.in_transaction() => {
                pause(tried).await;
            }
            ended => return ended,
        }
    }
    Err(DriverError::lost())
}

async fn insert_once(
    call: &mut Call<'_>,
    rows: &[NewRow],
    now: Option<Timestamp>,
    tried: u32,
) -> Result<Vec<Written>, DriverError> {
    let there = written(call, rows).await?;
    let fates = fates(rows, &there)?;
    let adding: Vec<&NewRow> = fates
        .iter()
        .filter_map(|fate| match fate {
            Fate::Fresh(row) => Some(*row),
            _ => None,
        })
        .collect();
    let mut added = Vec::new();
    if !adding.is_empty() {
        // Without a transaction the server inserts row by row, so look for conflicts before the first one.
        if !call.in_transaction() && (adding.len() > 1 || tried > 0) {
            refuse_known(call, &adding).await?;
        }
        added = add(call, &adding, now).await?;
    }
    let mut added = added.into_iter();
    let mut answers: Vec<Written> = Vec::with_capacity(rows.len());
    for fate in fates {
        let answer = match fate {
            Fate::Fresh(_) => added.next().ok_or_else(DriverError::lost)?,
            Fate::There(written) => written,
            Fate::Same(place) => Written { fresh: false, ..answers[place].clone() },
        };
        answers.push(answer);
    }
    Ok(answers)
}

/// The stored rows that have the same message ids.
async fn written(call: &mut Call<'_>, rows: &[NewRow]) -> Result<HashMap<String, Written>, DriverError> {
    let ids: Vec<&str> = rows.iter().filter_map(|row| row.event.message_id()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let find = Find {
        filter: doc! { "message_id": { "$in": ids } },
        fields: Some(doc! { "message_id": 1, "seq": 1, "slot": 1 }),
        ..Find::default()
    };
    let found = call.find(&call.names().event, find).await?;
    let one = |document: &RawDocumentBuf| {
        let mut fields = Fields::new(document);
        let message = fields.text("message_id")?.to_owned();
        let delayed = fields.number("slot") == Some(Lane::DELAYED.0.into());
        Some((message, Written { id: fields.id(), seq: fields.seq(), fresh: false, delayed }))
    };
    Ok(found.iter().filter_map(one).collect())
}

/// Decides what to do with each row. The message id takes precedence; an event id that occurs twice in one
/// call is a conflict.
fn fates<'a>(rows: &'a [NewRow], there: &HashMap<String, Written>) -> Result<Vec<Fate<'a>>, DriverError> {
    let mut messages: HashMap<&str, usize> = HashMap::new();
    let mut ids: HashSet<&EventId> = HashSet::new();
    let mut fates = Vec::with_capacity(rows.len());
    for (place, row) in rows.iter().enumerate() {
        let message = row.event.message_id();
        let fate = match message {
            Some(message) if there.contains_key(message) => Fate::There(there[message].clone()),
            Some(message) if messages.contains_key(message) => Fate::Same(messages[message]),
            _ => Fate::Fresh(row),
        };
        if matches!(fate, Fate::Fresh(_)) {
            if !ids.insert(row.event.id()) {
                return Err(taken());
            }
            messages.extend(message.map(|message| (message, place)));
        }
        fates.push(fate);
    }
    Ok(fates)
}

pub(crate) fn taken() -> DriverError {
    DriverError::Refused(ErrorKind::Conflict, "an event with this id already exists".to_owned())
}

/// Fails if one of these event ids exists.
async fn refuse_known(call: &mut Call<'_>, rows: &[&NewRow]) -> Result<(), DriverError> {
    let ids: Vec<&str> = rows.iter().map(|row| row.event.id().as_str()).collect();
    let find =
        Find { filter: doc! { "_id": { "$in": ids } }, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    match call.first(&call.names().event, find).await? {
        Some(_) => Err(taken()),
        None => Ok(()),
    }
}

/// Inserts rows whose ids do not exist yet.
pub(crate) async fn add(
    call: &mut Call<'_>,
    rows: &[&NewRow],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, DriverError> {
    let drawn = draw(call, rows.len()).await?;
    let now = now.map_or(drawn.now, cut);
    let mark = ObjectId::new();
    let mut documents: Vec<Document> = Vec::with_capacity(rows.len());
    let mut written: Vec<Written> = Vec::with_capacity(rows.len());
    for (row, seq) in rows.iter().zip(drawn.first..) {
        let made = fresh(row, seq, now, mark);
        let id = row.event.id().clone();
        written.push(Written { id, seq: Seq(seq), fresh: true, delayed: made.delayed });
        documents.push(made.document);
    }
    let added = call.insert(&call.names().event, documents).await;
    if let Err(failure) = &added
        && failure.is_answer()
        && !call.in_transaction()
        && rows.len() > 1
    {
        take_back(call, rows, mark).await?;
    }
    // Without an answer the rows may exist: the caller must be told that the outcome is unknown.
    let added = match closed(call, &drawn, added) {
        Err(failure) if failure.is_unanswered() && !call.in_transaction() => {
            Err(DriverError::Open(Box::new(failure)))
        }
        ended => ended,
    };
    added.map(|()| written)
}

/// Deletes the rows that this call inserted before the error. The mark spares rows of other calls.
async fn take_back(call: &mut Call<'_>, rows: &[&NewRow], mark: ObjectId) -> Result<(), DriverError> {
    let ids: Vec<&str> = rows.iter().map(|row| row.event.id().as_str()).collect();
    call.delete(&call.names().event, doc! { "_id": { "$in": ids }, "mark": mark }).await.map(drop)
}
