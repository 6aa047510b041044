//! Leases: the rows that this engine took under a token, as a leader or by claims.

use std::time::Duration;

use super::item::Item;
use crate::engine::Map;
use crate::model::{EventId, Row, Seq, Token};
use crate::port::{Change, Outcome};

/// A row that is held under a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldLease {
    seq: Seq,
    token: Token,
    /// The claim before this one ran out, and no attempt was recorded since.
    lapsed: bool,
}

impl HeldLease {
    /// The lease of a row that is in memory under this number.
    pub(crate) fn of(row: &Row, seq: Seq) -> Self {
        Self { seq, token: row.token, lapsed: row.lapsed }
    }

    /// Gives the row back, its attempt not counted. A release would erase that the claim before ran out, and with it the next
    /// owner's reason to quarantine the row: such a lease is made to run out too.
    pub(crate) fn give_back(self, id: EventId) -> Outcome {
        let change = if self.lapsed { Change::Extend { lease: Duration::ZERO } } else { Change::Release };
        Outcome { seq: self.seq, id, token: self.token, change }
    }
}

/// The leases that are held.
#[derive(Debug, Default)]
pub(crate) struct Leases(Map<EventId, HeldLease>);

impl Leases {
    pub(crate) fn begin(&mut self, id: EventId, lease: HeldLease) {
        self.0.insert(id, lease);
    }

    /// An outcome is in the store, or will never be: the lease needs no renewal.
    pub(crate) fn end(&mut self, id: &EventId, token: Token) {
        if self.0.get(id).is_some_and(|held| held.token == token) {
            self.0.remove(id);
        }
    }

    /// The store has recorded an attempt on this row: it counts, whatever becomes of the lease.
    pub(crate) fn attempt_recorded(&mut self, id: &EventId) {
        if let Some(held) = self.0.get_mut(id) {
            held.lapsed = false;
        }
    }

    /// Whether an item was taken under a lease that is not held any more.
    pub(crate) fn lost(&self, item: &Item) -> bool {
        item.is_taken() && self.0.get(item.id()).is_none_or(|held| held.token != item.token())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &EventId> {
        self.0.keys()
    }

    /// What gives every lease back but those of these events.
    pub(crate) fn give_back_but(&self, kept: &[EventId]) -> Vec<Outcome> {
        let given = self.0.iter().filter(|(id, _)| !kept.contains(id));
        given.map(|(id, held)| held.give_back(id.clone())).collect()
    }

    /// What renews every lease, in the order in which rows are locked.
    pub(crate) fn extensions(&self, lease: Duration) -> Vec<Outcome> {
        let extend = |(id, held): (&EventId, &HeldLease)| Outcome {
            seq: held.seq,
            id: id.clone(),
            token: held.token,
            change: Change::Extend { lease },
        };
        let mut extensions: Vec<Outcome> = self.0.iter().map(extend).collect();
        extensions.sort_by_key(|outcome| outcome.seq);
        extensions
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
