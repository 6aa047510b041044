//! Inserting rows within an open transaction.

use jiff::Timestamp;
use pillarbox::model::{EventId, Lane, NewRow, Payload, Placement, Seq, When, Written};
use pillarbox::port::ErrorKind;
use rusqlite::{Connection, ErrorCode, params};

use crate::error::Failure;
use crate::kind::Kind;
use crate::row::lossy_text;
use crate::sql::Sql;

/// Refuses a connection in autocommit mode, where every statement would commit by itself.
pub(crate) fn open_transaction(connection: &Connection) -> Result<(), Failure> {
    if connection.is_autocommit() {
        let detail = "no transaction is open on this connection".to_owned();
        return Err(Failure::Refused(ErrorKind::InvalidInput, detail));
    }
    Ok(())
}

/// Inserts all rows or none.
pub(crate) fn insert_rows<K: Kind>(
    connection: &Connection,
    sql: &Sql,
    rows: &[NewRow],
    now: Timestamp,
) -> Result<Vec<Written>, Failure> {
    open_transaction(connection)?;
    match rows {
        [] => Ok(Vec::new()),
        [_] => K::insert(connection, sql, rows, now),
        rows => all_or_none(connection, || K::insert(connection, sql, rows, now)),
    }
}

/// Runs a change under a savepoint, so that a failure undoes only that change.
pub(crate) fn all_or_none<T>(
    connection: &Connection,
    insert: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    connection.prepare_cached("SAVEPOINT pillarbox_rows")?.execute([])?;
    let written = insert();
    if let Err(failure) = written {
        // An error that has ended the whole transaction leaves no savepoint to roll back to.
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK TO pillarbox_rows; RELEASE pillarbox_rows")?;
        }
        return Err(failure);
    }
    connection.prepare_cached("RELEASE pillarbox_rows")?.execute([])?;
    written
}

/// Inserts one row.
pub(crate) fn insert_row(
    connection: &Connection,
    sql: &Sql,
    row: &NewRow,
    now: Timestamp,
) -> Result<Written, Failure> {
    let event = &row.event;
    let now_us = now.as_microsecond();
    let at = |when: When| when.resolve(now).as_microsecond();
    let due_us = event.due().map(at);
    let delayed = due_us.is_some_and(|due| due > now_us);
    let lane = match row.placement {
        Placement::Queue => Some(Lane::QUEUE.0),
        _ if delayed => Some(Lane::DELAYED.0),
        Placement::Lane(lane) => Some(lane.0),
        Placement::Slot => None,
    };
    let (json, bytes) = match event.payload() {
        Payload::Json(text) => (Some(&**text), None),
        Payload::Bytes(bytes) => (None, Some(&**bytes)),
    };
    let added = connection
        .prepare_cached(&sql.insert)?
        .execute(params![
            event.id().as_str(),
            event.event_type(),
            event.aggregate_type(),
            event.aggregate_id(),
            event.tenant_id(),
            due_us.map_or(now_us, |due| due.max(now_us)),
            now_us,
            lane,
            event.message_group(),
            event.message_id(),
            event.correlation_id(),
            event.occurred_at().as_microsecond(),
            due_us,
            event.expires().map(at),
            event.headers().to_stored(),
            json,
            bytes,
        ])
        .map_err(|error| taken(error, event.id()))?;
    match event.message_id() {
        Some(message) if added == 0 => existing(connection, sql, message),
        _ => Ok(Written {
            id: event.id().clone(),
            seq: Seq(connection.last_insert_rowid()),
            fresh: true,
            delayed: lane == Some(Lane::DELAYED.0),
        }),
    }
}

fn existing(connection: &Connection, sql: &Sql, message: &str) -> Result<Written, Failure> {
    let written = connection.prepare_cached(&sql.written)?.query_row([message], |row| {
        Ok(Written {
            id: EventId::from_row(lossy_text(row, 0)?),
            seq: Seq(row.get(1)?),
            fresh: false,
            delayed: row.get(2)?,
        })
    })?;
    Ok(written)
}

pub(crate) fn taken(error: rusqlite::Error, id: &EventId) -> Failure {
    if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
        return Failure::Refused(ErrorKind::Conflict, format!("event {id} is there already"));
    }
    Failure::Sqlite(error)
}
