//! Inserting rows within an open transaction.

use std::collections::HashMap;

use jiff::Timestamp;
use pillarbox::model::{EventId, Lane, NewColumns, NewRow, Seq, When, Written};
use pillarbox::port::ErrorKind;
use sqlx::AssertSqlSafe;
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnection, MySqlRow};
use sqlx::query::Query;

use crate::connection::number;
use crate::error::DriverError;
use crate::kind::Kind;
use crate::row::{number_of, text_of};
use crate::sql::{Sql, fill, places};
use crate::time::{Time, micros, now_sql};

type Insertion<'q> = Query<'q, MySql, MySqlArguments>;

/// Whether the row may go to the lane of delayed rows. The database's clock decides.
fn may_wait(row: &NewColumns<'_>) -> bool {
    row.due.is_some() && row.lane != Some(Lane::QUEUE)
}

/// The row as a VALUES expression: a placeholder for each value that is present, `absent` for the others.
///
/// In MySQL, an expression can use a column that was assigned before it, so the
/// due time is computed once.
pub(crate) fn expression(row: &NewColumns<'_>, now: &str, absent: &str) -> String {
    let place = |there: bool| if there { "?" } else { absent };
    let when = |when: Option<When>| match when {
        None => "NULL".to_owned(),
        Some(When::At(_)) => "CAST(? AS datetime(6))".to_owned(),
        Some(When::In(_)) => format!("{now} + INTERVAL ? MICROSECOND"),
    };
    let available = if row.due.is_some() { format!("greatest({now}, due_at)") } else { now.to_owned() };
    let lane = match place(row.lane.is_some()) {
        lane if may_wait(row) => format!("CASE WHEN due_at > {now} THEN {} ELSE {lane} END", Lane::DELAYED.0),
        lane => lane.to_owned(),
    };
    let texts: Vec<&str> = row.texts.iter().map(|text| place(text.is_some())).collect();
    format!(
        "({}, ?, {now}, {}, {}, {available}, {lane}, {})",
        texts.join(", "),
        when(row.due),
        when(row.expires),
        place(row.payload_bytes.is_some()),
    )
}

fn bind<'q>(query: Insertion<'q>, row: &'q NewColumns<'q>) -> Insertion<'q> {
    let query = row.texts.iter().fold(query, |query, text| query.bind(text.as_deref()));
    let query = bind_when(bind_when(query.bind(Time(row.occurred_at)), row.due), row.expires);
    query.bind(row.lane.map(|lane| lane.0)).bind(row.payload_bytes)
}

