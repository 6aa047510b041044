//! The bounded buffer: a hot and a cold queue, drained two to one, and events that wait for a time.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::groups::Groups;
use super::item::Item;
use crate::model::Slot;
use crate::port::DeliveryPath;

/// Number of hot jobs for each cold job while both queues have events.
const HOT_FOR_ONE_COLD: u8 = 2;

/// The queue from which the next batch is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    Hot,
    Cold,
    Group,
}

/// The queues of ungrouped events, and the size of all events in memory. Groups have their
/// own queues but count here.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    hot: VecDeque<Item>,
    cold: VecDeque<Item>,
    /// Events that wait in memory for their endpoint or for a retry.
    later: BTreeMap<(Instant, u64), Item>,
    tickets: u64,
    hot_taken: u8,
    hot_rows: usize,
    cold_rows: usize,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn hot_rows(&self) -> usize {
        self.hot_rows
    }

    pub(crate) fn cold_rows(&self) -> usize {
        self.cold_rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts an event as in memory until `left`.
    pub(crate) fn entered(&mut self, item: &Item) {
        match item.path {
            DeliveryPath::Hot => self.hot_rows += 1,
            DeliveryPath::Cold => self.cold_rows += 1,
        }
        self.bytes += item.event.weight();
    }

    pub(crate) fn left(&mut self, item: &Item) {
        match item.path {
            DeliveryPath::Hot => self.hot_rows = self.hot_rows.saturating_sub(1),
            DeliveryPath::Cold => self.cold_rows = self.cold_rows.saturating_sub(1),
        }
        self.bytes = self.bytes.saturating_sub(item.event.weight());
    }

    pub(crate) fn push(&mut self, item: Item) {
        match item.path {
            DeliveryPath::Hot => self.hot.push_back(item),
            DeliveryPath::Cold => self.cold.push_back(item),
        }
    }

    pub(crate) fn push_later(&mut self, item: Item, until: Instant) {
        self.tickets += 1;
        self.later.insert((until, self.tickets), item);
    }

    /// Queues the events whose wait has ended. Returns the end of the next wait.
    pub(crate) fn wake(&mut self, now: Instant) -> Option<Instant> {
        while let Some((&(until, _), _)) = self.later.first_key_value() {
            if until > now {
                return Some(until);
            }
            if let Some((_, item)) = self.later.pop_first() {
                self.push(item);
            }
        }
        None
    }

    pub(crate) fn next_waking(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((until, _), _)| *until)
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.hot.is_empty() || !self.cold.is_empty()
    }

    /// Chooses the next queue: two hot jobs for each cold job while both have events, or else
    /// the one that has events.
    ///
    /// For a cold job, it chooses the queue or group whose first event has the lower number.
    pub(crate) fn pick(&mut self, groups: &Groups) -> Option<Pick> {
        let cold = match (self.cold.front(), groups.head()) {
            (Some(item), Some(head)) => Some(if item.seq < head { Pick::Cold } else { Pick::Group }),
            (Some(_), None) => Some(Pick::Cold),
            (None, Some(_)) => Some(Pick::Group),
            (None, None) => None,
        };
        let hot_turn = self.hot_taken < HOT_FOR_ONE_COLD;
        if self.hot.is_empty() || (!hot_turn && cold.is_some()) {
            self.hot_taken = 0;
            return cold;
        }
        self.hot_taken = if cold.is_some() { self.hot_taken + 1 } else { 0 };
        Some(Pick::Hot)
    }

    /// Takes at most `batch` events of a queue.
    pub(crate) fn pop(&mut self, pick: Pick, batch: usize) -> Vec<Item> {
        let queue = match pick {
            Pick::Hot => &mut self.hot,
            Pick::Cold => &mut self.cold,
            Pick::Group => return Vec::new(),
        };
        let count = Item::batch_of(queue, batch);
        queue.drain(..count).collect()
    }

    /// Removes at most this many cold events from the end of their queue, but none of a quarantine.
    pub(crate) fn take_last(&mut self, count: usize) -> Vec<Item> {
        let free = self.cold.iter().rev().take_while(|item| !item.quarantined).take(count).count();
        self.cold.split_off(self.cold.len() - free).into()
    }

    /// Removes all events that could be sent now.
    pub(crate) fn take_queued(&mut self) -> Vec<Item> {
        self.hot.drain(..).chain(self.cold.drain(..)).collect()
    }

    /// Slots of quarantined events.
    pub(crate) fn quarantined_slots(&self) -> impl Iterator<Item = Slot> {
        let items = self.hot.iter().chain(&self.cold).chain(self.later.values());
        items.filter(|item| item.quarantined).map(|item| item.slot)
    }

    /// Removes all events of a slot.
    pub(crate) fn drop_slot(&mut self, slot: Slot) -> Vec<Item> {
        let mut dropped = Vec::new();
        for queue in [&mut self.hot, &mut self.cold] {
            let (gone, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(queue).into_iter().partition(|item| item.slot == slot);
            *queue = kept;
            dropped.extend(gone);
        }
        let waiting: Vec<_> =
            self.later.iter().filter(|(_, item)| item.slot == slot).map(|(key, _)| *key).collect();
        dropped.extend(waiting.into_iter().filter_map(|key| self.later.remove(&key)));
        dropped
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
