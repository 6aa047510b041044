//! Applying outcomes to items that are still claimed under the caller's token.

use jiff::Timestamp;
use pillarbox::model::{Token, stored_error};
use pillarbox::port::{Change, OnDone, Outcome, Settle, Settled};
use rusqlite::{Connection, ToSql, params};

use super::time::text;
use crate::error::DriverError;
use crate::groups::block_group;
use crate::sql::Sql;
use crate::time::now;

/// The token of an item that was not marked as taken, because it is too large to be rewritten.
const NOT_TAKEN: Token = Token(0);

/// Applies outcomes to items.
pub(crate) fn apply(connection: &Connection, sql: &Sql, request: &Settle) -> Result<Settled, DriverError> {
    let now = now(request.now);
    let mut stale = Vec::new();
    for (place, outcome) in request.outcomes.iter().enumerate() {
        if !apply_one(connection, sql, outcome, request.on_done, now)? {
            stale.push(place);
        }
    }
    Ok(Settled::all_but(stale))
}

/// Applies one outcome. Returns whether the row changed.
fn apply_one(
    connection: &Connection,
    sql: &Sql,
    outcome: &Outcome,
    on_done: OnDone,
    now: Timestamp,
) -> Result<bool, DriverError> {
    let (id, token, now_text) = (outcome.id.as_str(), text(outcome.token.0), text(now.as_microsecond()));
    let retries = outcome.change.retries();
    let run = |statement: &str, params: &[&dyn ToSql]| -> Result<bool, DriverError> {
        Ok(connection.prepare_cached(statement)?.execute(params)? > 0)
    };
    match &outcome.change {
        Change::Done => match on_done {
            OnDone::Keep => run(&sql.done, params![id, token, now_text]),
            OnDone::Delete => run(&sql.done_delete, params![id, token]),
        },
        Change::Retry { error, .. } => run(&sql.retry, params![id, token, stored_error(error), retries]),
        Change::Dead { error, blocks, .. } => {
            let error_text = stored_error(error);
            let changed = run(&sql.dead, params![id, token, error_text, retries, now_text])?
                || (outcome.token == NOT_TAKEN
                    && sql.sets_aside
                    && run(&sql.set_aside, params![id, retries, now_text, error_text])?);
            if let Some(group) = blocks.as_ref().filter(|_| changed) {
                block_group(connection, sql, group, &outcome.id, error, now)?;
            }
            Ok(changed)
        }
        Change::Attempt { .. } => run(&sql.attempt, params![id, token, retries]),
        Change::Waits { error } => run(&sql.waits, params![id, token, stored_error(error)]),
        // The table has no column for a due time.
        Change::Delay | Change::Release { .. } => run(&sql.release, params![id, token, retries]),
        // A claim of an item has no expiry that could be extended.
        Change::Extend { .. } => Ok(false),
    }
}
