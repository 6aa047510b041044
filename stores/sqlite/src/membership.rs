//! Membership of nodes: registering, heartbeats, evicting, leaving, and the slots that nodes hold.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Lane, NodeId, Seq, Slot};
use pillarbox::port::{ErrorKind, GroupStates, Heartbeat, HeldGroups, Membership, Register};
use pillarbox::rules::{Member, Members, SlotRecord};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::DriverError;
use crate::fetch;
use crate::groups::held_groups;
use crate::kind::Kind;
use crate::sql::Sql;
use crate::time::{later, now, timestamp, until};
use crate::transaction::SqliteTransaction;

pub(crate) fn register<K: Kind>(
    tx: &SqliteTransaction,
    request: &Register,
) -> Result<Membership, DriverError> {
    let now = now(request.now);
    evict(tx, None, now)?;
    let mut members = members(tx, &tx.sql)?;
    if members.has(request.node) {
        let detail = format!("node {} already exists", request.node);
        return Err(DriverError::Refused(ErrorKind::Conflict, detail));
    }
    let lane = members.free_lane(request.reads);
    tx.prepare_cached(&tx.sql.node_register)?.execute(params![
        request.node.to_string(),
        request.label,
        lane.0,
        now.as_microsecond(),
        later(now, request.lease),
    ])?;
    take(tx, &mut members, request.node, &[lane.slot()])?;
    // Shares depend on the order in which nodes registered, which only the table knows.
    let mut members = members.reread(self::members(tx, &tx.sql)?);
    let share = members.share(request.node, &[]);
    take(tx, &mut members, request.node, &share.take)?;
    let seen = Seen { groups: None, after: 0 };
    membership::<K>(tx, &members, request.node, share.give, seen, now)
}

pub(crate) fn heartbeat<K: Kind>(
    tx: &SqliteTransaction,
    request: &Heartbeat,
) -> Result<Option<Membership>, DriverError> {
    let now = now(request.now);
    let node = request.node.to_string();
    let expires = later(now, request.lease);
    if tx.prepare_cached(&tx.sql.node_renew)?.execute(params![node, expires])? == 0 {
        return Ok(None);
    }
    evict(tx, Some(request.node), now)?;
    trust(tx, request)?;
    if !request.release.is_empty() {
        release(tx, request)?;
    }
    if request.sweep {
        tx.prepare_cached(&tx.sql.slots_sweep)?.execute([])?;
    }
    let mut members = members(tx, &tx.sql)?;
    let share = members.share(request.node, &request.release);
    take(tx, &mut members, request.node, &share.take)?;
    let seen = Seen { groups: Some(request.groups_seen), after: request.after.0 };
    membership::<K>(tx, &members, request.node, share.give, seen, now).map(Some)
}

pub(crate) fn publish(tx: &SqliteTransaction, node: NodeId, state: &str) -> Result<(), DriverError> {
    tx.prepare_cached(&tx.sql.node_publish)?.execute(params![node.to_string(), state])?;
    Ok(())
}

pub(crate) fn leave(tx: &SqliteTransaction, node: NodeId) -> Result<(), DriverError> {
    let node = node.to_string();
    if tx.prepare_cached(&tx.sql.node_delete)?.execute([&node])? > 0 {
        tx.prepare_cached(&tx.sql.slots_free)?.execute([&node])?;
    }
    Ok(())
}

/// Whether a node is registered. The caller holds the write lock, which makes this check a fence.
pub(crate) fn is_member(connection: &Connection, sql: &Sql, node: NodeId) -> Result<bool, DriverError> {
    Ok(connection.prepare_cached(&sql.node_here)?.query_row([node.to_string()], |row| row.get(0))?)
}

