//! Operators' changes to rows: replay, discard, cancel and purge.

use jiff::Timestamp;
use pillarbox::model::{EventId, Lane, Status, StepState};
use pillarbox::port::{Cancel, Discard, GroupState, Purge, PurgeStatus, Replay, Select};
use sqlx::mysql::{MySql, MySqlArguments, MySqlRow};
use sqlx::query::Query;

use crate::connection::{Session, number};
use crate::error::DriverError;
use crate::fetch::clock;
use crate::groups::record;
use crate::joins::{Ended, purge_joins};
use crate::kind::Kind;
use crate::pipeline::Pipeline;
use crate::probe::Locking;
use crate::renumber::Moving;
use crate::row::{text_number, text_of};
use crate::sql::{Sql, fill, list, locked_rows, places, quoted, quoted_list};
use crate::time::{literal, micros_back, now_sql};

/// Dead rows that this transaction has locked, oldest first, and the time. Empty if the
/// selection excludes dead rows.
struct Dead {
    rows: Vec<Moving>,
    now: Timestamp,
}

impl Dead {
    async fn find<K: Kind>(
        session: &mut Session,
        sql: &Sql,
        select: &Select,
        limit: usize,
        now: Option<Timestamp>,
    ) -> Result<Self, DriverError> {
        let Some(select) = only_dead(select) else {
            return Ok(Self { rows: Vec::new(), now: Timestamp::default() });
        };
        session.begin().await?;
        let now = match now {
            Some(now) => now,
            None => clock(session, sql).await?,
        };
        let selection = K::selection(&select, sql);
        let text = fill(&sql.dead_find, &[("{selected}", selection.found.clone())]);
        let query = selection.bind(session.once(text)).bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let found = query.fetch_all(&mut session.connection).await?;
        Ok(Self { rows: found.iter().map(Moving::read).collect::<Result<_, _>>()?, now })
    }

    fn ids(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.event_id.as_str()).collect()
    }
}

/// Frees the groups that these rows block; a paused group stays paused and forgets the row. Returns the ids
/// of the rows that blocked a group.
async fn free_groups(session: &mut Session, sql: &Sql, ids: &[&str]) -> Result<Vec<String>, DriverError> {
    let query = session.once(fill(&sql.groups_behind, &[("{ids}", places(ids.len()))]));
    let query = ids.iter().fold(query, |query, id| query.bind((*id).to_owned()));
    let behind = query.fetch_all(&mut session.connection).await?;
    let mut heads = Vec::with_capacity(behind.len());
    for group in &behind {
        let key = text_of(group, 0).unwrap_or_default().to_owned();
        let query = match GroupState::from_stored(text_of(group, 1).unwrap_or_default()) {
            GroupState::Blocked => session.query(&*sql.group_free).bind(key),
            GroupState::Paused => session.query(&*sql.group_head).bind(None::<String>).bind(key),
        };
        query.execute(&mut session.connection).await?;
        heads.push(text_of(group, 2).unwrap_or_default().to_owned());
    }
    if !heads.is_empty() {
        let grown = i64::try_from(heads.len()).unwrap_or(i64::MAX);
        session.query(&*sql.epoch_grow).bind(grown).execute(&mut session.connection).await?;
    }
    Ok(heads)
}

pub(crate) async fn replay<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    request: &Replay,
) -> Result<u64, DriverError> {
    let mut dead = Dead::find::<K>(session, sql, &request.select, request.limit, request.now).await?;
    if dead.rows.is_empty() {
        return Ok(0);
    }
    let heads = free_groups(session, sql, &dead.ids()).await?;
    let revive = fill(&sql.revive, &[("{ids}", places(dead.rows.len())), ("{now}", literal(dead.now))]);
    let revive = dead.ids().into_iter().fold(session.once(revive), |query, id| query.bind(id.to_owned()));
    revive.execute(&mut session.connection).await?;
    record(session, sql, dead.now, &request.by, "replay", &dead.ids()).await?;
    let count = dead.rows.len();
    // The dead event of a held group keeps its place, ahead of the rows behind it. Other rows
    // go to the end of the order.
    dead.rows.retain(|row| !heads.contains(&row.event_id));
    for row in &mut dead.rows {
        row.lane = row.lane.filter(|lane| *lane == i64::from(Lane::QUEUE.0));
    }
    K::renumber(session, sql, &dead.rows).await?;
    session.commit().await?;
    Ok(count as u64)
}

pub(crate) async fn discard<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    request: &Discard,
) -> Result<u64, DriverError> {
    let dead = Dead::find::<K>(session, sql, &request.select, request.limit, request.now).await?;
    if dead.rows.is_empty() {
        return Ok(0);
    }
    free_groups(session, sql, &dead.ids()).await?;
    let seqs = dead.rows.iter().map(|row| row.seq);
    session.results(removal(sql, seqs, &dead.ids())).await?;
    record(session, sql, dead.now, &request.by, "discard", &dead.ids()).await?;
    session.commit().await?;
    Ok(dead.rows.len() as u64)
}

