//! Setting aside: events that wait for their endpoint leave memory if their rows can be read again.

use tokio::time::Instant;

use crate::engine::core::Core;
use crate::engine::state::aside::Memo;
use crate::engine::state::item::Item;

impl Core {
    /// Remembers the state of an event that leaves memory, for its next delivery. Until
    /// `until`, reads skip its row.
    pub(in crate::engine) fn remember(&mut self, item: &Item, until: Option<Instant>) {
        if (item.quarantined || item.is_recorded_here())
            && let Some(group) = item.group.as_ref().and_then(|key| self.groups.get_mut(key))
        {
            group.quarantined = true;
        }
        if until.is_none() && Memo::of(item) == Memo::NONE {
            return;
        }
        // Reads have skipped the row of the forgotten event, so the cursor must be rewound to it.
        if let Some(forgotten) = self.aside.put(item, until) {
            self.reads.reread_from(forgotten);
            self.reads.wake = true;
        }
    }

    /// Removes an unsent event from memory. Its row is read again after `until`,
    /// together with all later rows.
    pub(in crate::engine) fn pass_over(&mut self, item: &Item, until: Instant) {
        self.remember(item, None);
        let first = self.aside.pass(item.seq, until);
        self.reads.moved(first);
        self.forget_item(item);
    }

    /// Rewinds the cursor for rows whose wait has ended.
    pub(in crate::engine) fn wake_aside(&mut self, now: Instant) {
        if let Some(lowest) = self.aside.wake(now) {
            self.reads.reread_from(lowest);
            self.reads.wake = true;
        }
    }

    /// Removes all queued events from memory while sending is paused, and undoes attempts
    /// that were recorded for them.
    pub(in crate::engine) fn set_all_aside(&mut self, now: Instant) {
        for item in self.quarantine.take_recorded() {
            let group = item.group.clone();
            self.wait_for_endpoint(item, now, now);
            self.group_back(group.as_ref(), now);
        }
        if !self.rereads() {
            return;
        }
        let mut items = self.buffer.take_queued();
        items.extend(self.groups.take_queued(now));
        for item in self.quarantine.take_waiting() {
            let group = item.group.clone();
            self.remember(&item, None);
            self.group_back(group.as_ref(), now);
            items.push(item);
        }
        let Some(lowest) = items.iter().map(|item| item.seq).min() else {
            return;
        };
        for item in items {
            let remembered = Memo::of(&item) != Memo::NONE;
            self.remember(&item, (remembered && item.group.is_none()).then_some(now));
            self.forget_item(&item);
        }
        self.reads.reread_from(lowest);
        // A read in progress may return rows that follow the removed ones; admitting
        // them would break the order.
        self.reads.discard_reads();
        self.reads.wake = true;
    }
}
