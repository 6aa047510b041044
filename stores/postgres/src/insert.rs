//! Inserts rows, in an open transaction or as a single statement.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::number_of;
use pillarbox::model::{EventId, Lane, NewRow, Payload, Placement, Seq, When, Written};
use pillarbox::port::ErrorKind;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};

use crate::connection::Query;
use crate::error::Failure;
use crate::sql::Sql;
use crate::time::{Time, micros};

/// One row as parameters of the insert statements.
pub(crate) struct Values<'a> {
    pub(crate) event_id: &'a str,
    pub(crate) event_type: &'a str,
    pub(crate) aggregate_type: Option<&'a str>,
    pub(crate) aggregate_id: Option<&'a str>,
    pub(crate) tenant_id: Option<&'a str>,
    pub(crate) lane: Option<i16>,
    pub(crate) message_group: Option<&'a str>,
    pub(crate) message_id: Option<&'a str>,
    pub(crate) correlation_id: Option<&'a str>,
    pub(crate) occurred_at: Timestamp,
    pub(crate) due: Moment,
    pub(crate) expires: Moment,
    pub(crate) headers: Option<String>,
    pub(crate) payload: Option<&'a str>,
    pub(crate) payload_bytes: Option<&'a [u8]>,
}

/// A time, or a delay in microseconds from the database's current time.
#[derive(Default)]
pub(crate) struct Moment {
    pub(crate) at: Option<Timestamp>,
    pub(crate) in_us: Option<i64>,
}

impl Moment {
    fn new(when: Option<When>) -> Self {
        match when {
            None => Self::default(),
            Some(When::At(at)) => Self { at: Some(at), in_us: None },
            Some(When::In(after)) => Self { at: None, in_us: Some(micros(after)) },
        }
    }
}

impl<'a> Values<'a> {
    pub(crate) fn new(row: &'a NewRow) -> Self {
        let event = &row.event;
        let (payload, payload_bytes) = match event.payload() {
            Payload::Json(text) => (Some(&**text), None),
            Payload::Bytes(bytes) => (None, Some(&**bytes)),
        };
        Self {
            event_id: event.id().as_str(),
            event_type: event.event_type(),
            aggregate_type: Some(event.aggregate_type()),
            aggregate_id: event.aggregate_id(),
            tenant_id: event.tenant_id(),
            lane: match row.placement {
                Placement::Queue => Some(Lane::QUEUE.0),
                Placement::Lane(lane) => Some(lane.0),
                Placement::Slot => None,
            },
            message_group: event.message_group(),
            message_id: event.message_id(),
            correlation_id: event.correlation_id(),
            occurred_at: event.occurred_at(),
            due: Moment::new(event.due()),
            expires: Moment::new(event.expires()),
            headers: event.headers().to_stored(),
            payload,
            payload_bytes,
        }
    }
}

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
) -> Result<Vec<Written>, Failure> {
    let statement =
        |sql: &Arc<str>| sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(prepared == Prepared::Kept);
    let values: Vec<Values<'_>> = rows.iter().map(Values::new).collect();
    let added = match values.as_slice() {
        [] => {
            statement(&sql.alive).execute(&mut *connection).await?;
            return Ok(Vec::new());
        }
        [row] => {
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
    merge(&values, added, there.collect::<Result<_, Failure>>()?, gone)
}

/// The message ids of the rows that have one.
pub(crate) fn message_ids<'a>(values: &[Values<'a>]) -> Vec<&'a str> {
    values.iter().filter_map(|row| row.message_id).collect()
}

fn bind_one<'q>(query: Query<'q>, row: &'q Values<'q>, now: Option<Timestamp>) -> Query<'q> {
    query
        .bind(row.event_id)
        .bind(row.event_type)
        .bind(row.aggregate_type)
        .bind(row.aggregate_id)
        .bind(row.tenant_id)
        .bind(row.lane)
        .bind(row.message_group)
        .bind(row.message_id)
        .bind(row.correlation_id)
        .bind(Time(row.occurred_at))
        .bind(row.due.at.map(Time))
        .bind(row.due.in_us)
        .bind(row.expires.at.map(Time))
        .bind(row.expires.in_us)
        .bind(row.headers.as_deref())
        .bind(row.payload)
        .bind(row.payload_bytes)
        .bind(now.map(Time))
}

fn bind_many<'q>(query: Query<'q>, rows: &'q [Values<'q>], now: Option<Timestamp>) -> Query<'q> {
    fn each<'q, T>(rows: &'q [Values<'q>], column: impl Fn(&'q Values<'q>) -> T) -> Vec<T> {
        rows.iter().map(column).collect()
    }
    query
        .bind(each(rows, |row| row.event_id))
        .bind(each(rows, |row| row.event_type))
        .bind(each(rows, |row| row.aggregate_type))
        .bind(each(rows, |row| row.aggregate_id))
        .bind(each(rows, |row| row.tenant_id))
        .bind(each(rows, |row| row.lane))
        .bind(each(rows, |row| row.message_group))
        .bind(each(rows, |row| row.message_id))
        .bind(each(rows, |row| row.correlation_id))
        .bind(each(rows, |row| Time(row.occurred_at)))
        .bind(each(rows, |row| row.due.at.map(Time)))
        .bind(each(rows, |row| row.due.in_us))
        .bind(each(rows, |row| row.expires.at.map(Time)))
        .bind(each(rows, |row| row.expires.in_us))
        .bind(each(rows, |row| row.headers.as_deref()))
        .bind(each(rows, |row| row.payload))
        .bind(each(rows, |row| row.payload_bytes))
        .bind(now.map(Time))
}

fn written(row: &PgRow, fresh: bool) -> Result<Written, Failure> {
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
    values: &[Values<'_>],
    added: Vec<Written>,
    there: HashMap<String, Written>,
    missing: impl Fn(&Values<'_>) -> Result<Written, Failure>,
) -> Result<Vec<Written>, Failure> {
    let mut added = added.into_iter().peekable();
    let one = |row: &Values<'_>| {
        let existing = row.message_id.and_then(|message| there.get(message));
        // Inserted rows come in the order given. If the existing row has another sequence number, the next
        // inserted row was inserted for a later value.
        let own = added.next_if(|next| {
            next.id.as_str() == row.event_id && existing.is_none_or(|there| there.seq == next.seq)
        });
        own.or_else(|| existing.cloned()).map_or_else(|| missing(row), Ok)
    };
    values.iter().map(one).collect()
}

/// Fails: the existing row with this message id was deleted before it could be read.
pub(crate) fn gone(_: &Values<'_>) -> Result<Written, Failure> {
    let detail = "a row with this message id was deleted meanwhile";
    Err(Failure::Refused(ErrorKind::Conflict, detail.to_owned()))
}
