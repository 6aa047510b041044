//! Inserting rows within an open transaction.

use jiff::Timestamp;
use pillarbox::model::{EventId, Lane, NewColumns, NewRow, Seq, When, Written};
use pillarbox::port::ErrorKind;
use rusqlite::{Connection, ErrorCode, ToSql};

use crate::error::DriverError;
use crate::kind::Kind;
use crate::row::lossy_text;
use crate::sql::Sql;

/// Refuses a connection in autocommit mode, where every statement would commit by itself.
pub(crate) fn open_transaction(connection: &Connection) -> Result<(), DriverError> {
    if connection.is_autocommit() {
        let detail = "no transaction is open on this connection".to_owned();
        return Err(DriverError::Refused(ErrorKind::InvalidInput, detail));
    }
    Ok(())
}

/// Inserts all rows or none.
pub(crate) fn insert_rows<K: Kind>(
    connection: &Connection,
    sql: &Sql,
    rows: &[NewRow],
    now: Timestamp,
) -> Result<Vec<Written>, DriverError> {
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
    insert: impl FnOnce() -> Result<T, DriverError>,
) -> Result<T, DriverError> {
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
) -> Result<Written, DriverError> {
    let columns = NewColumns::new(row);
    let event = columns.event;
    let now_us = now.as_microsecond();
    let at = |when: When| when.resolve(now).as_microsecond();
    let (due_us, expires_us) = (columns.due.map(at), columns.expires.map(at));
    let delayed = due_us.is_some_and(|due| due > now_us) && columns.lane != Some(Lane::QUEUE);
    let lane = if delayed { Some(Lane::DELAYED) } else { columns.lane };
    let mut values: Vec<&dyn ToSql> = columns.texts.iter().map(|text| text as &dyn ToSql).collect();
    let (available_us, lane) = (due_us.map_or(now_us, |due| due.max(now_us)), lane.map(|lane| lane.0));
    let occurred_us = columns.occurred_at.as_microsecond();
    let others: [&dyn ToSql; 7] =
        [&available_us, &now_us, &lane, &occurred_us, &due_us, &expires_us, &columns.payload_bytes];
    values.extend(others);
    let added = connection
        .prepare_cached(&sql.insert)?
        .execute(values.as_slice())
        .map_err(|error| taken(error, event.id()))?;
    match event.message_id() {
        Some(message) if added == 0 => existing(connection, sql, message),
        _ => Ok(Written {
            id: event.id().clone(),
            seq: Seq(connection.last_insert_rowid()),
            fresh: true,
            delayed,
        }),
    }
}

fn existing(connection: &Connection, sql: &Sql, message: &str) -> Result<Written, DriverError> {
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

pub(crate) fn taken(error: rusqlite::Error, id: &EventId) -> DriverError {
    if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
        return DriverError::Refused(ErrorKind::Conflict, format!("event {id} already exists"));
    }
    DriverError::Sqlite(error)
}
