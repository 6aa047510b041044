//! Leases: rows that this engine holds under a token, as a leader or by claims.

use std::time::Duration;

use super::item::Item;
use crate::engine::Map;
use crate::model::{EventId, Row, Seq, Token};
use crate::port::{Change, Outcome};

/// The lease on one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldLease {
    seq: Seq,
    token: Token,
    /// The attempts of the row once it is released.
    attempts: u32,
    /// Whether the previous claim expired and no attempt was recorded since.
    lapsed: bool,
}

impl HeldLease {
    /// The lease of a row that has this number in memory.
    pub(crate) fn of(row: &Row, seq: Seq) -> Self {
        let attempts = row.attempts.saturating_sub(1);
        Self { seq, token: row.token, attempts, lapsed: row.lapsed }
    }

    /// Returns the row to the store, and does not count its attempt.
    ///
    /// If the previous claim expired, this one is made to expire too. A release would erase that fact, and
    /// the next owner would not quarantine the row.
    pub(crate) fn give_back(self, id: EventId) -> Outcome {
        let change = if self.lapsed {
            Change::Extend { lease: Duration::ZERO }
        } else {
            Change::Release { attempts: self.attempts }
        };
        Outcome { seq: self.seq, id, token: self.token, change }
    }
}

/// All leases that are held.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Map<EventId, HeldLease>,
    /// Whether a caller has ever claimed a row again whose event was in memory.
    renewed: bool,
}

impl Leases {
    pub(crate) fn begin(&mut self, id: EventId, lease: HeldLease) {
        self.held.insert(id, lease);
    }

    /// Ends the lease under this token: the row is settled, or another owner holds it.
    pub(crate) fn end(&mut self, id: &EventId, token: Token) {
        if self.held.get(id).is_some_and(|held| held.token == token) {
            self.held.remove(id);
        }
    }

    /// Puts a caller's new claim in the place of one that ran out while its event was in memory. Returns false if
    /// there is none.
    pub(crate) fn renew(&mut self, row: &Row) -> bool {
        let older = |held: &&mut HeldLease| held.seq == row.seq && held.token < row.token;
        let Some(held) = self.held.get_mut(&row.id).filter(older) else { return false };
        held.token = row.token;
        self.renewed = true;
        true
    }

    /// The token of the newest claim, if the row of this outcome was claimed again since.
    pub(crate) fn newer(&self, outcome: &Outcome) -> Option<Token> {
        if !self.renewed {
            return None;
        }
        self.held.get(&outcome.id).map(|held| held.token).filter(|token| *token > outcome.token)
    }

    /// Notes that the store has recorded an attempt, so the expired claim need not be passed on. The record
    /// stays if the row is released.
    pub(crate) fn attempt_recorded(&mut self, id: &EventId) {
        if let Some(held) = self.held.get_mut(id) {
            held.attempts += 1;
            held.lapsed = false;
        }
    }

    /// Whether the lease of an item is no longer held.
    pub(crate) fn lost(&self, item: &Item) -> bool {
        item.is_taken() && self.held.get(item.id()).is_none_or(|held| held.token != item.token())
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &EventId> {
        self.held.keys()
    }

    /// Outcomes that return all leases except those of these events.
    pub(crate) fn give_back_but(&self, kept: &[EventId]) -> Vec<Outcome> {
        let given = self.held.iter().filter(|(id, _)| !kept.contains(id));
        given.map(|(id, held)| held.give_back(id.clone())).collect()
    }

    /// Outcomes that renew all leases, in the order of sequence numbers, in which all settles lock rows.
    pub(crate) fn extensions(&self, lease: Duration) -> Vec<Outcome> {
        let extend = |(id, held): (&EventId, &HeldLease)| Outcome {
            seq: held.seq,
            id: id.clone(),
            token: held.token,
            change: Change::Extend { lease },
        };
        let mut extensions: Vec<Outcome> = self.held.iter().map(extend).collect();
        extensions.sort_by_key(|outcome| outcome.seq);
        extensions
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }
}
