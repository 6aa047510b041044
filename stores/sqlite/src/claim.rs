//! Claiming rows under a lease.

use jiff::Timestamp;
use pillarbox::model::{Row, Token};
use pillarbox::port::{Claim, ClaimFrom, Reap};
use rusqlite::params;

use crate::error::Failure;
use crate::fetch::row_most;
use crate::row::read_claimed;
use crate::time::{earlier, later, old_enough};
use crate::transaction::SqliteTransaction;

pub(crate) fn claim(tx: &SqliteTransaction, request: &Claim, now: Timestamp) -> Result<Vec<Row>, Failure> {
    let now_us = now.as_microsecond();
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX);
    let mut find = tx.prepare_cached(match request.from {
        ClaimFrom::Queue => &tx.sql.claim_queue,
        ClaimFrom::Events => &tx.sql.fetch_due,
    })?;
    let oldest = old_enough(now, request.skip_recent);
    let mut found = find.query(params![row_most(&request.bytes), now_us, oldest, limit])?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let row = read_claimed(row, &request.bytes);
        bytes += row.bytes;
        rows.push(row);
        if request.bytes.reached_by(bytes) {
            break;
        }
    }
    let mut lock = tx.prepare_cached(&tx.sql.claim)?;
    let until = later(now, request.lease);
    for row in &mut rows {
        lock.execute(params![row.seq.0, request.owner.as_str(), now_us, until])?;
        row.token = Token(row.token.0 + 1);
        row.attempts = row.attempts.saturating_add(u32::from(!row.lapsed));
    }
    Ok(rows)
}

/// Gives back what was claimed until too long ago.
pub(crate) fn reap(tx: &SqliteTransaction, request: &Reap, now: Timestamp) -> Result<u64, Failure> {
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX);
    let before = earlier(now, request.older_than);
    Ok(tx.prepare_cached(&tx.sql.reap)?.execute(params![before, limit])? as u64)
}
