//! Operators' changes to rows: replay, discard, cancel and purge.

use jiff::Timestamp;
use pillarbox::model::{EventId, Status, StepState};
use pillarbox::port::{Cancel, Discard, Purge, PurgeStatus, Replay, Select};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::DriverError;
use crate::groups::free_group_behind;
use crate::inspect::Selection;
use crate::joins::Ended;
use crate::kind::Kind;
use crate::row::lossy_text;
use crate::settle::remembers;
use crate::sql::{Purging, Sql};
use crate::time::{earlier, now};
use crate::transaction::SqliteTransaction;

/// A dead event of the selection.
struct Dead {
    seq: i64,
    id: String,
    lane: Option<i16>,
}

pub(crate) fn replay<K: Kind>(tx: &SqliteTransaction, request: &Replay) -> Result<u64, DriverError> {
    let now = now(request.now);
    let dead = find_dead::<K>(tx, &request.select, request.limit)?;
    for one in &dead {
        // The dead event of a held group keeps its place, ahead of the rows behind it. Other rows go to the
        // end of the order.
        let in_place = free_group_behind(tx, &one.id)?;
        revive(tx, one.seq, now)?;
        if !in_place {
            K::move_to_end(tx, one.seq, one.lane)?;
        }
        record(tx, now, &request.by, "replay", &one.id)?;
    }
    Ok(dead.len() as u64)
}

pub(crate) fn discard<K: Kind>(tx: &SqliteTransaction, request: &Discard) -> Result<u64, DriverError> {
    let now = now(request.now);
    let dead = find_dead::<K>(tx, &request.select, request.limit)?;
    let remembers = remembers(tx, &tx.sql)?;
    for one in &dead {
        tx.prepare_cached(&tx.sql.discard)?.execute([one.seq])?;
        if remembers {
            forget(tx, &tx.sql, &one.id)?;
        }
        free_group_behind(tx, &one.id)?;
        record(tx, now, &request.by, "discard", &one.id)?;
    }
    clear(tx)?;
    Ok(dead.len() as u64)
}

/// Cancels events within an open transaction, the store's own or the user's.
pub(crate) fn cancel(
    connection: &Connection,
    sql: &Sql,
    request: &Cancel,
) -> Result<Vec<EventId>, DriverError> {
    let now = now(request.now);
    let (now_us, remembers) = (now.as_microsecond(), remembers(connection, sql)?);
    let (mut cancelled, mut ended) = (Vec::new(), Ended::default());
    for id in &request.ids {
        let found: Option<(i64, bool)> = connection
            .prepare_cached(&sql.cancellable)?
            .query_row(params![id.as_str(), now_us], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((seq, joined)) = found else { continue };
        connection.prepare_cached(&sql.cancel)?.execute([seq])?;
        if remembers {
            forget(connection, sql, id.as_str())?;
        }
        if joined {
            // A cancelled step will never complete.
            ended.message(connection, sql, id.as_str(), StepState::Failed)?;
        }
        let audit = params![now_us, request.by, "cancel", id.as_str()];
        connection.prepare_cached(&sql.audit)?.execute(audit)?;
        cancelled.push(id.clone());
    }
    ended.count(connection, sql, now)?;
    Ok(cancelled)
}

pub(crate) fn purge<K: Kind>(tx: &SqliteTransaction, request: &Purge) -> Result<u64, DriverError> {
    let before_us = earlier(now(request.now), request.older_than);
    let before = K::time(before_us);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let status = match request.status {
        PurgeStatus::Done => Some(Status::Done.code()),
        PurgeStatus::Dead => Some(Status::Dead.code()),
        PurgeStatus::Any => None,
    };
    let found = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, lossy_text(row, 1)?));
    let rows: Vec<(i64, String)> = match status {
        Some(status) => tx
            .prepare_cached(purge_text(tx, &tx.sql.ended)?)?
            .query_map(params![status, before, limit], found)?
            .collect::<Result<_, _>>()?,
        None => tx
            .prepare_cached(purge_text(tx, &tx.sql.written_before)?)?
            .query_map(params![before, limit], found)?
            .collect::<Result<_, _>>()?,
    };
    let remembers = remembers(tx, &tx.sql)?;
    let mut purged = 0;
    for (seq, id) in rows {
        let gone = match status {
            Some(status) => tx.prepare_cached(&tx.sql.purge)?.execute(params![seq, status, before])?,
            None => tx.prepare_cached(&tx.sql.purge_any)?.execute(params![seq, before])?,
        };
        if gone > 0 && remembers {
            forget(tx, &tx.sql, &id)?;
        }
        purged += gone as u64;
    }
    clear(tx)?;
    if request.status == PurgeStatus::Done {
        K::purge_joins(tx, before_us, limit)?;
    }
    Ok(purged)
}

/// The form of a search for these tables. A table of items may have no tables of ours beside it.
fn purge_text<'s>(tx: &SqliteTransaction, search: &'s Purging) -> Result<&'s str, DriverError> {
    let Some(alone) = &search.alone else { return Ok(&search.held) };
    let beside: bool = tx.prepare_cached(&tx.sql.tables)?.query_row([], |row| row.get(0))?;
    Ok(if beside { &search.held } else { alone })
}

/// Makes a dead event new again, in its place.
pub(crate) fn revive(tx: &SqliteTransaction, seq: i64, now: Timestamp) -> Result<(), DriverError> {
    tx.prepare_cached(&tx.sql.revive)?.execute(params![seq, now.as_microsecond()])?;
    if tx.sql.sets_aside {
        tx.prepare_cached(&tx.sql.restore)?.execute([seq])?;
    }
    Ok(())
}

/// Forgets rows that were set aside for their size and are gone.
fn clear(tx: &SqliteTransaction) -> Result<(), DriverError> {
    if tx.sql.sets_aside {
        tx.prepare_cached(&tx.sql.clear)?.execute([])?;
    }
    Ok(())
}

/// Writes an audit entry for an operator's action.
pub(crate) fn record(
    tx: &SqliteTransaction,
    now: Timestamp,
    by: &str,
    action: &str,
    target: &str,
) -> Result<(), DriverError> {
    tx.prepare_cached(&tx.sql.audit)?.execute(params![now.as_microsecond(), by, action, target])?;
    Ok(())
}

fn forget(connection: &Connection, sql: &Sql, id: &str) -> Result<(), DriverError> {
    connection.prepare_cached(&sql.forget)?.execute([id])?;
    Ok(())
}

fn find_dead<K: Kind>(
    tx: &SqliteTransaction,
    select: &Select,
    limit: usize,
) -> Result<Vec<Dead>, DriverError> {
    if !select.statuses.is_empty() && !select.statuses.contains(&Status::Dead) {
        return Ok(Vec::new());
    }
    let select = Select { statuses: vec![Status::Dead], ..select.clone() };
    let chosen = Selection::new::<K>(&select);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let dead = tx
        .prepare_cached(tx.sql.dead_matching.of(&select))?
        .query_map(chosen.params(&[&limit]).as_slice(), |row| {
            Ok(Dead { seq: row.get(0)?, id: lossy_text(row, 1)?, lane: row.get(2)? })
        })?
        .collect::<Result<_, _>>()?;
    Ok(dead)
}
