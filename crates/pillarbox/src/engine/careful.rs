//! Careful delivery after a crash: one event at a time, its attempt written first.

use std::collections::VecDeque;

use super::item::Item;
use crate::model::{EventId, Slot};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its turn has not come.
    Waiting,
    /// Its attempt is being written.
    Writing,
    /// Its attempt is written: it may be sent.
    Ready,
    /// It is being delivered.
    Out,
}

/// Events that a crashed process may have died of.
#[derive(Debug, Default)]
pub(crate) struct Careful {
    line: VecDeque<(Item, Stage)>,
}

impl Careful {
    pub(crate) fn push(&mut self, item: Item) {
        self.line.push_back((item, Stage::Waiting));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The first one, if its attempt is to be written now.
    pub(crate) fn begin(&mut self) -> Option<&Item> {
        match self.line.front_mut() {
            Some((item, stage @ Stage::Waiting)) => {
                *stage = Stage::Writing;
                Some(item)
            }
            _ => None,
        }
    }

    /// Its attempt is written: it is counted now.
    pub(crate) fn written(&mut self, id: &EventId) {
        if let Some((item, stage @ Stage::Writing)) = self.line.front_mut()
            && item.id() == id
        {
            // One that was taken by a leader was counted then.
            item.attempts += u32::from(!item.led);
            item.counted = true;
            (item.careful_attempt, item.written) = (true, true);
            *stage = Stage::Ready;
        }
    }

    /// Its attempt could not be written because the row is gone.
    pub(crate) fn gone(&mut self, id: &EventId) -> Option<Item> {
        match self.line.front() {
            Some((item, Stage::Writing)) if item.id() == id => self.line.pop_front().map(|(item, _)| item),
            _ => None,
        }
    }

    /// Whether a worker is needed to begin or to send the first one.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.line.front(), Some((_, Stage::Waiting | Stage::Ready)))
    }

    /// Takes the one that may be sent; the next waits until `finished`.
    pub(crate) fn send(&mut self) -> Option<Item> {
        match self.line.front_mut() {
            Some((item, stage @ Stage::Ready)) => {
                *stage = Stage::Out;
                item.careful = false;
                Some(item.clone())
            }
            _ => None,
        }
    }

    pub(crate) fn finished(&mut self) {
        if matches!(self.line.front(), Some((_, Stage::Out))) {
            self.line.pop_front();
        }
    }

    /// Takes out what may be sent and was not.
    pub(crate) fn take_written(&mut self) -> Vec<Item> {
        self.take(|stage| stage == Stage::Ready)
    }

    /// Takes out what has not begun.
    pub(crate) fn take_waiting(&mut self) -> Vec<Item> {
        self.take(|stage| stage == Stage::Waiting)
    }

    /// Takes out all but those whose attempt is being written.
    pub(crate) fn give_back(&mut self) -> Vec<Item> {
        self.take(|stage| stage != Stage::Writing)
    }

    /// The one whose attempt is being written.
    pub(crate) fn writing(&self) -> Option<&EventId> {
        let writing = self.line.iter().find(|(_, stage)| *stage == Stage::Writing);
        writing.map(|(item, _)| item.id())
    }

    fn take(&mut self, of: impl Fn(Stage) -> bool) -> Vec<Item> {
        let (taken, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.line).into_iter().partition(|(_, stage)| of(*stage));
        self.line = kept;
        taken.into_iter().map(|(item, _)| item).collect()
    }

    pub(crate) fn has_any_of(&self, slot: Slot) -> bool {
        self.line.iter().any(|(item, _)| item.slot == slot)
    }

    /// Takes out what has not begun of a slot.
    pub(crate) fn drop_slot(&mut self, slot: Slot) -> Vec<Item> {
        let (gone, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.line)
            .into_iter()
            .partition(|(item, stage)| item.slot == slot && *stage == Stage::Waiting);
        self.line = kept;
        gone.into_iter().map(|(item, _)| item).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }
}
