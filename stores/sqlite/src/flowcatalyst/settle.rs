//! Applying outcomes to items that are still claimed at the time the caller's claim was made.

use jiff::Timestamp;
use pillarbox::model::{GroupKey, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled};
use rusqlite::{ToSql, params};

use super::time::text;
use crate::error::Failure;
use crate::transaction::SqliteTransaction;

pub(crate) fn settle(tx: &SqliteTransaction, request: &Settle, now: Timestamp) -> Result<Settled, Failure> {
    if let Fence::Node(node) = &request.fence {
        let here: bool =
            tx.prepare_cached(&tx.sql.node_here)?.query_row([node.to_string()], |row| row.get(0))?;
        if !here {
            return Ok(Settled { held: false, stale: (0..request.outcomes.len()).collect() });
        }
    }
    let mut stale = Vec::new();
    for (place, outcome) in request.outcomes.iter().enumerate() {
        if !apply(tx, outcome, request.on_done, now)? {
            stale.push(place);
        }
    }
    Ok(Settled { held: true, stale })
}

/// Whether the row changed.
fn apply(
    tx: &SqliteTransaction,
    outcome: &Outcome,
    on_done: OnDone,
    now: Timestamp,
) -> Result<bool, Failure> {
    let (id, token, now_text) = (outcome.id.as_str(), text(outcome.token.0), text(now.as_microsecond()));
    let run = |statement: &str, params: &[&dyn ToSql]| -> Result<bool, Failure> {
        Ok(tx.prepare_cached(statement)?.execute(params)? > 0)
    };
    match &outcome.change {
        Change::Done => match on_done {
            OnDone::Keep => run(&tx.sql.done, params![id, token, now_text]),
            OnDone::Delete => run(&tx.sql.done_delete, params![id, token]),
        },
        // The claim began an attempt, which becomes a retry only here.
        Change::Retry { error, counts, .. } => {
            run(&tx.sql.retry, params![id, token, stored_error(error), 1 + counted(*counts)])
        }
        Change::Dead { error, counts, blocks } => {
            let changed =
                run(&tx.sql.dead, params![id, token, stored_error(error), counted(*counts), now_text])?;
            if let Some(group) = blocks.as_ref().filter(|_| changed) {
                block(tx, group, outcome, error, now)?;
            }
            Ok(changed)
        }
        Change::Attempt => run(&tx.sql.attempt, params![id, token]),
        // There is no column for a time to wait until.
        Change::Delay | Change::Release => run(&tx.sql.release, params![id, token]),
        // A claim has no end that could be moved.
        Change::Extend { .. } => Ok(false),
    }
}

fn block(
    tx: &SqliteTransaction,
    group: &GroupKey,
    outcome: &Outcome,
    error: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    let blocked = tx.prepare_cached(&tx.sql.group_block)?.execute(params![
        group.as_str(),
        outcome.id.as_str(),
        stored_error(error),
        now.as_microsecond(),
    ])?;
    if blocked > 0 {
        tx.prepare_cached(&tx.sql.epoch_grow)?.execute([])?;
    }
    Ok(())
}

const fn counted(counts: Counts) -> i64 {
    match counts {
        Counts::One => 1,
        Counts::None => 0,
        Counts::Back => -1,
    }
}
