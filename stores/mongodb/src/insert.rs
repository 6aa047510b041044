//! Adding rows: all of a call or none of them.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use pillarbox::model::{EventId, Lane, NewRow, Seq, Written};
use pillarbox::port::ErrorKind;

use crate::call::{Call, Find};
use crate::document::fresh;
use crate::error::Failure;
use crate::number::{closed, draw, head};
use crate::outbox::pause;
use crate::row::Fields;
use crate::time::cut;

/// How often a write is made again whose message id someone else wrote at the same moment.
const TRIES: u32 = 8;

/// What is to become of one row.
enum Fate<'a> {
    Fresh(&'a NewRow),
    /// A row with its message id is there.
    There(Written),
    /// A row before it in the call has its message id.
    Same(usize),
}

/// Adds all rows, or none of them. Without rows it only tells whether the transaction can still commit.
pub(crate) async fn insert_rows(
    call: &mut Call<'_>,
    rows: &[NewRow],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, Failure> {
    if rows.is_empty() {
        head(call).await?;
        return Ok(Vec::new());
    }
    let has_messages = rows.iter().any(|row| row.event.message_id().is_some());
    for tried in 0..TRIES {
        match insert_once(call, rows, now, tried).await {
            // The row in the way may have a message id of ours: then it is the answer.
            Err(failure)
                if (failure.is_duplicate() && has_messages || failure.has_lost())
                    && !call.in_transaction() =>
            {
                pause(tried).await;
            }
            ended => return ended,
        }
    }
    Err(Failure::lost())
}

async fn insert_once(
    call: &mut Call<'_>,
    rows: &[NewRow],
    now: Option<Timestamp>,
    tried: u32,
) -> Result<Vec<Written>, Failure> {
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
        // Without a transaction rows go in one after another: it is better to know of a conflict before the first.
        if !call.in_transaction() && (adding.len() > 1 || tried > 0) {
            refuse_known(call, &adding).await?;
        }
        added = add(call, &adding, now).await?;
    }
    let mut added = added.into_iter();
    let mut answers: Vec<Written> = Vec::with_capacity(rows.len());
    for fate in fates {
        let answer = match fate {
            Fate::Fresh(_) => added.next().ok_or_else(Failure::lost)?,
            Fate::There(written) => written,
            Fate::Same(place) => Written { fresh: false, ..answers[place].clone() },
        };
        answers.push(answer);
    }
    Ok(answers)
}

/// The rows that have message ids of these.
async fn written(call: &mut Call<'_>, rows: &[NewRow]) -> Result<HashMap<String, Written>, Failure> {
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

/// What each row will be. The message id is looked at first; an event id twice in one call is a conflict.
fn fates<'a>(rows: &'a [NewRow], there: &HashMap<String, Written>) -> Result<Vec<Fate<'a>>, Failure> {
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

pub(crate) fn taken() -> Failure {
    Failure::Refused(ErrorKind::Conflict, "an event with this id is there already".to_owned())
}

/// Fails if one of these event ids is there.
async fn refuse_known(call: &mut Call<'_>, rows: &[&NewRow]) -> Result<(), Failure> {
    let ids: Vec<&str> = rows.iter().map(|row| row.event.id().as_str()).collect();
    let find =
        Find { filter: doc! { "_id": { "$in": ids } }, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    match call.first(&call.names().event, find).await? {
        Some(_) => Err(taken()),
        None => Ok(()),
    }
}

/// Adds rows whose ids are not there.
pub(crate) async fn add(
    call: &mut Call<'_>,
    rows: &[&NewRow],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, Failure> {
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
    let added = match closed(call, &drawn, added) {
        Err(failure) if failure.is_unanswered() && !call.in_transaction() => {
            Err(Failure::Open(Box::new(failure)))
        }
        ended => ended,
    };
    added.map(|()| written)
}

/// Deletes what this call has written before it was refused.
async fn take_back(call: &mut Call<'_>, rows: &[&NewRow], mark: ObjectId) -> Result<(), Failure> {
    let ids: Vec<&str> = rows.iter().map(|row| row.event.id().as_str()).collect();
    call.delete(&call.names().event, doc! { "_id": { "$in": ids }, "mark": mark }).await.map(drop)
}
