//! What operators do to rows: replay, discard, cancel, purge.

use jiff::Timestamp;
use pillarbox::model::{EventId, Lane, Layout, Status, StepState};
use pillarbox::port::{Cancel, Discard, Purge, PurgeStatus, Replay, Select};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::groups::free_group_behind;
use crate::inspect::Selection;
use crate::joins::{Ended, purge_joins};
use crate::promote::{draw, renumber};
use crate::row::lossy_text;
use crate::settle::remembers;
use crate::sql::Sql;
use crate::time::earlier;
use crate::transaction::SqliteTransaction;

/// A dead event that was found.
struct Dead {
    seq: i64,
    id: String,
    lane: Option<i16>,
}

pub(crate) fn replay(tx: &SqliteTransaction, request: &Replay, now: Timestamp) -> Result<u64, Failure> {
    let dead = find_dead(tx, &request.select, request.limit)?;
    for one in &dead {
        let in_place = free_group_behind(tx, &one.id)?;
        revive(tx, one.seq, now)?;
        if !in_place && tx.sql.layout == Layout::Native {
            let number = *draw(tx, 1)?.end();
            renumber(tx, one.seq, number, one.lane.filter(|lane| *lane == Lane::QUEUE.0))?;
        }
        record(tx, now, &request.by, "replay", &one.id)?;
    }
    Ok(dead.len() as u64)
}

pub(crate) fn discard(tx: &SqliteTransaction, request: &Discard, now: Timestamp) -> Result<u64, Failure> {
    let dead = find_dead(tx, &request.select, request.limit)?;
    for one in &dead {
        tx.prepare_cached(&tx.sql.discard)?.execute([one.seq])?;
        forget(tx, &one.id)?;
        free_group_behind(tx, &one.id)?;
        record(tx, now, &request.by, "discard", &one.id)?;
    }
    Ok(dead.len() as u64)
}

/// Also for transactions of the user's own connection.
pub(crate) fn cancel(
    connection: &Connection,
    sql: &Sql,
    request: &Cancel,
    now: Timestamp,
) -> Result<Vec<EventId>, Failure> {
    let now_us = now.as_microsecond();
    let (mut cancelled, mut ended) = (Vec::new(), Ended::default());
    for id in &request.ids {
        let joined: Option<bool> = connection
            .prepare_cached(&sql.cancel)?
            .query_row(params![id.as_str(), now_us], |row| row.get(0))
            .optional()?;
        let Some(joined) = joined else { continue };
        if sql.layout == Layout::Native {
            connection.prepare_cached(&sql.forget)?.execute([id.as_str()])?;
        }
        if joined {
            // A step that was taken back will never come.
            ended.message(connection, sql, id.as_str(), StepState::Failed)?;
        }
        let audit = params![now_us, request.by, "cancel", id.as_str()];
        connection.prepare_cached(&sql.audit)?.execute(audit)?;
        cancelled.push(id.clone());
    }
    ended.count(connection, sql, now)?;
    Ok(cancelled)
}

pub(crate) fn purge(tx: &SqliteTransaction, request: &Purge, now: Timestamp) -> Result<u64, Failure> {
    let before = tx.sql.time(earlier(now, request.older_than));
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let status = match request.status {
        PurgeStatus::Done => Some(Status::Done.code()),
        PurgeStatus::Dead => Some(Status::Dead.code()),
        PurgeStatus::Any => None,
    };
    let found = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, lossy_text(row, 1)?));
    let rows: Vec<(i64, String)> = match status {
        Some(status) => tx
            .prepare_cached(&tx.sql.ended)?
            .query_map(params![status, before, limit], found)?
            .collect::<Result<_, _>>()?,
        None => tx
            .prepare_cached(&tx.sql.written_before)?
            .query_map(params![before, limit], found)?
            .collect::<Result<_, _>>()?,
    };
    let remembers = tx.sql.layout == Layout::Native && remembers(tx, &tx.sql)?;
    let mut purged = 0;
    for (seq, id) in rows {
        let gone = match status {
            Some(status) => tx.prepare_cached(&tx.sql.purge)?.execute(params![seq, status, before])?,
            None => tx.prepare_cached(&tx.sql.purge_any)?.execute(params![seq, before])?,
        };
        if gone > 0 && remembers {
            forget(tx, &id)?;
        }
        purged += gone as u64;
    }
    if tx.sql.layout == Layout::Native && request.status == PurgeStatus::Done {
        purge_joins(tx, &tx.sql, earlier(now, request.older_than), limit)?;
    }
    Ok(purged)
}

/// Brings a dead event back to new, where it is.
pub(crate) fn revive(tx: &SqliteTransaction, seq: i64, now: Timestamp) -> Result<(), Failure> {
    tx.prepare_cached(&tx.sql.revive)?.execute(params![seq, now.as_microsecond()])?;
    Ok(())
}

/// Puts an operator's action on record.
pub(crate) fn record(
    tx: &SqliteTransaction,
    now: Timestamp,
    by: &str,
    action: &str,
    target: &str,
) -> Result<(), Failure> {
    tx.prepare_cached(&tx.sql.audit)?.execute(params![now.as_microsecond(), by, action, target])?;
    Ok(())
}

fn forget(tx: &SqliteTransaction, id: &str) -> Result<(), Failure> {
    // Items have no history.
    if tx.sql.layout == Layout::Native {
        tx.prepare_cached(&tx.sql.forget)?.execute([id])?;
    }
    Ok(())
}

fn find_dead(tx: &SqliteTransaction, select: &Select, limit: usize) -> Result<Vec<Dead>, Failure> {
    if !select.statuses.is_empty() && !select.statuses.contains(&Status::Dead) {
        return Ok(Vec::new());
    }
    let select = Select { statuses: vec![Status::Dead], ..select.clone() };
    let chosen = Selection::new(&select, &tx.sql);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let dead = tx
        .prepare_cached(tx.sql.dead_matching.of(&select))?
        .query_map(chosen.params(&[&limit]).as_slice(), |row| {
            Ok(Dead { seq: row.get(0)?, id: lossy_text(row, 1)?, lane: row.get(2)? })
        })?
        .collect::<Result<_, _>>()?;
    Ok(dead)
}
