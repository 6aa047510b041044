//! Membership of nodes: registering, heartbeats, evicting, leaving, and the slots that nodes hold.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Lane, NodeId, Seq, Slot};
use pillarbox::port::{
    ErrorKind, GroupStates, Heartbeat, HeldGroups, HeldSlot, Membership, Quarantine, Register,
};
use pillarbox::rules::{SlotState, free_lane, share};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::fetch;
use crate::groups::held_groups;
use crate::kind::Kind;
use crate::sql::Sql;
use crate::time::{later, now, timestamp, until};
use crate::transaction::SqliteTransaction;

pub(crate) fn join<K: Kind>(tx: &SqliteTransaction, request: &Register) -> Result<Membership, Failure> {
    let now = now(request.now);
    evict(tx, None, now)?;
    let mut view = View::read(tx)?;
    if view.nodes.iter().any(|(id, _)| *id == request.node) {
        let detail = format!("node {} is there already", request.node);
        return Err(Failure::Refused(ErrorKind::Conflict, detail));
    }
    let lane = free_lane(request.part, &view.states());
    tx.prepare_cached(&tx.sql.node_join)?.execute(params![
        request.node.to_string(),
        request.label,
        lane.0,
        now.as_microsecond(),
        later(now, request.lease),
    ])?;
    view.take(tx, lane.slot(), request.node)?;
    let taken_suspect = view.taken_suspect;
    // Shares depend on the order in which nodes registered, which only the table knows.
    let mut view = View { taken_suspect, ..View::read(tx)? };
    let give = view.take_share(tx, request.node, &[])?;
    view.membership::<K>(tx, request.node, give, Seen { groups: None, after: 0 }, now)
}

pub(crate) fn heartbeat<K: Kind>(
    tx: &SqliteTransaction,
    request: &Heartbeat,
) -> Result<Option<Membership>, Failure> {
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
    let mut view = View::read(tx)?;
    let give = view.take_share(tx, request.node, &request.release)?;
    let seen = Seen { groups: Some(request.groups_seen), after: request.after.0 };
    view.membership::<K>(tx, request.node, give, seen, now).map(Some)
}

pub(crate) fn publish(tx: &SqliteTransaction, node: NodeId, state: &str) -> Result<(), Failure> {
    tx.prepare_cached(&tx.sql.node_publish)?.execute(params![node.to_string(), state])?;
    Ok(())
}

pub(crate) fn leave(tx: &SqliteTransaction, node: NodeId) -> Result<(), Failure> {
    let node = node.to_string();
    if tx.prepare_cached(&tx.sql.node_delete)?.execute([&node])? > 0 {
        tx.prepare_cached(&tx.sql.slots_free)?.execute([&node])?;
    }
    Ok(())
}

/// Whether a node is registered. The caller holds the write lock, which makes this check a fence.
pub(crate) fn is_member(connection: &Connection, sql: &Sql, node: NodeId) -> Result<bool, Failure> {
    Ok(connection.prepare_cached(&sql.node_here)?.query_row([node.to_string()], |row| row.get(0))?)
}

/// Evicts every expired node except `renewing`.
fn evict(tx: &SqliteTransaction, renewing: Option<NodeId>, now: Timestamp) -> Result<(), Failure> {
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
fn trust(tx: &SqliteTransaction, request: &Heartbeat) -> Result<(), Failure> {
    let node = request.node.to_string();
    for slot in &request.trusted {
        tx.prepare_cached(&tx.sql.slot_trust)?.execute(params![slot.0, node])?;
    }
    Ok(())
}

fn release(tx: &SqliteTransaction, request: &Heartbeat) -> Result<(), Failure> {
    let node = request.node.to_string();
    let own = View::read(tx)?.lane_of(request.node).slot();
    for slot in request.release.iter().filter(|slot| **slot != own) {
        let statement = if slot.is_lane() { &tx.sql.slot_drop } else { &tx.sql.slot_release };
        tx.prepare_cached(statement)?.execute(params![slot.0, node])?;
    }
    Ok(())
}

/// The time until the next delayed row is due; zero if one is due already.
pub(crate) fn next_due(tx: &SqliteTransaction, now: Timestamp) -> Result<Option<Duration>, Failure> {
    let due = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_i64().ok());
    let due = tx.prepare_cached(&tx.sql.next_due)?.query_row([], due)?;
    Ok(due.map(|due| until(now, due)))
}

