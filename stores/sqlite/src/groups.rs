//! Held groups: listing them, and pausing, resuming, unblocking and skipping.

use jiff::Timestamp;
use pillarbox::model::{EventId, GroupKey, held_reason};
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroup, HeldGroups};
use pillarbox::rules::{Head, held_after};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::DriverError;
use crate::operate::{record, revive};
use crate::sql::Sql;
use crate::time::{now, timestamp};
use crate::transaction::SqliteTransaction;

/// A page of the held groups, ordered by key.
pub(crate) fn held_groups(
    connection: &Connection,
    sql: &Sql,
    page: &HeldGroups,
) -> Result<Vec<HeldGroup>, DriverError> {
    let after = page.after.as_ref().map(GroupKey::as_str);
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&sql.groups)?;
    let held = statement.query_map(params![after.unwrap_or_default(), after, limit], held_group)?;
    Ok(held.collect::<Result<_, _>>()?)
}

/// The held groups among these, ordered by key.
pub(crate) fn held_of(
    connection: &Connection,
    sql: &Sql,
    groups: &[GroupKey],
) -> Result<Vec<HeldGroup>, DriverError> {
    let groups: Vec<&str> = groups.iter().map(GroupKey::as_str).collect();
    let groups = serde_json::to_string(&groups).unwrap_or_default();
    let mut statement = connection.prepare_cached(&sql.groups_named)?;
    let held = statement.query_map([groups], held_group)?;
    Ok(held.collect::<Result<_, _>>()?)
}

fn held_group(row: &rusqlite::Row<'_>) -> Result<HeldGroup, rusqlite::Error> {
    Ok(HeldGroup {
        group: GroupKey::new(row.get::<_, String>(0)?),
        state: GroupState::from_stored(&row.get::<_, String>(1)?),
        event: row.get::<_, Option<String>>(2)?.map(EventId::from_row),
        reason: row.get(3)?,
        by: row.get(4)?,
        since: timestamp(row.get(5)?),
    })
}

pub(crate) fn change_group(tx: &SqliteTransaction, request: &GroupChange) -> Result<bool, DriverError> {
    let now = now(request.now);
    let key = request.group.as_str();
    let held: Option<(GroupState, Option<String>)> = tx
        .prepare_cached(&tx.sql.group_show)?
        .query_row([key], |row| Ok((GroupState::from_stored(&row.get::<_, String>(0)?), row.get(1)?)))
        .optional()?;
    let state = held.as_ref().map(|(state, _)| *state);
    let event = held.and_then(|(_, event)| event);
    let head = if event.is_some() { Head::Dead } else { Head::Sound };
    let Some(next) = held_after(state, head, request.action) else { return Ok(false) };
    if let (GroupAction::Unblock, Some(event)) = (request.action, &event) {
        let locate = |row: &rusqlite::Row<'_>| row.get(0);
        if let Some(seq) = tx.prepare_cached(&tx.sql.locate)?.query_row([event], locate).optional()? {
            revive(tx, seq, now)?;
        }
    }
    match next {
        Some(state) => tx.prepare_cached(&tx.sql.group_hold)?.execute(params![
            key,
            state.as_str(),
            event,
            request.reason,
            request.by,
            now.as_microsecond(),
        ])?,
        None => tx.prepare_cached(&tx.sql.group_free)?.execute([key])?,
    };
    tx.prepare_cached(&tx.sql.epoch_grow)?.execute([])?;
    record(tx, now, &request.by, request.action.as_str(), key)?;
    Ok(true)
}

/// Blocks a group behind its dead event. A paused group stays paused and remembers the event.
pub(crate) fn block_group(
    connection: &Connection,
    sql: &Sql,
    group: &GroupKey,
    event: &EventId,
    error: &str,
    now: Timestamp,
) -> Result<(), DriverError> {
    let block = params![group.as_str(), event.as_str(), held_reason(error), now.as_microsecond()];
    if connection.prepare_cached(&sql.group_block)?.execute(block)? > 0 {
        connection.prepare_cached(&sql.epoch_grow)?.execute([])?;
    }
    Ok(())
}

/// Frees the group that is held behind this event; a paused group stays paused and forgets
/// it. False if there is none.
pub(crate) fn free_group_behind(tx: &SqliteTransaction, event: &str) -> Result<bool, DriverError> {
    let behind: Option<(String, String)> = tx
        .prepare_cached(&tx.sql.group_behind)?
        .query_row([event], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((group, state)) = behind else { return Ok(false) };
    let statement = match GroupState::from_stored(&state) {
        GroupState::Blocked => &tx.sql.group_free,
        GroupState::Paused => &tx.sql.group_forget,
    };
    tx.prepare_cached(statement)?.execute([group])?;
    tx.prepare_cached(&tx.sql.epoch_grow)?.execute([])?;
    Ok(true)
}
