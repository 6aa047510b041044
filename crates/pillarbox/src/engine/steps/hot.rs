//! The hot path: events that this process has just committed, without a read.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::core::Core;
use crate::engine::state::item::Item;
use crate::model::{Event, EventId, Lane, Written};
use crate::port::{Order, Source};

/// A commit that takes longer is taken to be lost.
const LONGEST_COMMIT: Duration = Duration::from_secs(60);

impl Core {
    /// Ids about to be committed on this node's lane; none while it has no lane.
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

    /// Committed: the reserved events are delivered without a read. What does not fit is left to the reader.
    pub(crate) fn push_hot(&mut self, events: &[Event], written: &[Written], lane: Lane, incarnation: u64) {
        for (event, written) in events.iter().zip(written) {
            // Only the database's clock tells when an event expires: such events are read.
            let expires = event.expires().is_some();
            let ours = incarnation == self.node.incarnation && self.is_running() && !expires;
            // What would wait for the endpoint is left to the reader, where there is one.
            let ours = ours && !(self.rereads() && (self.reads.held || self.breaker.is_open()));
            if ours && written.fresh && !written.delayed && self.hot_room() > 0 {
                if self.in_flight.take_reserved(event.id(), written.seq) {
                    self.tally.hot += 1;
                    let item = Item::new(event.clone(), written.seq, lane.slot(), Source::Hot);
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

    /// Not committed, or nobody knows: the reader decides.
    pub(crate) fn release_reservation(&mut self, id: &EventId) {
        if let Some(seen) = self.in_flight.unreserve(id) {
            self.reads.reread_from(seen);
        }
        self.reads.wake = true;
    }

    /// Drops reservations of commits that never came back.
    pub(crate) fn expire_reservations(&mut self, now: Instant) {
        if let Some(before) = now.checked_sub(LONGEST_COMMIT)
            && let Some(seen) = self.in_flight.expire_reserved(before)
        {
            self.reads.reread_from(seen);
            self.reads.wake = true;
        }
    }

    /// Rows were committed that are not in memory.
    pub(crate) fn hint(&mut self) {
        self.reads.wake = true;
    }

    /// The store hints at new rows.
    pub(crate) fn hint_elsewhere(&mut self, now: Instant) {
        self.reads.hint_elsewhere(now);
    }

    /// A delayed event was written that is due then.
    pub(crate) fn hint_due(&mut self, at: Instant) {
        self.reads.hint_due(at);
    }
}
