//! Queries for operators: lists, single events, counts, statistics, nodes and audit entries.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Attempt, EventId, GroupKey, Lane, Record};
use pillarbox::port::{AuditEntry, Contents, List, NodeInfo, Select, Shown, Stats, TypeCount};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use crate::error::DriverError;
use crate::kind::Kind;
use crate::membership::node_id;
use crate::row::{decoder, lossy_text};
use crate::settle::remembers;
use crate::sql::Sql;
use crate::time::{earlier, timestamp, until};

const MINUTE: Duration = Duration::from_secs(60);
/// Promoted and replayed rows at the end of the order are older than the rows around them. After this many
/// old rows in a row, all further rows are taken to be old too.
const OLD_ROWS: usize = 1_000;

/// A selection as parameters 1 to 6 of a statement.
pub(crate) struct Selection<'a> {
    ids: Option<String>,
    statuses: i64,
    event_type: Option<&'a str>,
    aggregate_type: Option<&'a str>,
    group: Option<&'a str>,
    ended_before: Option<Value>,
}

impl<'a> Selection<'a> {
    pub(crate) fn new<K: Kind>(select: &'a Select) -> Self {
        let ids: Vec<&str> = select.ids.iter().map(EventId::as_str).collect();
        let mask = select.statuses.iter().fold(0, |mask, status| mask | 1 << status.code());
        Self {
            // A list of texts can always be written as JSON.
            ids: (!ids.is_empty()).then(|| serde_json::to_string(&ids).unwrap_or_default()),
            // The fifth bit stands for any unknown status.
            statuses: if select.statuses.is_empty() { 0b1_1111 } else { mask },
            event_type: select.event_type.as_deref(),
            aggregate_type: select.aggregate_type.as_deref(),
            group: select.group.as_ref().map(GroupKey::as_str),
            ended_before: select.ended_before.map(|at| K::time(at.as_microsecond())),
        }
    }

