//! Queries for operators: lists, single events, counts, statistics, nodes and audit entries.

use pillarbox::model::{Attempt, EventId, GLOBAL, Lane, Record, Status};
use pillarbox::port::{AuditEntry, List, NodeInfo, Select, Shown, Stats, TypeCount};
use sqlx::mysql::MySqlRow;

use crate::connection::{Asked, Session, number as count_of};
use crate::error::DriverError;
use crate::kind::Kind;
use crate::membership::node_id;
use crate::row::{Values, decoder, number_of, read_all, text_of, time_of};
use crate::sql::{GROUP_KEY, Sql, fill, list as numbers, listed, places};
use crate::time::{text, until};

/// A selection as a table with a condition, and the values of its placeholders.
pub(crate) struct Selection {
    pub(crate) found: String,
    values: Vec<String>,
}

impl Selection {
    /// Starts with a table and a condition that already has placeholders for the selected ids.
    pub(crate) fn new(found: String, select: &Select) -> Self {
        Self { found, values: select.ids.iter().map(ToString::to_string).collect() }
    }

    /// Adds a condition with one placeholder, if there is a value for it.
    pub(crate) fn and(&mut self, condition: &str, value: Option<String>) {
        if let Some(value) = value {
            self.found += &format!(" AND {condition}");
            self.values.push(value);
        }
    }

    pub(crate) fn bind(self, query: Asked) -> Asked {
        self.values.into_iter().fold(query, |query, value| query.bind(value))
    }
}

/// The SQL for a selection. It uses an index that reads few rows, where there is one.
pub(crate) fn selection(select: &Select, sql: &Sql) -> Selection {
    let statuses = || select.statuses.iter();
    let only = |wanted: fn(&Status) -> bool| !select.statuses.is_empty() && statuses().all(wanted);
    let mut found = if !select.ids.is_empty() {
        format!("{} WHERE event_id IN ({})", sql.event, places(select.ids.len()))
    } else if only(|status| status.is_pending()) {
        format!("{} FORCE INDEX (pending) WHERE pending = 1", sql.event)
    } else if only(|status| *status == Status::Dead) {
        format!("{} FORCE INDEX (agenda) WHERE agenda = 3", sql.event)
    } else {
        format!("{} WHERE TRUE", sql.event)
    };
    if !select.statuses.is_empty() {
        found += &format!(" AND status IN ({})", numbers(statuses().map(|status| status.code())));
    }
    let mut selection = Selection::new(found, select);
    selection.and("event_type = ?", select.event_type.clone());
    selection.and(&format!("coalesce(aggregate_type, '{GLOBAL}') = ?"), select.aggregate_type.clone());
    selection.and(&format!("{GROUP_KEY} = ?"), select.group.as_ref().map(ToString::to_string));
    selection.and("done_at < ?", select.ended_before.map(text));
    selection
}

pub(crate) async fn list<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    request: &List,
) -> Result<Vec<Record>, DriverError> {
    let statement = request.order.either(&sql.list, &sql.list_newest);
    let selection = K::selection(&request.select, sql);
    let columns = listed(sql.names.get("columns"), request.contents);
    let places = [("{listed_columns}", columns), ("{selected}", selection.found.clone())];
    let query = K::bind_after(selection.bind(session.once(fill(statement, &places))), request);
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok(read_all(&rows, K::record))
}

pub(crate) async fn show<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    id: &EventId,
) -> Result<Option<Shown>, DriverError> {
    let query = session.query(&*sql.show).bind(id.as_str());
    let Some(row) = query.fetch_optional(&mut session.connection).await? else { return Ok(None) };
    let attempts = K::attempts(session, sql, id).await?;
    Ok(Some(Shown { record: K::record(&decoder(&row), &Values(&row)), attempts }))
}

/// The failed attempts of one event.
pub(crate) async fn attempts(
    session: &mut Session,
    sql: &Sql,
    id: &EventId,
) -> Result<Vec<Attempt>, DriverError> {
    let rows = session.query(&*sql.attempts).bind(id.as_str()).fetch_all(&mut session.connection).await?;
    let attempt = |row: &MySqlRow| Attempt {
        number: number_of(row, 0).and_then(|number| u32::try_from(number).ok()).unwrap_or_default(),
        at: time_of(row, 1).unwrap_or_default(),
        by: owned(row, 2),
        error: owned(row, 3),
    };
    Ok(rows.iter().map(attempt).collect())
}