/// The time until the next delayed row that is not due yet.
pub(crate) fn later_due(tx: &SqliteTransaction, now: Timestamp) -> Result<Option<Duration>, Failure> {
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

/// The nodes, the slots with their holders, and the suspect slots that this call has taken.
struct View {
    nodes: Vec<(NodeId, Lane)>,
    slots: Vec<Held>,
    taken_suspect: Vec<Slot>,
}

/// A row of the slot table.
struct Held {
    state: SlotState,
    suspect: bool,
    quarantine: Option<Quarantine>,
}

impl Held {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let quarantine = Quarantine { evictions: row.get(3)?, upto: Seq(row.get(4)?) };
        Ok(Self {
            state: SlotState { slot: Slot(row.get(0)?), holder: node_id(row, 1)? },
            suspect: row.get(2)?,
            quarantine: Some(quarantine).filter(|quarantine| quarantine.evictions > 0),
        })
    }
}

impl View {
    fn read(tx: &SqliteTransaction) -> Result<Self, Failure> {
        let nodes = tx
            .prepare_cached(&tx.sql.nodes)?
            .query_map([], |row| Ok(node_id(row, 0)?.zip(Some(Lane(row.get(2)?)))))?
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;
        let slots = tx.prepare_cached(&tx.sql.slots)?.query_map([], Held::read)?.collect::<Result<_, _>>()?;
        Ok(Self { nodes, slots, taken_suspect: Vec::new() })
    }

    fn states(&self) -> Vec<SlotState> {
        self.slots.iter().map(|held| held.state).collect()
    }

    fn lane_of(&self, node: NodeId) -> Lane {
        let found = self.nodes.iter().find(|(id, _)| *id == node);
        found.map_or(Lane::FIRST, |(_, lane)| *lane)
    }

    /// Takes the free slots of the node's share. Returns the held slots that it should give.
    fn take_share(
        &mut self,
        tx: &SqliteTransaction,
        node: NodeId,
        released: &[Slot],
    ) -> Result<Vec<Slot>, Failure> {
        let share = share(node, self.nodes.iter().copied(), &self.states());
        for slot in share.take.into_iter().filter(|slot| !released.contains(slot)) {
            self.take(tx, slot, node)?;
        }
        Ok(share.give)
    }

    fn take(&mut self, tx: &SqliteTransaction, slot: Slot, node: NodeId) -> Result<(), Failure> {
        tx.prepare_cached(&tx.sql.slot_take)?.execute(params![slot.0, node.to_string()])?;
        if let Some(held) = self.slots.iter_mut().find(|held| held.state.slot == slot) {
            held.state.holder = Some(node);
            if std::mem::take(&mut held.suspect) {
                self.taken_suspect.push(slot);
            }
        }
        Ok(())
    }

    fn membership<K: Kind>(
        self,
        tx: &SqliteTransaction,
        node: NodeId,
        give: Vec<Slot>,
        seen: Seen,
        now: Timestamp,
    ) -> Result<Membership, Failure> {
        let mine = self.slots.iter().filter(|held| held.state.holder == Some(node));
        let held = mine.map(|held| {
            let Held { state: SlotState { slot, .. }, quarantine, .. } = *held;
            HeldSlot { slot, suspect: self.taken_suspect.contains(&slot), quarantine }
        });
        let held: Vec<HeldSlot> = held.collect();
        let slots = fetch::Held::new(held.iter().map(|held| held.slot));
        let first_after = |after: i64| -> Result<Option<i64>, Failure> {
            let mut first = tx.prepare_cached(&tx.sql.first_pending)?;
            let written_at =
                |row: &rusqlite::Row<'_>| Ok(K::stored_time(row.get_ref(0)?).unwrap_or_default());
            Ok(first.query_row(params![after, slots.mask, slots.lanes], written_at).optional()?)
        };
        let epoch: i64 = tx.prepare_cached(&tx.sql.epoch)?.query_row([], |row| row.get(0))?;
        let groups = match seen.groups {
            Some(seen) if seen == epoch => None,
            _ => Some(GroupStates { epoch, held: held_groups(tx, &tx.sql, &HeldGroups::first())? }),
        };
        Ok(Membership {
            lane: self.lane_of(node),
            give,
            nodes: self.nodes.len(),
            groups,
            ready: first_after(seen.after)?.is_some(),
            next_due: next_due(tx, now)?,
            oldest: first_after(0)?.map(timestamp),
            held,
            now,
        })
    }
}
