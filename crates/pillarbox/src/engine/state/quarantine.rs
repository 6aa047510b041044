//! The quarantine queue: events that may have crashed a process, sent few at a time and finally alone.

use std::collections::VecDeque;

use super::item::Item;
use crate::model::{EventId, Slot};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The store is recording the attempt.
    Recording,
    /// The attempt is recorded, and the event may be sent.
    Ready,
    /// The event is being delivered.
    Out,
}

/// Events that may have crashed a process.
#[derive(Debug)]
pub(crate) struct QuarantineQueue {
    waiting: VecDeque<Item>,
    begun: Vec<(Item, Stage)>,
    /// Maximum number of concurrent deliveries. At 1, each attempt is recorded before sending. Only then a
    /// crash can be attributed to the event, and only then repeated crashes make it dead.
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

    /// Whether events are sent alone.
    pub(crate) fn alone(&self) -> bool {
        self.limit == 1
    }

    /// Takes the next event whose attempt must be recorded now, if any.
    pub(crate) fn begin(&mut self) -> Option<&Item> {
        if !self.alone() || !self.begun.is_empty() {
            return None;
        }
        let item = self.waiting.pop_front()?;
        self.begun.push((item, Stage::Recording));
        self.begun.last().map(|(item, _)| item)
    }

    /// Marks an event as ready once its attempt is recorded, and counts the attempt.
    pub(crate) fn recorded(&mut self, id: &EventId) {
        if let Some((item, stage)) = self.of(id, Stage::Recording).map(|place| &mut self.begun[place]) {
            item.record_here();
            *stage = Stage::Ready;
        }
    }

    fn of(&self, id: &EventId, stage: Stage) -> Option<usize> {
        self.begun.iter().position(|(item, at)| *at == stage && item.id() == id)
    }

    /// Removes an event whose attempt could not be recorded because its row is gone.
    pub(crate) fn gone(&mut self, id: &EventId) -> Option<Item> {
        self.of(id, Stage::Recording).map(|place| self.begun.remove(place).0)
    }

    /// Whether a worker can begin or send an event.
    pub(crate) fn is_ready(&self) -> bool {
        let ready = self.begun.iter().any(|(_, stage)| *stage == Stage::Ready);
        ready || (self.begun.len() < self.limit && !self.waiting.is_empty())
    }

    /// Takes an event that may be sent. It counts as being delivered until `finished`.
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

    /// Removes the events that are recorded and not sent.
    pub(crate) fn take_recorded(&mut self) -> Vec<Item> {
        self.take(|stage| stage == Stage::Ready)
    }

    /// Removes the events that have not begun.
    pub(crate) fn take_waiting(&mut self) -> Vec<Item> {
        self.waiting.drain(..).collect()
    }

    /// Removes all events except the one whose attempt is being recorded, which must
    /// be undone after its confirmation.
    pub(crate) fn give_back(&mut self) -> Vec<Item> {
        let mut items = self.take_waiting();
        items.extend(self.take(|stage| stage != Stage::Recording));
        items
    }

    /// Id of the event whose attempt is being recorded.
    pub(crate) fn recording(&self) -> Option<&EventId> {
        self.begun.iter().find(|(_, stage)| *stage == Stage::Recording).map(|(item, _)| item.id())
    }

    fn take(&mut self, of: impl Fn(Stage) -> bool) -> Vec<Item> {
        let (taken, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.begun).into_iter().partition(|(_, stage)| of(*stage));
        self.begun = kept;
        taken.into_iter().map(|(item, _)| item).collect()
    }

    /// Slots of all quarantined events.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.waiting.iter().chain(self.begun.iter().map(|(item, _)| item)).map(|item| item.slot)
    }

    /// Removes the events of a slot that have not begun.
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
