//! Operator actions on rows: replay, discard, cancel, purge.

use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::model::{EventId, Status};
use pillarbox::port::{Cancel, Discard, Purge, PurgeStatus, Replay, Select};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use crate::connection::{Query, Session};
use crate::error::DriverError;
use crate::insert::Prepared;
use crate::inspect::Selection;
use crate::joins::Fired;
use crate::sql::Sql;
use crate::time::{Time, micros};

pub(crate) async fn replay(session: &mut Session, sql: &Sql, request: &Replay) -> Result<u64, DriverError> {
    let Some(select) = only_dead(&request.select) else { return Ok(0) };
    on_dead(session, sql.replay.of(&select), &select, request.limit, request.now, &request.by).await
}

pub(crate) async fn discard(session: &mut Session, sql: &Sql, request: &Discard) -> Result<u64, DriverError> {
    let Some(select) = only_dead(&request.select) else { return Ok(0) };
    on_dead(session, sql.discard.of(&select), &select, request.limit, request.now, &request.by).await
}

async fn on_dead(
    session: &mut Session,
    statement: &Arc<str>,
    select: &Select,
    limit: usize,
    now: Option<Timestamp>,
    by: &str,
) -> Result<u64, DriverError> {
    let query = Selection::new(select).bind(session.query(statement));
    let query = query.bind(i64::try_from(limit).unwrap_or(i64::MAX)).bind(now.map(Time)).bind(by);
    let row = query.fetch_one(&mut session.connection).await?;
    Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())
}

/// Cancels pending events. Returns their ids and how many joins have enqueued a continuation. Also used in
/// the user's own transactions.
pub(crate) async fn cancel(
    connection: &mut PgConnection,
    sql: &Sql,
    request: &Cancel,
    prepared: Prepared,
) -> Result<(Vec<EventId>, Fired), DriverError> {
    let ids: Vec<&str> = request.ids.iter().map(EventId::as_str).collect();
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&sql.cancel))).persistent(prepared == Prepared::Kept);
    let query = query.bind(ids).bind(request.now.map(Time)).bind(&request.by);
    let rows = query.fetch_all(connection).await?;
    // Every row has the same number. It is NULL if no cancelled row was a step of a join.
    let fired = match rows.first() {
        Some(row) => Fired(row.try_get::<Option<i32>, _>(1)?.unwrap_or_default()),
        None => Fired::default(),
    };
    let ids = rows.iter().map(|row| Ok(EventId::from_row(row.try_get::<&str, _>(0)?)));
    Ok((ids.collect::<Result<_, DriverError>>()?, fired))
}

pub(crate) async fn purge(session: &mut Session, sql: &Sql, request: &Purge) -> Result<u64, DriverError> {
    let prepared = session.prepared();
    let text = purge_text(&mut session.connection, sql, request, prepared).await?;
    let row = purging(session.query(text), request).fetch_one(&mut session.connection).await?;
    Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())
}

/// Purges, unless another process is purging: then it deletes nothing.
pub(crate) async fn purge_in_turn(
    session: &mut Session,
    sql: &Sql,
    request: &Purge,
) -> Result<u64, DriverError> {
    let mut tx = session.begin().await?;
    if !tx.query(&sql.purge_turn).fetch_one(&mut *tx.tx).await?.try_get::<bool, _>(0)? {
        return Ok(0);
    }
    let prepared = tx.prepared();
    let text = purge_text(&mut tx.tx, sql, request, prepared).await?;
    let row = purging(tx.query(text), request).fetch_one(&mut *tx.tx).await?;
    tx.commit().await?;
    Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())
}

/// The statement for a request. A table of items may have no tables of ours beside it.
async fn purge_text<'s>(
    connection: &mut PgConnection,
    sql: &'s Sql,
    request: &Purge,
    prepared: Prepared,
) -> Result<&'s Arc<str>, DriverError> {
    let purge = if request.status == PurgeStatus::Any { &sql.purge_any } else { &sql.purge };
    let Some(alone) = &purge.alone else { return Ok(&purge.held) };
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&sql.tables))).persistent(prepared == Prepared::Kept);
    let beside = query.fetch_one(connection).await?.try_get::<bool, _>(0)?;
    Ok(if beside { &purge.held } else { alone })
}

fn purging<'q>(query: Query<'q>, request: &Purge) -> Query<'q> {
    let status = match request.status {
        PurgeStatus::Done => Some(Status::Done.code()),
        PurgeStatus::Dead => Some(Status::Dead.code()),
        PurgeStatus::Any => None,
    };
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let query = match status {
        Some(status) => query.bind(status as i16),
        None => query,
    };
    query.bind(limit).bind(request.now.map(Time)).bind(micros(request.older_than))
}

/// Narrows a selection to dead events; `None` if it excludes them.
fn only_dead(select: &Select) -> Option<Select> {
    let asked = select.statuses.is_empty() || select.statuses.contains(&Status::Dead);
    asked.then(|| Select { statuses: vec![Status::Dead], ..select.clone() })
}