fn bind_when(query: Insertion<'_>, when: Option<When>) -> Insertion<'_> {
    match when {
        None => query,
        Some(When::At(at)) => query.bind(Time(at)),
        Some(When::In(after)) => query.bind(micros(after)),
    }
}

/// How many times an insert is tried, each time without the rows whose message ids exist by then.
const TRIES: usize = 3;

/// Inserts all rows or none. Without rows it only checks that the connection is alive.
pub(crate) async fn insert_rows<K: Kind>(
    connection: &mut MySqlConnection,
    sql: &Sql,
    rows: &[NewRow],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, DriverError> {
    if rows.is_empty() {
        query(&*sql.alive).execute(connection).await?;
        return Ok(Vec::new());
    }
    K::insert(connection, sql, rows, now).await
}

/// Inserts the rows whose message ids do not exist yet.
pub(crate) async fn add_new(
    connection: &mut MySqlConnection,
    sql: &Sql,
    rows: &[NewRow],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, DriverError> {
    let values = NewColumns::of_all(rows);
    let mut there: HashMap<String, Written> = HashMap::new();
    for _ in 0..TRIES {
        let fresh = without(&values, &there);
        let added = match fresh.as_slice() {
            [] => Ok(Vec::new()),
            fresh => add(connection, sql, fresh, now).await,
        };
        match added {
            Ok(added) => return Ok(merge(&values, added, there)),
            Err(failure) if failure.is_duplicate() => {
                let before = there.len();
                there = written(connection, sql, &values).await?;
                // No message id was the duplicate, so an event id was.
                if there.len() <= before {
                    return Err(failure);
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    let detail = "rows with these message ids keep appearing and disappearing";
    Err(DriverError::Refused(ErrorKind::Conflict, detail.to_owned()))
}

fn query(text: impl Into<std::sync::Arc<str>>) -> Query<'static, MySql, MySqlArguments> {
    sqlx::query(AssertSqlSafe(text.into()))
}

/// The rows whose message id neither exists nor repeats that of an earlier row.
fn without<'v, 'a>(
    values: &'v [NewColumns<'a>],
    there: &HashMap<String, Written>,
) -> Vec<&'v NewColumns<'a>> {
    let mut seen = std::collections::HashSet::new();
    let fresh = |row: &&NewColumns<'_>| {
        row.event
            .message_id()
            .is_none_or(|message| !there.contains_key(message) && seen.insert(message.to_owned()))
    };
    values.iter().filter(fresh).collect()
}

async fn add(
    connection: &mut MySqlConnection,
    sql: &Sql,
    rows: &[&NewColumns<'_>],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, DriverError> {
    let now = now_sql(now);
    let expressions: Vec<String> = rows.iter().map(|row| expression(row, &now, "?")).collect();
    let text = fill(&sql.insert, &[("{rows}", expressions.join(", "))]);
    let insert = rows.iter().fold(query(text), |query, row| bind(query, row));
    let first = i64::try_from(insert.execute(&mut *connection).await?.last_insert_id()).unwrap_or_default();
    let ids: Vec<&str> = rows.iter().map(|row| row.event.id().as_str()).collect();
    if !rows.iter().any(|row| may_wait(row))
        && let Some(numbers) = numbers(connection, sql, first, &ids).await?
    {
        let written = ids.iter().zip(numbers).map(|(id, seq)| Written {
            id: EventId::from_row(*id),
            seq: Seq(seq),
            fresh: true,
            delayed: false,
        });
        return Ok(written.collect());
    }
    located(connection, sql, &ids).await
}

/// The sequence numbers of rows that one insert has just added on this connection; none if they are not
/// evenly spaced.
///
/// The spacing is a session setting, and Galera changes it while sessions are open. So it is
/// computed from the last row.
pub(crate) async fn numbers(
    connection: &mut MySqlConnection,
    sql: &Sql,
    first: i64,
    ids: &[&str],
) -> Result<Option<Vec<i64>>, DriverError> {
    let (Some(gaps), Some(last)) = (i64::try_from(ids.len()).ok().map(|rows| rows - 1), ids.last()) else {
        return Ok(None);
    };
    if gaps == 0 {
        return Ok(Some(vec![first]));
    }
    let last = located(connection, sql, &[last]).await?;
    let span = last.first().map_or(0, |last| last.seq.0 - first);
    let even = span >= gaps && span % gaps == 0;
    Ok(even.then(|| (0..=gaps).map(|place| first + place * (span / gaps)).collect()))
}

/// Finds the rows with these event ids, in this order.
pub(crate) async fn located(
    connection: &mut MySqlConnection,
    sql: &Sql,
    ids: &[&str],
) -> Result<Vec<Written>, DriverError> {
    let text = fill(&sql.written_ids, &[("{ids}", places(ids.len()))]);
    let found = ids.iter().fold(query(text), |query, id| query.bind(*id)).fetch_all(connection).await?;
    let mut found = found
        .iter()
        .map(|row| Ok((text_of(row, 0).unwrap_or_default().to_owned(), read_written(row, true)?)))
        .collect::<Result<HashMap<String, Written>, DriverError>>()?;
    let gone = || DriverError::Refused(ErrorKind::Unexpected, "an inserted row is missing".to_owned());
    ids.iter().map(|id| found.remove(*id).ok_or_else(gone)).collect()
}

/// Finds the rows that already have these message ids.
async fn written(
    connection: &mut MySqlConnection,
    sql: &Sql,
    values: &[NewColumns<'_>],
) -> Result<HashMap<String, Written>, DriverError> {
    let messages: Vec<&str> = values.iter().filter_map(|row| row.event.message_id()).collect();
    if messages.is_empty() {
        return Ok(HashMap::new());
    }
    let text = fill(&sql.written, &[("{ids}", places(messages.len()))]);
    let messages = messages.into_iter().fold(query(text), |query, message| query.bind(message));
    let rows = messages.fetch_all(connection).await?;
    let there = rows
        .iter()
        .map(|row| Ok((text_of(row, 3).unwrap_or_default().to_owned(), read_written(row, false)?)));
    there.collect()
}

fn read_written(row: &MySqlRow, fresh: bool) -> Result<Written, DriverError> {
    Ok(Written {
        id: EventId::from_row(text_of(row, 0).unwrap_or_default()),
        seq: Seq(number(row, 1)?),
        fresh,
        delayed: number_of(row, 2) == Some(i64::from(Lane::DELAYED.0)),
    })
}

/// One result for each row: the row that was added, or the one that has its message id, which existed before
/// or was added with it.
fn merge(
    values: &[NewColumns<'_>],
    added: Vec<Written>,
    mut there: HashMap<String, Written>,
) -> Vec<Written> {
    let mut added = added.into_iter();
    let one = |row: &NewColumns<'_>| {
        if let Some(first) = row.event.message_id().and_then(|message| there.get(message)) {
            return Some(first.clone());
        }
        let written = added.next()?;
        if let Some(message) = row.event.message_id() {
            there.insert(message.to_owned(), Written { fresh: false, ..written.clone() });
        }
        Some(written)
    };
    values.iter().filter_map(one).collect()
}
