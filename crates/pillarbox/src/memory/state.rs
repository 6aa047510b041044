//! All that a memory store holds, and the few steps by which rows come, change and go.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::hash::FixedMap;
use super::index::{Index, Key};
use super::joins::JoinTables;
use super::stored::Stored;
use crate::model::{EventId, GroupKey, Lane, NodeId, Status};
use crate::port::{AuditEntry, HeldGroup, Quarantine};
use crate::rules::SLOTS;

/// A member.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) label: String,
    pub(super) lane: Lane,
    pub(super) joined_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) state: Option<String>,
}

/// Who holds a slot.
#[derive(Debug, Default)]
pub(super) struct Holding {
    pub(super) holder: Option<NodeId>,
    pub(super) suspect: bool,
    pub(super) quarantine: Option<Quarantine>,
}

/// An open transaction that has drawn numbers, and the lowest of them.
#[derive(Debug)]
pub(super) struct OpenFrom {
    transaction: u64,
    lowest: i64,
}

/// The tables.
#[derive(Debug)]
pub(super) struct State {
    pub(super) rows: BTreeMap<i64, Box<Stored>>,
    pub(super) index: Index,
    /// The number of each event; those of open transactions have no row yet.
    pub(super) by_id: FixedMap<EventId, i64>,
    pub(super) by_message: FixedMap<Box<str>, i64>,
    /// The last number drawn.
    pub(super) last: i64,
    /// How often it was put back, and gave numbers again from there.
    pub(super) origin: i64,
    pub(super) open: Vec<OpenFrom>,
    pub(super) transactions: u64,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) slots: BTreeMap<i16, Holding>,
    pub(super) groups: BTreeMap<GroupKey, HeldGroup>,
    pub(super) epoch: i64,
    pub(super) joins: JoinTables,
    pub(super) audit: Vec<AuditEntry>,
    /// Rows are taken by the node that holds the one slot.
    pub(super) led: bool,
}

impl State {
    pub(super) fn new(led: bool) -> Self {
        let slots = if led { 1 } else { SLOTS };
        Self {
            rows: BTreeMap::new(),
            index: Index::default(),
            by_id: FixedMap::default(),
            by_message: FixedMap::default(),
            last: 0,
            origin: 0,
            open: Vec::new(),
            transactions: 0,
            nodes: BTreeMap::new(),
            slots: (0..slots).map(|slot| (slot, Holding::default())).collect(),
            groups: BTreeMap::new(),
            epoch: 0,
            joins: JoinTables::default(),
            audit: Vec::new(),
            led,
        }
    }

    /// A number that was never used.
    pub(super) fn draw(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    /// Forgets the newest rows that are not dead, at most this many, and gives their numbers again. Numbers of open
    /// transactions are not given again: with one open nothing happens.
    pub(super) fn put_back(&mut self, rows: usize) -> Vec<EventId> {
        if self.led || !self.open.is_empty() {
            return Vec::new();
        }
        let newest = self.rows.iter().rev().take_while(|(_, row)| row.status != Status::Dead);
        let newest: Vec<i64> = newest.take(rows).map(|(seq, _)| *seq).collect();
        let gone = newest.iter().filter_map(|seq| self.remove(*seq)).map(|row| row.id).collect();
        self.last = self.rows.keys().next_back().copied().unwrap_or_default();
        self.origin += 1;
        gone
    }

    /// Notes a transaction that has drawn this number first.
    pub(super) fn open_from(&mut self, lowest: i64) -> u64 {
        self.transactions += 1;
        self.open.push(OpenFrom { transaction: self.transactions, lowest });
        self.transactions
    }

    /// Forgets a transaction that has ended.
    pub(super) fn close(&mut self, transaction: u64) {
        self.open.retain(|open| open.transaction != transaction);
    }

    /// The last number that no open transaction may still commit below or at.
    pub(super) fn decided(&self) -> i64 {
        self.open.iter().map(|open| open.lowest - 1).min().unwrap_or(self.last)
    }

    pub(super) fn add(&mut self, seq: i64, row: Box<Stored>) {
        self.by_id.insert(row.id.clone(), seq);
        if let Some(message) = row.message_id() {
            self.by_message.insert(message.into(), seq);
        }
        self.place(seq, row);
    }

    /// Adds a row whose ids are known.
    pub(super) fn place(&mut self, seq: i64, mut row: Box<Stored>) {
        if self.led {
            row.home = 0;
        }
        if let Some(key) = Key::of(&row) {
            self.index.add(seq, key);
        }
        self.rows.insert(seq, row);
    }

    pub(super) fn remove(&mut self, seq: i64) -> Option<Box<Stored>> {
        let row = self.rows.remove(&seq)?;
        if let Some(key) = Key::of(&row) {
            self.index.remove(seq, key);
        }
        self.forget(&row);
        Some(row)
    }

    /// Frees the ids of a row that is gone.
    pub(super) fn forget(&mut self, row: &Stored) {
        self.by_id.remove(&row.id);
        if let Some(message) = row.message_id() {
            self.by_message.remove(message);
        }
    }

    /// The number of the row of this event.
    pub(super) fn find(&self, id: &EventId) -> Option<i64> {
        self.by_id.get(id).copied().filter(|seq| self.rows.contains_key(seq))
    }

    /// Changes a row and keeps the index true.
    pub(super) fn change(&mut self, seq: i64, change: impl FnOnce(&mut Stored)) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        let before = Key::of(row);
        change(row);
        let after = Key::of(row);
        if before != after {
            before.into_iter().for_each(|key| self.index.remove(seq, key));
            after.into_iter().for_each(|key| self.index.add(seq, key));
        }
    }

    /// Moves a row to the end of the order.
    pub(super) fn renumber(&mut self, seq: i64, change: impl FnOnce(&mut Stored)) {
        if let Some(mut row) = self.remove(seq) {
            change(&mut row);
            let seq = self.draw();
            self.add(seq, row);
        }
    }

    pub(super) fn record(&mut self, at: Timestamp, by: &str, action: &str, target: &str) {
        self.audit.push(AuditEntry {
            at,
            by: by.to_owned(),
            action: action.to_owned(),
            target: target.to_owned(),
        });
    }
}