/// The statements that delete rows and their attempt history. This transaction must have locked the rows.
pub(crate) fn removal(sql: &Sql, seqs: impl IntoIterator<Item = i64>, ids: &[&str]) -> String {
    let ids = quoted_list(ids.iter().copied());
    fill(&sql.remove, &[("{rows}", locked_rows(seqs)), ("{ids}", ids)])
}

/// Cancels events on one of the store's own connections.
pub(crate) async fn cancel_here(
    session: &mut Session,
    sql: &Sql,
    request: &Cancel,
) -> Result<Vec<EventId>, DriverError> {
    let mut pipeline = session.begins();
    let cancelled = cancel(&mut pipeline, sql, request).await?;
    let rest = pipeline.rest();
    if !cancelled.is_empty() {
        session.commit_with(&rest).await?;
    }
    Ok(cancelled)
}

/// Cancels events within an open transaction, the store's own or the user's.
pub(crate) async fn cancel(
    pipeline: &mut Pipeline<'_>,
    sql: &Sql,
    request: &Cancel,
) -> Result<Vec<EventId>, DriverError> {
    if request.ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids = quoted_list(request.ids.iter().map(EventId::as_str));
    let find = fill(&sql.cancel_find, &[("{ids}", ids), ("{now}", now_sql(request.now))]);
    let (now, sets) = pipeline.ask_at(sql, request.now, &[find]).await?;
    let found: Vec<&MySqlRow> = sets.iter().flatten().collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<&str> = found.iter().filter_map(|row| text_of(row, 1)).collect();
    pipeline.push(removal(sql, found.iter().map(|row| text_number(row, 0)), &ids));
    let record = |id: &&str| format!("({}, {}, 'cancel', {})", literal(now), quoted(&request.by), quoted(id));
    let rows: Vec<String> = ids.iter().map(record).collect();
    pipeline.push(fill(&sql.audit, &[("{rows}", rows.join(", "))]));
    let joined = found.iter().filter(|row| text_number(row, 2) != 0);
    let steps = joined.filter_map(|row| Some((text_of(row, 1)?.to_owned(), StepState::Failed))).collect();
    let mut ended = Ended::default();
    ended.messages(pipeline, sql, &steps).await?;
    ended.count(pipeline, sql, now).await?;
    Ok(ids.into_iter().map(EventId::from_row).collect())
}

/// Purges unless another session is purging this outbox; in that case it does nothing.
pub(crate) async fn purge_in_turn<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    request: &(Purge, Locking),
) -> Result<u64, DriverError> {
    let turn = session.once(&*sql.purge_turn).fetch_one(&mut session.connection).await?;
    if number(&turn, 0)? != 1 {
        return Ok(0);
    }
    let purged = K::purge(session, sql, request).await;
    session.once(&*sql.purge_turn_over).fetch_one(&mut session.connection).await?;
    purged
}

pub(crate) async fn purge(
    session: &mut Session,
    sql: &Sql,
    request: &Purge,
    locking: Locking,
) -> Result<u64, DriverError> {
    session.begin().await?;
    let gone = purge_rows(session, sql, request, locking).await?;
    if request.status == PurgeStatus::Done {
        purge_joins(session, sql, request, locking).await?;
    }
    session.commit().await?;
    Ok(gone)
}

async fn purge_rows(
    session: &mut Session,
    sql: &Sql,
    request: &Purge,
    locking: Locking,
) -> Result<u64, DriverError> {
    let status = match request.status {
        PurgeStatus::Done => Some(Status::Done.code()),
        PurgeStatus::Dead => Some(Status::Dead.code()),
        PurgeStatus::Any => None,
    };
    let (find, delete) = match status {
        Some(_) => (&sql.purge_find, &sql.purge),
        None => (&sql.purge_any_find, &sql.purge_any),
    };
    let now = ("{now}", now_sql(request.now));
    let age_us = micros_back(request.older_than);
    let query = session.query(fill(find, &[now.clone(), ("{skip_locked}", locking.words())]));
    let query =
        bind_status(query, status).bind(age_us).bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let old = query.fetch_all(&mut session.connection).await?;
    if old.is_empty() {
        return Ok(0);
    }
    let forget = session.once(fill(&sql.attempts_forget, &[("{ids}", places(old.len()))]));
    let forget = old.iter().fold(forget, |query, row| query.bind(text_of(row, 1).unwrap_or_default()));
    forget.execute(&mut session.connection).await?;
    let seqs = old.iter().map(|row: &MySqlRow| number(row, 0)).collect::<Result<Vec<_>, _>>()?;
    let query = session.once(fill(delete, &[now, ("{seqs}", list(seqs))]));
    let gone = bind_status(query, status).bind(age_us).execute(&mut session.connection).await?;
    Ok(gone.rows_affected())
}

fn bind_status<'q>(
    query: Query<'q, MySql, MySqlArguments>,
    status: Option<u8>,
) -> Query<'q, MySql, MySqlArguments> {
    match status {
        Some(status) => query.bind(i64::from(status)),
        None => query,
    }
}

/// Narrows a selection to dead rows; none if it excludes them.
fn only_dead(select: &Select) -> Option<Select> {
    let asked = select.statuses.is_empty() || select.statuses.contains(&Status::Dead);
    asked.then(|| Select { statuses: vec![Status::Dead], ..select.clone() })
}
