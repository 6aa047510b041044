//! Inserts rows, in an open transaction or as a single statement.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::number_of;
use pillarbox::model::{EventId, Lane, NewColumns, NewRow, Seq, When, Written};
use pillarbox::port::ErrorKind;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};

use crate::connection::Query;
use crate::error::DriverError;
use crate::sql::Sql;
use crate::time::{Time, micros};

/// Whether statements stay prepared on the connection that they run on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prepared {
    Kept,
    Once,
}

/// Inserts all rows, or none of them. Without rows it only checks that the transaction can still commit.
pub(crate) async fn insert_rows(
    connection: &mut PgConnection,
    sql: &Sql,
    rows: &[NewRow],
    now: Option<Timestamp>,
    prepared: Prepared,
) -> Result<Vec<Written>, DriverError> {
    let statement =
        |sql: &Arc<str>| sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(prepared == Prepared::Kept);
    let values = NewColumns::of_all(rows);
    let added = match values.as_slice() {
        [] => {
            statement(&sql.alive).execute(&mut *connection).await?;
            return Ok(Vec::new());
        }
        [row] if row.is_immediate() => {
            let statement = bind_one(statement(sql.insert.of(&values)), row, now);
            statement.fetch_all(&mut *connection).await?
        }
        rows => {
            let statement = bind_many(statement(sql.insert_many.of(&values)), rows, now);
            statement.fetch_all(&mut *connection).await?
        }
    };
    let added = added.iter().map(|row| written(row, true)).collect::<Result<Vec<_>, _>>()?;
    if added.len() == rows.len() {
        return Ok(added);
    }
    // Some message ids exist already; their rows are reported instead.
    let there = statement(&sql.written).bind(message_ids(&values)).fetch_all(connection).await?;
    let there = there.iter().map(|row| Ok((row.try_get(3)?, written(row, false)?)));
    merge(&values, added, there.collect::<Result<_, DriverError>>()?, gone)
}

/// The message ids of the rows that have one.
pub(crate) fn message_ids<'a>(values: &[NewColumns<'a>]) -> Vec<&'a str> {
    values.iter().filter_map(|row| row.event.message_id()).collect()
}

/// The absolute time, and the delay in microseconds from the database's time; at most one of them is set.
pub(crate) fn moment(when: Option<When>) -> (Option<Time>, Option<i64>) {
    match when {
        None => (None, None),
        Some(When::At(at)) => (Some(Time(at)), None),
        Some(When::In(after)) => (None, Some(micros(after))),
    }
}

fn bind_one<'q>(query: Query<'q>, row: &'q NewColumns<'q>, now: Option<Timestamp>) -> Query<'q> {
    let query = query
        .bind(row.lane.map(|lane| lane.0))
        .bind(Time(row.occurred_at))
        .bind(row.payload_bytes)
        .bind(now.map(Time));
    row.texts.iter().fold(query, |query, text| query.bind(text.as_deref()))
}

fn bind_many<'q>(query: Query<'q>, rows: &'q [NewColumns<'q>], now: Option<Timestamp>) -> Query<'q> {
    fn each<'q, T>(rows: &'q [NewColumns<'q>], column: impl Fn(&'q NewColumns<'q>) -> T) -> Vec<T> {
        rows.iter().map(column).collect()
    }
    let query = query
        .bind(each(rows, |row| row.lane.map(|lane| lane.0)))
        .bind(each(rows, |row| Time(row.occurred_at)))
        .bind(each(rows, |row| moment(row.due).0))
        .bind(each(rows, |row| moment(row.due).1))
        .bind(each(rows, |row| moment(row.expires).0))
        .bind(each(rows, |row| moment(row.expires).1))
        .bind(each(rows, |row| row.payload_bytes))
        .bind(now.map(Time));
    (0..NewColumns::text_names().len())
        .fold(query, |query, text| query.bind(each(rows, |row| row.texts[text].as_deref())))
}

fn written(row: &PgRow, fresh: bool) -> Result<Written, DriverError> {
    let id = EventId::from_row(row.try_get::<&str, _>(0)?);
    Ok(Written {
        seq: numbered(row.try_get(1)?, &id),
        id,
        fresh,
        delayed: row.try_get::<Option<i16>, _>(2)? == Some(Lane::DELAYED.0),
    })
}

/// The sequence number of an inserted row. Items have none; theirs is derived from the id.
pub(crate) fn numbered(number: i64, id: &EventId) -> Seq {
    if number == 0 { number_of(id) } else { Seq(number) }
}

/// The inserted rows, in the order of `values`. A row that was not inserted is replaced by the existing row
/// with its message id, or by `missing` if that row is gone.
pub(crate) fn merge(
    values: &[NewColumns<'_>],
    added: Vec<Written>,
    there: HashMap<String, Written>,
    missing: impl Fn(&NewColumns<'_>) -> Result<Written, DriverError>,
) -> Result<Vec<Written>, DriverError> {
    let mut added = added.into_iter().peekable();
    let one = |row: &NewColumns<'_>| {
        let existing = row.event.message_id().and_then(|message| there.get(message));
        // Inserted rows come in the order given. If the existing row has another sequence number, the next
        // inserted row was inserted for a later value.
        let own = added
            .next_if(|next| next.id == *row.event.id() && existing.is_none_or(|there| there.seq == next.seq));
        own.or_else(|| existing.cloned()).map_or_else(|| missing(row), Ok)
    };
    values.iter().map(one).collect()
}

/// Fails: the existing row with this message id was deleted before it could be read.
pub(crate) fn gone(_: &NewColumns<'_>) -> Result<Written, DriverError> {
    let detail = "a row with this message id was deleted meanwhile";
    Err(DriverError::Refused(ErrorKind::Conflict, detail.to_owned()))
}
