//! Promoting due rows: out of the lane of delayed rows, to the end of the order.

use std::time::Duration;

use pillarbox::port::{Order, Promote, Promoted};
use rusqlite::params;

use crate::error::DriverError;
use crate::fetch::last_number;
use crate::membership::{is_member, later_due, next_due};
use crate::time::now;
use crate::transaction::SqliteTransaction;

pub(crate) fn promote(tx: &SqliteTransaction, request: &Promote) -> Result<Promoted, DriverError> {
    let now = now(request.now);
    if !is_member(tx, &tx.sql, request.node)? {
        return Ok(Promoted::default());
    }
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX);
    let due: Vec<(i64, bool)> = tx
        .prepare_cached(&tx.sql.promotable)?
        .query_map(params![now.as_microsecond(), limit], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut numbers = draw(tx, due.len())?;
    for (seq, grouped) in &due {
        let to_slot = request.order == Order::PerGroup && *grouped;
        renumber(tx, *seq, numbers.next().unwrap_or_default(), (!to_slot).then_some(request.lane.0))?;
    }
    let next_due = next_due(tx, now)?;
    let later = match next_due {
        Some(Duration::ZERO) => later_due(tx, now)?,
        _ => None,
    };
    Ok(Promoted { moved: due.len(), next_due, later })
}

/// Draws consecutive sequence numbers that were never used.
pub(crate) fn draw(
    tx: &SqliteTransaction,
    count: usize,
) -> Result<std::ops::RangeInclusive<i64>, DriverError> {
    let last = last_number(tx, &tx.sql)?;
    let count = i64::try_from(count).unwrap_or(0);
    tx.prepare_cached(&tx.sql.sequence_draw)?.execute([count])?;
    Ok(last + 1..=last + count)
}

/// Moves a row to a sequence number and lane.
pub(crate) fn renumber(
    tx: &SqliteTransaction,
    from: i64,
    to: i64,
    lane: Option<i16>,
) -> Result<(), DriverError> {
    tx.prepare_cached(&tx.sql.renumber)?.execute(params![from, to, lane])?;
    Ok(())
}
