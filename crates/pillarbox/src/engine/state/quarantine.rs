//! Quarantine after a crash: what a dead process may have died of is sent few at a time, and at last alone.

use std::collections::VecDeque;

use super::item::Item;
use crate::model::{EventId, Slot};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The store is recording its attempt.
    Recording,
    /// Its attempt is recorded: it may be sent.
    Ready,
    /// It is being delivered.
    Out,
}

/// Events that a crashed process may have died of.
#[derive(Debug)]
pub(crate) struct QuarantineQueue {
    waiting: VecDeque<Item>,
    begun: Vec<(Item, Stage)>,
    /// How many are out at once. Those that are sent alone have their attempt recorded first; no other may die of crashes.
    limit: usize,
}

impl Default for QuarantineQueue {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), begun: Vec::new(), limit: 1 }
    }
}

impl QuarantineQueue {
    pub(crate) fn push(&mut self, item: Item) {
        self.waiting.push_back(item);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(1);
    }

    /// Whether each is sent alone.
    pub(crate) fn alone(&self) -> bool {
        self.limit == 1
    }

    /// The next one, if its attempt is to be recorded now.
    pub(crate) fn begin(&mut self) -> Option<&Item> {
        if !self.alone() || !self.begun.is_empty() {
            return None;
        }
        let item = self.waiting.pop_front()?;
        self.begun.push((item, Stage::Recording));
        self.begun.last().map(|(item, _)| item)
    }

    /// Its attempt is recorded: it is counted now.
    pub(crate) fn recorded(&mut self, id: &EventId) {
        if let Some((item, stage)) = self.of(id, Stage::Recording).map(|place| &mut self.begun[place]) {
            item.record_here();
            *stage = Stage::Ready;
        }
    }

    fn of(&self, id: &EventId, stage: Stage) -> Option<usize> {
        self.begun.iter().position(|(item, at)| *at == stage && item.id() == id)
    }

    /// Its attempt could not be recorded because the row is gone.
    pub(crate) fn gone(&mut self, id: &EventId) -> Option<Item> {
        self.of(id, Stage::Recording).map(|place| self.begun.remove(place).0)
    }

    /// Whether a worker is needed to begin or to send one.
    pub(crate) fn is_ready(&self) -> bool {
        let ready = self.begun.iter().any(|(_, stage)| *stage == Stage::Ready);
        ready || (self.begun.len() < self.limit && !self.waiting.is_empty())
    }

    /// Takes one that may be sent; it counts as out until `finished`.
    pub(crate) fn send(&mut self) -> Option<Item> {
        if let Some((item, stage)) = self.begun.iter_mut().find(|(_, stage)| *stage == Stage::Ready) {
            *stage = Stage::Out;
            item.quarantined = false;
            return Some(item.clone());
        }
        if self.alone() || self.begun.len() >= self.limit {
            return None;
        }
        let item = self.waiting.pop_front()?;
        self.begun.push((item.clone(), Stage::Out));
        Some(item)
    }

    pub(crate) fn finished(&mut self, id: &EventId) {
        if let Some(place) = self.of(id, Stage::Out) {
            self.begun.remove(place);
        }
    }

    /// Takes out what may be sent and was not.
    pub(crate) fn take_recorded(&mut self) -> Vec<Item> {
        self.take(|stage| stage == Stage::Ready)
    }

    /// Takes out what has not begun.
    pub(crate) fn take_waiting(&mut self) -> Vec<Item> {
        self.waiting.drain(..).collect()
    }

    /// Takes out all but the one whose attempt is being recorded.
    pub(crate) fn give_back(&mut self) -> Vec<Item> {
        let mut items = self.take_waiting();
        items.extend(self.take(|stage| stage != Stage::Recording));
        items
    }

    /// The one whose attempt is being recorded.
    pub(crate) fn recording(&self) -> Option<&EventId> {
        self.begun.iter().find(|(_, stage)| *stage == Stage::Recording).map(|(item, _)| item.id())
    }

    fn take(&mut self, of: impl Fn(Stage) -> bool) -> Vec<Item> {
        let (taken, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.begun).into_iter().partition(|(_, stage)| of(*stage));
        self.begun = kept;
        taken.into_iter().map(|(item, _)| item).collect()
    }

    /// The slots of all of them.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.waiting.iter().chain(self.begun.iter().map(|(item, _)| item)).map(|item| item.slot)
    }

    /// Takes out what has not begun of a slot.
    pub(crate) fn drop_slot(&mut self, slot: Slot) -> Vec<Item> {
        let (gone, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|item| item.slot == slot);
        self.waiting = kept;
        gone.into()
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.begun.clear();
    }
}
