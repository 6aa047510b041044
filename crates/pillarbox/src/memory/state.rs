//! The tables of a memory store, and the basic operations on rows, which keep the index consistent.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::hash::FixedMap;
use super::index::{Index, Key};
use super::joins::JoinTables;
use super::stored::Stored;
use crate::model::{EventId, GroupKey, Slot, Status};
use crate::port::{AuditEntry, HeldGroup};
use crate::rules::{Members, SLOTS, SlotRecord};

/// What the row of a node has beside its membership.
#[derive(Debug)]
pub(super) struct NodeDetails {
    pub(super) label: String,
    pub(super) joined_at: Timestamp,
    pub(super) state: Option<String>,
}

/// An open transaction that has inserted rows, and the lowest of their numbers.
#[derive(Debug)]
pub(super) struct OpenFrom {
    transaction: u64,
    lowest: i64,
}

/// All tables of a memory store.
#[derive(Debug)]
pub(super) struct State {
    pub(super) rows: BTreeMap<i64, Box<Stored>>,
    pub(super) index: Index,
    /// Sequence number of each event, including events of open transactions, which have no row yet.
    pub(super) by_id: FixedMap<EventId, i64>,
    pub(super) by_message: FixedMap<Box<str>, i64>,
    /// The last assigned sequence number.
    pub(super) last: i64,
    /// Number of times that `put_back` made sequence numbers reusable.
    pub(super) origin: i64,
    pub(super) open: Vec<OpenFrom>,
    pub(super) transactions: u64,
    pub(super) members: Members<NodeDetails>,
    pub(super) groups: BTreeMap<GroupKey, HeldGroup>,
    pub(super) epoch: i64,
    pub(super) joins: JoinTables,
    pub(super) audit: Vec<AuditEntry>,
    /// Whether a leader, the holder of the only slot, takes the rows.
    pub(super) has_leader: bool,
}

impl State {
    pub(super) fn new(has_leader: bool) -> Self {
        let slots = if has_leader { 1 } else { SLOTS };
        Self {
            rows: BTreeMap::new(),
            index: Index::default(),
            by_id: FixedMap::default(),
            by_message: FixedMap::default(),
            last: 0,
            origin: 0,
            open: Vec::new(),
            transactions: 0,
            members: Members::new(Vec::new(), (0..slots).map(|slot| SlotRecord::free(Slot(slot))).collect()),
            groups: BTreeMap::new(),
            epoch: 0,
            joins: JoinTables::default(),
            audit: Vec::new(),
            has_leader,
        }
    }

    /// Assigns the next sequence number.
    pub(super) fn draw(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    /// Removes at most `rows` of the newest rows, up to the first dead one, and reuses their numbers.
    ///
    /// Has no effect while a transaction has assigned numbers, because those must not be reused.
    pub(super) fn put_back(&mut self, rows: usize) -> Vec<EventId> {
        if self.has_leader || !self.open.is_empty() {
            return Vec::new();
        }
        let newest = self.rows.iter().rev().take_while(|(_, row)| row.status != Status::Dead);
        let newest: Vec<i64> = newest.take(rows).map(|(seq, _)| *seq).collect();
        let gone = newest.iter().filter_map(|seq| self.remove(*seq)).map(|row| row.id).collect();
        self.last = self.rows.keys().next_back().copied().unwrap_or_default();
        self.origin += 1;
        gone
    }

    /// Registers an open transaction with its lowest number. Returns its id for `close`.
    pub(super) fn open_from(&mut self, lowest: i64) -> u64 {
        self.transactions += 1;
        self.open.push(OpenFrom { transaction: self.transactions, lowest });
        self.transactions
    }

    /// Removes a transaction that has ended.
    pub(super) fn close(&mut self, transaction: u64) {
        self.open.retain(|open| open.transaction != transaction);
    }

    /// Highest number up to which no open transaction can still commit a row. A cursor may advance to it.
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

    /// Adds a row whose ids are already indexed.
    pub(super) fn place(&mut self, seq: i64, mut row: Box<Stored>) {
        if self.has_leader {
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

    /// Frees the ids of a removed row.
    pub(super) fn forget(&mut self, row: &Stored) {
        self.by_id.remove(&row.id);
        if let Some(message) = row.message_id() {
            self.by_message.remove(message);
        }
    }

    /// Sequence number of a committed event.
    pub(super) fn find(&self, id: &EventId) -> Option<i64> {
        self.by_id.get(id).copied().filter(|seq| self.rows.contains_key(seq))
    }

    /// Changes a row and updates the index.
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

    /// Changes a row and moves it to the end of the order under a new number.
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
