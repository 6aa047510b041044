//! The hot path: delivers events that this process has just committed, without a read.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::core::Core;
use crate::engine::state::item::Item;
use crate::model::{Event, EventId, Lane, Written};
use crate::port::{DeliveryPath, Order};

/// A commit that takes longer counts as lost, and its reservation expires.
const LONGEST_COMMIT: Duration = Duration::from_secs(60);

impl Core {
    /// Reserves ids that are about to be committed on this node's lane, so that reads skip their rows.
    ///
    /// Returns `None` without a hot path: during shutdown, with ordered groups, or while there is no node.
    pub(crate) fn reserve(&mut self, ids: &[EventId], now: Instant) -> Option<(Lane, u64)> {
        if !self.is_running() || self.settings.order == Order::PerGroup {
            return None;
        }
        let lane = self.node.lane?;
        for id in ids {
            self.in_flight.reserve(id, now);
        }
        Some((lane, self.node.incarnation))
    }

    /// Queues reserved events after their commit. Events that do not fit into memory are left to the reader.
    pub(crate) fn push_hot(&mut self, events: &[Event], written: &[Written], lane: Lane, incarnation: u64) {
        for (event, written) in events.iter().zip(written) {
            // Expiry is decided by the database's clock, which only a read returns.
            let expires = event.expires().is_some();
            let ours = incarnation == self.node.incarnation && self.is_running() && !expires;
            // Events that would only wait for the endpoint are left to the reader, if there is one.
            let ours = ours && !(self.rereads() && (self.reads.held || self.breaker.is_open()));
            if ours && written.fresh && !written.delayed && self.hot_room() > 0 {
                if self.in_flight.take_reserved(event.id(), written.seq) {
                    self.tally.hot += 1;
                    let item = Item::new(event.clone(), written.seq, lane.slot(), DeliveryPath::Hot);
                    self.enter(&item);
                    self.buffer.push(item);
                }
                continue;
            }
            let dropped = ours && written.fresh && !written.delayed;
            self.tally.hot_dropped += u64::from(dropped);
            self.release_reservation(event.id());
        }
    }

    /// Ends a reservation whose commit failed or is unknown. The reader delivers the row if it exists.
    pub(crate) fn release_reservation(&mut self, id: &EventId) {
        // A read has already passed the row because it was reserved, so the cursor must be rewound.
        if let Some(seen) = self.in_flight.unreserve(id) {
            self.reads.reread_from(seen);
        }
        self.reads.wake = true;
    }

    /// Drops reservations of commits that never returned.
    pub(crate) fn expire_reservations(&mut self, now: Instant) {
        if let Some(before) = now.checked_sub(LONGEST_COMMIT)
            && let Some(seen) = self.in_flight.expire_reserved(before)
        {
            self.reads.reread_from(seen);
            self.reads.wake = true;
        }
    }

    /// Handles a wake-up of this process: rows were committed that are not in memory.
    pub(crate) fn hint(&mut self) {
        self.reads.wake = true;
    }

    /// Handles a wake-up of this process for rows that may not be committed before this time.
    pub(crate) fn hint_again(&mut self, at: Instant) {
        self.reads.wake = true;
        self.reads.wake_at = Some(self.reads.wake_at.map_or(at, |before| before.min(at)));
    }

    /// Handles a wake-up of the store.
    pub(crate) fn hint_elsewhere(&mut self, now: Instant) {
        self.reads.hint_elsewhere(now);
    }

    /// Schedules a read for a delayed event that is due at this time.
    pub(crate) fn hint_due(&mut self, at: Instant) {
        self.reads.hint_due(at);
    }
}