pub(crate) async fn count<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    select: &Select,
) -> Result<u64, DriverError> {
    let selection = K::selection(select, sql);
    let text = fill(&sql.count, &[("{selected}", selection.found.clone())]);
    number(&selection.bind(session.once(text)).fetch_one(&mut session.connection).await?, 0)
}

pub(crate) async fn stats<K: Kind>(session: &mut Session, sql: &Sql) -> Result<Stats, DriverError> {
    let mut stats = Stats::default();
    let row = session.query(&*sql.stats_pending).fetch_one(&mut session.connection).await?;
    (stats.events.new, stats.events.retry) = (number(&row, 0)?, number(&row, 1)?);
    (stats.queue.new, stats.queue.retry) = (number(&row, 2)?, number(&row, 3)?);
    stats.delayed = number(&row, 4)?;
    let now = time_of(&row, 6).unwrap_or_default();
    stats.oldest = time_of(&row, 5).map(|written| until(written, now));
    let row = session.query(&*sql.stats_ended).fetch_one(&mut session.connection).await?;
    (stats.events.done, stats.events.dead) = (number(&row, 0)?, number(&row, 1)?);
    (stats.queue.done, stats.queue.dead) = (number(&row, 2)?, number(&row, 3)?);
    stats.done_last_minute = number(&row, 4)?;
    stats.written_last_minute = number(&row, 5)?;
    // A table of items can exist without the tables beside it.
    if K::is_complete(session, sql).await? {
        let row = session.query(&*sql.stats_beside).fetch_one(&mut session.connection).await?;
        stats.free_slots = number(&row, 0)?;
        stats.blocked_groups = number(&row, 1)?;
        stats.paused_groups = number(&row, 2)?;
        stats.nodes = number(&row, 3)?;
    }
    let rows = session.query(&*sql.stats_dead).fetch_all(&mut session.connection).await?;
    let dead = |row: &MySqlRow| {
        Ok::<_, DriverError>(TypeCount { event_type: owned(row, 0), count: number(row, 1)? })
    };
    stats.dead_by_type = rows.iter().map(dead).collect::<Result<_, _>>()?;
    Ok(stats)
}

/// The column of a node's state. Tables of an earlier release do not have it.
const STATE: usize = 12;

pub(crate) async fn nodes(session: &mut Session, sql: &Sql) -> Result<Vec<NodeInfo>, DriverError> {
    let rows = session.query(&*sql.nodes).fetch_all(&mut session.connection).await?;
    let node = |row: &MySqlRow| {
        let (expires, now) = (time_of(row, 4).unwrap_or_default(), time_of(row, 6).unwrap_or_default());
        Ok(NodeInfo {
            node: node_id(&owned(row, 0))?,
            label: owned(row, 1),
            lane: Lane(i16::try_from(count_of(row, 2)?).unwrap_or_default()),
            slots: usize::try_from(number(row, 5)?).unwrap_or_default(),
            joined_at: time_of(row, 3).unwrap_or_default(),
            expires_in: (expires > now).then(|| until(now, expires)),
            expires_at: expires,
            state: text_of(row, STATE).map(str::to_owned),
        })
    };
    rows.iter().map(node).collect()
}

pub(crate) async fn audits(
    session: &mut Session,
    sql: &Sql,
    limit: usize,
) -> Result<Vec<AuditEntry>, DriverError> {
    let query = session.query(&*sql.audits).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    let entry = |row: &MySqlRow| AuditEntry {
        at: time_of(row, 0).unwrap_or_default(),
        by: owned(row, 1),
        action: owned(row, 2),
        target: owned(row, 3),
    };
    Ok(rows.iter().map(entry).collect())
}

fn owned(row: &MySqlRow, column: usize) -> String {
    text_of(row, column).unwrap_or_default().to_owned()
}

fn number(row: &MySqlRow, column: usize) -> Result<u64, DriverError> {
    Ok(u64::try_from(count_of(row, column)?).unwrap_or_default())
}