    /// The parameters of the selection, followed by `more`.
    pub(crate) fn params<'b>(&'b self, more: &[&'b dyn ToSql]) -> Vec<&'b dyn ToSql> {
        let own: [&dyn ToSql; 6] = [
            &self.ids,
            &self.statuses,
            &self.event_type,
            &self.aggregate_type,
            &self.group,
            &self.ended_before,
        ];
        own.into_iter().chain(more.iter().copied()).collect()
    }
}

pub(crate) fn list<K: Kind>(
    connection: &Connection,
    sql: &Sql,
    request: &List,
) -> Result<Vec<Record>, DriverError> {
    let statement = request.order.either(&sql.list, &sql.list_newest);
    let after = K::page_after(request);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let whole = request.contents == Contents::Whole;
    let mut statement = connection.prepare_cached(statement.of(&request.select))?;
    let (decoder, selection) = (decoder(&statement), Selection::new::<K>(&request.select));
    let given = selection.params(&[&after, &limit, &whole]);
    let records = statement.query_map(given.as_slice(), |row| Ok(K::record(&decoder, row)))?;
    Ok(records.collect::<Result<_, _>>()?)
}

pub(crate) fn show<K: Kind>(
    connection: &Connection,
    sql: &Sql,
    id: &EventId,
) -> Result<Option<Shown>, DriverError> {
    let mut statement = connection.prepare_cached(&sql.show)?;
    let decoder = decoder(&statement);
    let record = statement.query_row([id.as_str()], |row| Ok(K::record(&decoder, row))).optional()?;
    let Some(record) = record else { return Ok(None) };
    if !remembers(connection, sql)? {
        return Ok(Some(Shown { record, attempts: Vec::new() }));
    }
    let attempts = connection
        .prepare_cached(&sql.attempts)?
        .query_map([id.as_str()], |row| {
            Ok(Attempt {
                number: row.get(0)?,
                at: timestamp(row.get(1)?),
                by: row.get(2)?,
                error: row.get(3)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(Some(Shown { record, attempts }))
}

pub(crate) fn count<K: Kind>(
    connection: &Connection,
    sql: &Sql,
    select: &Select,
) -> Result<u64, DriverError> {
    let chosen = Selection::new::<K>(select);
    let mut statement = connection.prepare_cached(sql.count.of(select))?;
    Ok(unsigned(statement.query_row(chosen.params(&[]).as_slice(), |row| row.get(0))?))
}

pub(crate) fn stats<K: Kind>(
    connection: &Connection,
    sql: &Sql,
    now: Timestamp,
) -> Result<Stats, DriverError> {
    let (now_us, minute_ago) = (now.as_microsecond(), earlier(now, MINUTE));
    let number = |row: &rusqlite::Row<'_>, column: usize| row.get(column).map(unsigned);
    let mut stats =
        Stats { written_last_minute: written_since::<K>(connection, sql, minute_ago)?, ..Stats::default() };
    connection.prepare_cached(&sql.stats_pending)?.query_row([now_us], |row| {
        (stats.events.new, stats.events.retry) = (number(row, 0)?, number(row, 1)?);
        (stats.queue.new, stats.queue.retry) = (number(row, 2)?, number(row, 3)?);
        stats.delayed = number(row, 4)?;
        let oldest = K::stored_time(row.get_ref(5)?);
        stats.oldest = oldest.map(|at| until(timestamp(at), now_us));
        Ok(())
    })?;
    connection.prepare_cached(&sql.stats_ended)?.query_row([K::time(minute_ago)], |row| {
        (stats.events.done, stats.events.dead) = (number(row, 0)?, number(row, 1)?);
        (stats.queue.done, stats.queue.dead) = (number(row, 2)?, number(row, 3)?);
        stats.done_last_minute = number(row, 4)?;
        Ok(())
    })?;
    if there(connection, sql)? {
        beside(connection, sql, now_us, &mut stats)?;
    }
    stats.dead_by_type = connection
        .prepare_cached(&sql.stats_dead)?
        .query_map([], |row| Ok(TypeCount { event_type: lossy_text(row, 0)?, count: number(row, 1)? }))?
        .collect::<Result<_, _>>()?;
    Ok(stats)
}

/// Whether the tables beside the outbox exist. A table of items can exist without them.
fn there(connection: &Connection, sql: &Sql) -> Result<bool, DriverError> {
    Ok(connection.prepare_cached(&sql.tables)?.query_row([], |row| row.get(0))?)
}

fn beside(connection: &Connection, sql: &Sql, now_us: i64, stats: &mut Stats) -> Result<(), DriverError> {
    let number = |row: &rusqlite::Row<'_>, column: usize| row.get(column).map(unsigned);
    connection.prepare_cached(&sql.stats_beside)?.query_row([now_us], |row| {
        stats.free_slots = number(row, 0)?;
        stats.blocked_groups = number(row, 1)?;
        stats.paused_groups = number(row, 2)?;
        stats.nodes = number(row, 3)?;
        Ok(())
    })?;
    Ok(())
}

pub(crate) fn nodes(
    connection: &Connection,
    sql: &Sql,
    now: Timestamp,
) -> Result<Vec<NodeInfo>, DriverError> {
    let nodes = connection
        .prepare_cached(&sql.nodes)?
        .query_map([], |row| {
            let Some(node) = node_id(row, 0)? else { return Ok(None) };
            let expires: i64 = row.get(4)?;
            Ok(Some(NodeInfo {
                node,
                label: row.get(1)?,
                lane: Lane(row.get(2)?),
                slots: usize::try_from(row.get::<_, i64>(5)?).unwrap_or(0),
                joined_at: timestamp(row.get(3)?),
                expires_in: (expires > now.as_microsecond()).then(|| until(now, expires)),
                expires_at: timestamp(expires),
                state: row.get("state").unwrap_or_default(),
            }))
        })?
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    Ok(nodes)
}

pub(crate) fn audits(
    connection: &Connection,
    sql: &Sql,
    limit: usize,
) -> Result<Vec<AuditEntry>, DriverError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let entries = connection
        .prepare_cached(&sql.audits)?
        .query_map(params![limit], |row| {
            Ok(AuditEntry {
                at: timestamp(row.get(0)?),
                by: row.get(1)?,
                action: row.get(2)?,
                target: row.get(3)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(entries)
}

fn written_since<K: Kind>(connection: &Connection, sql: &Sql, since: i64) -> Result<u64, DriverError> {
    let mut statement = connection.prepare_cached(&sql.stats_written)?;
    let mut rows = statement.query([])?;
    let (mut written, mut old) = (0, 0);
    while let Some(row) = rows.next()? {
        if K::stored_time(row.get_ref(0)?).is_some_and(|at| at > since) {
            (written, old) = (written + 1, 0);
        } else if old < OLD_ROWS {
            old += 1;
        } else {
            break;
        }
    }
    Ok(written)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
