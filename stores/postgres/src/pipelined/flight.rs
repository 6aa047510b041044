//! The last rows and COMMIT in one flight: all is sent before any of it is answered.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join3;
use pillarbox::model::{EventId, NewRow, Seq, Written};
use pillarbox::port::ErrorKind;
use pillarbox_store_kit::ServerFailure as _;
use tokio_postgres::Row;

use super::call::{Call, Session, all_written, by_message_id};
use crate::error::Failure;
use crate::insert::{Values, merge};
use crate::sql::Sql;

/// What a flight came back with.
pub(super) struct Landed {
    pub(super) result: Result<Vec<Written>, Ended>,
    /// Whether the server has answered COMMIT, so that no transaction is open.
    pub(super) closed: bool,
}

/// Why nothing is known to be committed.
pub(super) enum Ended {
    /// Nothing is.
    Refused(Failure),
    /// It may be.
    Unknown(Failure),
}

impl Landed {
    fn refused(failure: impl Into<Failure>) -> Self {
        Self { result: Err(Ended::Refused(failure.into())), closed: false }
    }
}

/// Inserts the rows and commits. `inserted` runs when the insert is answered.
pub(super) async fn fly(
    session: Session<'_>,
    sql: &Sql,
    rows: &[NewRow],
    inserted: impl FnOnce() + Send,
) -> Landed {
    let values: Vec<Values<'_>> = rows.iter().map(Values::new).collect();
    let insert = match session.ready(Call::insert(sql, &values)).await {
        Ok(ready) => ready,
        Err(error) => return Landed::refused(error),
    };
    // Asked with the rest which rows were there already: afterwards the transaction is over.
    let lookup = if values.iter().any(|row| row.message_id.is_some()) {
        match session.ready(Call::written(sql, &values)).await {
            Ok(ready) => Some(ready),
            Err(error) => return Landed::refused(error),
        }
    } else {
        None
    };
    let failed = AtomicBool::new(false);
    let noted = |result: Result<Vec<Row>, Failure>| {
        failed.fetch_or(result.is_err(), Ordering::Relaxed);
        result
    };
    let insert = async {
        let added = noted(session.run(insert).await);
        if added.is_ok() {
            inserted();
        }
        added
    };
    let lookup = async {
        match lookup.filter(|_| !failed.load(Ordering::Relaxed)) {
            Some(lookup) => noted(session.run(lookup).await),
            None => Ok(Vec::new()),
        }
    };
    let commit = async {
        // An insert that failed before it was sent would leave COMMIT alone with the business rows.
        if failed.load(Ordering::Relaxed) {
            return None;
        }
        Some(session.client.batch_execute("COMMIT").await.map_err(Failure::from))
    };
    // Polled in this order, and each sends when it is first polled.
    let (added, there, committed) = join3(insert, lookup, commit).await;
    let closed = matches!(committed, Some(Ok(())));
    let before = added.and_then(|added| there.map(|there| (added, there)));
    let result = match (before, committed) {
        (Ok((added, there)), Some(Ok(()))) => Ok(outcome(&values, &added, &there)),
        (Ok(_), Some(Err(failure))) if failure.is_answer() && failure.spares_connection() => {
            Err(Ended::Refused(failure))
        }
        (Ok(_), Some(Err(failure))) => Err(Ended::Unknown(failure)),
        // A COMMIT that follows a failed statement is answered like any other, and commits nothing.
        (Err(failure), Some(_)) if failure.is_answer() => Err(Ended::Refused(failure)),
        (Err(failure), Some(_)) => Err(Ended::Unknown(failure)),
        (Err(failure), None) => Err(Ended::Refused(failure)),
        (Ok(_), None) => Err(Ended::Refused(unsent())),
    };
    Landed { result, closed }
}

/// What was written. It is committed, so there is no way back: what can't be told is left to the reader.
fn outcome(values: &[Values<'_>], added: &[Row], there: &[Row]) -> Vec<Written> {
    let added = all_written(added).unwrap_or_default();
    if added.len() == values.len() {
        return added;
    }
    let there = by_message_id(there).unwrap_or_default();
    let deleted_since = |row: &Values<'_>| {
        Ok(Written { id: EventId::from_row(row.event_id), seq: Seq(0), fresh: false, delayed: false })
    };
    merge(values, added, there, deleted_since).unwrap_or_default()
}

fn unsent() -> Failure {
    Failure::Refused(ErrorKind::Unexpected, "COMMIT was not sent".to_owned())
}