/// Evicts every expired node except `renewing`.
fn evict(tx: &SqliteTransaction, renewing: Option<NodeId>, now: Timestamp) -> Result<(), DriverError> {
    let renewing = renewing.map(|node| node.to_string()).unwrap_or_default();
    let expired: Vec<String> = tx
        .prepare_cached(&tx.sql.node_expired)?
        .query_map(params![now.as_microsecond(), renewing], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for node in expired {
        tx.prepare_cached(&tx.sql.node_delete)?.execute([&node])?;
        tx.prepare_cached(&tx.sql.slots_evict)?.execute([&node])?;
    }
    Ok(())
}

/// Ends the quarantine of slots.
fn trust(tx: &SqliteTransaction, request: &Heartbeat) -> Result<(), DriverError> {
    let node = request.node.to_string();
    for slot in &request.trusted {
        tx.prepare_cached(&tx.sql.slot_trust)?.execute(params![slot.0, node])?;
    }
    Ok(())
}

fn release(tx: &SqliteTransaction, request: &Heartbeat) -> Result<(), DriverError> {
    let node = request.node.to_string();
    let own = members(tx, &tx.sql)?.lane_of(request.node).slot();
    for slot in request.release.iter().filter(|slot| **slot != own) {
        let statement = if slot.is_lane() { &tx.sql.slot_drop } else { &tx.sql.slot_release };
        tx.prepare_cached(statement)?.execute(params![slot.0, node])?;
    }
    Ok(())
}

/// The time until the next delayed row is due; zero if one is due already.
pub(crate) fn next_due(tx: &SqliteTransaction, now: Timestamp) -> Result<Option<Duration>, DriverError> {
    let due = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_i64().ok());
    let due = tx.prepare_cached(&tx.sql.next_due)?.query_row([], due)?;
    Ok(due.map(|due| until(now, due)))
}

/// The time until the next delayed row that is not due yet.
pub(crate) fn later_due(tx: &SqliteTransaction, now: Timestamp) -> Result<Option<Duration>, DriverError> {
    let due = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_i64().ok());
    let due = tx.prepare_cached(&tx.sql.later_due)?.query_row([now.as_microsecond()], due)?;
    Ok(due.map(|due| until(now, due)))
}

/// Parses a node id from a column.
pub(crate) fn node_id(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<NodeId>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| {
        NodeId::parse(&text)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
    })
    .transpose()
}

/// What the node knows from earlier heartbeats.
struct Seen {
    groups: Option<i64>,
    after: i64,
}

/// The nodes, and the slots with their holders.
pub(crate) fn members(connection: &Connection, sql: &Sql) -> Result<Members, DriverError> {
    let node = |row: &rusqlite::Row<'_>| {
        let (lane, expires_at) = (Lane(row.get(2)?), timestamp(row.get(4)?));
        Ok(node_id(row, 0)?.map(|id| Member { id, lane, expires_at, details: () }))
    };
    let slot = |row: &rusqlite::Row<'_>| {
        let (holder, suspect) = (node_id(row, 1)?, row.get(2)?);
        Ok(SlotRecord::new(Slot(row.get(0)?), holder, suspect, row.get(3)?, Seq(row.get(4)?)))
    };
    let nodes = connection
        .prepare_cached(&sql.nodes)?
        .query_map([], node)?
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    let slots = connection.prepare_cached(&sql.slots)?.query_map([], slot)?.collect::<Result<_, _>>()?;
    Ok(Members::new(nodes, slots))
}

/// Takes slots, in the table and in the snapshot.
fn take(
    tx: &SqliteTransaction,
    members: &mut Members,
    node: NodeId,
    slots: &[Slot],
) -> Result<(), DriverError> {
    for slot in slots {
        tx.prepare_cached(&tx.sql.slot_take)?.execute(params![slot.0, node.to_string()])?;
    }
    members.take(node, slots);
    Ok(())
}

/// The membership of a node, with its held groups and its pending rows.
fn membership<K: Kind>(
    tx: &SqliteTransaction,
    members: &Members,
    node: NodeId,
    give: Vec<Slot>,
    seen: Seen,
    now: Timestamp,
) -> Result<Membership, DriverError> {
    let slots = fetch::SlotParameters::new(members.held_by(node).map(|record| record.state.slot));
    let first_after = |after: i64| -> Result<Option<i64>, DriverError> {
        let mut first = tx.prepare_cached(&tx.sql.first_pending)?;
        let written_at = |row: &rusqlite::Row<'_>| Ok(K::stored_time(row.get_ref(0)?).unwrap_or_default());
        Ok(first.query_row(params![after, slots.mask, slots.lanes], written_at).optional()?)
    };
    let epoch: i64 = tx.prepare_cached(&tx.sql.epoch)?.query_row([], |row| row.get(0))?;
    let groups = match seen.groups {
        Some(seen) if seen == epoch => None,
        _ => Some(GroupStates { epoch, held: held_groups(tx, &tx.sql, &HeldGroups::first())? }),
    };
    Ok(Membership {
        ready: first_after(seen.after)?.is_some(),
        next_due: next_due(tx, now)?,
        oldest: first_after(0)?.map(timestamp),
        ..members.membership(node, give, groups, now)
    })
}
