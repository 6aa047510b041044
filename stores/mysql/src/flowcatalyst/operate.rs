//! What operators do to items: replay, discard, cancel, purge.

use jiff::Timestamp;
use pillarbox::model::EventId;
use pillarbox::port::{Cancel, Discard, Purge, PurgeStatus, Replay, Select};
use sqlx::AssertSqlSafe;
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnection};
use sqlx::query::Query;

use super::inspect::{bind, found};
use super::row::whole;
use crate::connection::Session;
use crate::error::Failure;
use crate::fetch::clock;
use crate::groups::record;
use crate::operate::{free_groups, only_dead};
use crate::row::text_of;
use crate::sql::{Sql, fill, places};
use crate::time::{literal, micros_back, now_sql};

pub(crate) async fn replay(session: &mut Session, sql: &Sql, request: &Replay) -> Result<u64, Failure> {
    let (ids, now) = dead(session, sql, &request.select, request.limit, request.now).await?;
    if ids.is_empty() {
        return Ok(0);
    }
    let text = fill(&sql.revive, &[("{ids}", places(ids.len())), ("{now}", literal(now))]);
    bind_ids(session.once(text), &ids).execute(&mut session.connection).await?;
    finish(session, sql, &ids, &request.by, "replay", now).await
}

pub(crate) async fn discard(session: &mut Session, sql: &Sql, request: &Discard) -> Result<u64, Failure> {
    let (ids, now) = dead(session, sql, &request.select, request.limit, request.now).await?;
    if ids.is_empty() {
        return Ok(0);
    }
    let text = fill(&sql.items_delete, &[("{ids}", places(ids.len()))]);
    bind_ids(session.once(text), &ids).execute(&mut session.connection).await?;
    finish(session, sql, &ids, &request.by, "discard", now).await
}

/// Frees the groups behind these items, puts it all on record, commits; how many there were.
async fn finish(
    session: &mut Session,
    sql: &Sql,
    ids: &[String],
    by: &str,
    action: &str,
    now: Timestamp,
) -> Result<u64, Failure> {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    free_groups(session, sql, &ids).await?;
    record(session, sql, now, by, action, &ids).await?;
    session.commit().await?;
    Ok(ids.len() as u64)
}

/// Failed items that match, locked, oldest first, and the time; none if the selection excludes them.
async fn dead(
    session: &mut Session,
    sql: &Sql,
    select: &Select,
    limit: usize,
    now: Option<Timestamp>,
) -> Result<(Vec<String>, Timestamp), Failure> {
    let Some(select) = only_dead(select) else { return Ok((Vec::new(), Timestamp::default())) };
    session.begin().await?;
    let now = match now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let text = fill(&sql.items_dead_find, &[("{selected}", found(&select, sql))]);
    let query = bind(&select, session.once(text)).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok((rows.iter().filter_map(|row| text_of(row, 0)).map(str::to_owned).collect(), now))
}

fn bind_ids<'q>(query: Query<'q, MySql, MySqlArguments>, ids: &[String]) -> Query<'q, MySql, MySqlArguments> {
    ids.iter().fold(query, |query, id| query.bind(id.clone()))
}

/// Also for transactions of the user's own connection.
pub(crate) async fn cancel(
    connection: &mut MySqlConnection,
    sql: &Sql,
    request: &Cancel,
) -> Result<Vec<EventId>, Failure> {
    if request.ids.is_empty() {
        return Ok(Vec::new());
    }
    let query = |text: String| sqlx::query(AssertSqlSafe(text)).persistent(false);
    let asked: Vec<String> = request.ids.iter().map(ToString::to_string).collect();
    let find = bind_ids(query(fill(&sql.items_cancel_find, &[("{ids}", places(asked.len()))])), &asked);
    let rows = find.fetch_all(&mut *connection).await?;
    let ids: Vec<String> = rows.iter().filter_map(|row| text_of(row, 0)).map(str::to_owned).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let delete = bind_ids(query(fill(&sql.items_delete, &[("{ids}", places(ids.len()))])), &ids);
    delete.execute(&mut *connection).await?;
    let rows = vec![format!("({}, ?, 'cancel', ?)", now_sql(request.now)); ids.len()].join(", ");
    let record = query(fill(&sql.audit, &[("{rows}", rows)]));
    let record = ids.iter().fold(record, |query, id| query.bind(request.by.clone()).bind(id.clone()));
    record.execute(connection).await?;
    Ok(ids.into_iter().map(EventId::from_row).collect())
}

pub(crate) async fn purge(session: &mut Session, sql: &Sql, request: &Purge) -> Result<u64, Failure> {
    let now = ("{now}", now_sql(request.now.map(whole)));
    let status = match request.status {
        PurgeStatus::Done => Some("COMPLETED"),
        PurgeStatus::Dead => Some("FAILED"),
        PurgeStatus::Any => None,
    };
    let query = match status {
        Some(status) => session.query(fill(&sql.items_purge, &[now])).bind(status),
        None => session.query(fill(&sql.items_purge_any, &[now])),
    };
    let query = query.bind(micros_back(request.older_than));
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    Ok(query.execute(&mut session.connection).await?.rows_affected())
}
