//! Sends the last rows and COMMIT as one pipeline: everything goes out before the first answer.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join3;
use pillarbox::model::{NewColumns, NewRow, Seq, Written};
use pillarbox::port::ErrorKind;
use pillarbox_store_kit::ServerFailure as _;
use tokio_postgres::Row;

use super::call::{Call, Session, all_written, by_message_id};
use crate::error::DriverError;
use crate::insert::merge;
use crate::sql::Sql;

/// The result of a pipelined commit.
pub(super) struct PipelinedCommit {
    pub(super) result: Result<Vec<Written>, Unconfirmed>,
    /// Whether the server has answered COMMIT without an error, so that no transaction is open.
    pub(super) closed: bool,
}

/// Why the commit is not confirmed.
pub(super) enum Unconfirmed {
    /// Nothing was committed.
    Refused(DriverError),
    /// The transaction may have been committed.
    Unknown(DriverError),
}

impl PipelinedCommit {
    fn refused(failure: impl Into<DriverError>) -> Self {
        Self { result: Err(Unconfirmed::Refused(failure.into())), closed: false }
    }
}

/// Inserts the rows and commits. Calls `inserted` when the server has confirmed the insert.
pub(super) async fn insert_and_commit(
    session: Session<'_>,
    sql: &Sql,
    rows: &[NewRow],
    inserted: impl FnOnce() + Send,
) -> PipelinedCommit {
    let values = NewColumns::of_all(rows);
    let insert = match session.ready(Call::insert(sql, &values)).await {
        Ok(ready) => ready,
        Err(error) => return PipelinedCommit::refused(error),
    };
    // Look existing rows up in the same pipeline: after COMMIT the transaction is over.
    let lookup = if values.iter().any(|row| row.event.message_id().is_some()) {
        match session.ready(Call::written(sql, &values)).await {
            Ok(ready) => Some(ready),
            Err(error) => return PipelinedCommit::refused(error),
        }
    } else {
        None
    };
    let failed = AtomicBool::new(false);
    let noted = |result: Result<Vec<Row>, DriverError>| {
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
        // If the insert failed before it was sent, COMMIT would commit the
        // application's rows without the events.
        if failed.load(Ordering::Relaxed) {
            return None;
        }
        Some(session.client.batch_execute("COMMIT").await.map_err(DriverError::from))
    };
    // `join3` polls in this order, and each future sends on its first poll: the statements go out in order.
    let (added, there, committed) = join3(insert, lookup, commit).await;
    let closed = matches!(committed, Some(Ok(())));
    let before = added.and_then(|added| there.map(|there| (added, there)));
    let result = match (before, committed) {
        (Ok((added, there)), Some(Ok(()))) => Ok(outcome(&values, &added, &there)),
        (Ok(_), Some(Err(failure))) if failure.is_answer() && failure.spares_connection() => {
            Err(Unconfirmed::Refused(failure))
        }
        (Ok(_), Some(Err(failure))) => Err(Unconfirmed::Unknown(failure)),
        // After a failed statement, COMMIT is answered without an error but commits nothing.
        (Err(failure), Some(_)) if failure.is_answer() => Err(Unconfirmed::Refused(failure)),
        (Err(failure), Some(_)) => Err(Unconfirmed::Unknown(failure)),
        (Err(failure), None) => Err(Unconfirmed::Refused(failure)),
        (Ok(_), None) => Err(Unconfirmed::Refused(unsent())),
    };
    PipelinedCommit { result, closed }
}

/// The written rows. They are committed, so this cannot fail: the reader finds rows
/// that cannot be decoded here.
fn outcome(values: &[NewColumns<'_>], added: &[Row], there: &[Row]) -> Vec<Written> {
    let added = all_written(added).unwrap_or_default();
    if added.len() == values.len() {
        return added;
    }
    let there = by_message_id(there).unwrap_or_default();
    let deleted_since = |row: &NewColumns<'_>| {
        Ok(Written { id: row.event.id().clone(), seq: Seq(0), fresh: false, delayed: false })
    };
    merge(values, added, there, deleted_since).unwrap_or_default()
}

fn unsent() -> DriverError {
    DriverError::Refused(ErrorKind::Unexpected, "COMMIT was not sent".to_owned())
}
