//! The ids in flight on this node: being committed, in memory, or settled during a read.

use std::collections::hash_map::Entry::Vacant;

use tokio::time::Instant;

use crate::engine::Map;
use crate::model::{EventId, Seq};

#[derive(Debug)]
enum Entry {
    /// Written by a transaction that is committing. `seen` is its number if a read has returned it already.
    Reserved { since: Instant, seen: Option<Seq> },
    /// In memory, until its settle is confirmed.
    Held(Seq),
}

/// Prevents one node from delivering an event twice concurrently: reads skip ids in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlightIds {
    entries: Map<EventId, Entry>,
    reserved: usize,
    /// Number of reads in progress: one of the engine, or those of pollers that pass rows in.
    reads: usize,
    /// Ids settled during a read. That read may still return their rows as pending, so they stay in flight
    /// until it is merged.
    after_read: Vec<EventId>,
    /// Held ids that a read returned under another number: settled, then promoted by some node, all before
    /// the settle was confirmed here.
    moved: Map<EventId, Seq>,
    /// Lowest number of a moved row that is no longer held and must be read again.
    again: Option<Seq>,
}

impl InFlightIds {
    /// Reserves an id. An id in flight stays unchanged: a writer may repeat a
    /// commit whose outcome was unknown.
    pub(crate) fn reserve(&mut self, id: &EventId, now: Instant) {
        if let Vacant(entry) = self.entries.entry(id.clone()) {
            entry.insert(Entry::Reserved { since: now, seen: None });
            self.reserved += 1;
        }
    }

    /// Turns a reservation into a held event. Returns false if there is no reservation.
    pub(crate) fn take_reserved(&mut self, id: &EventId, seq: Seq) -> bool {
        match self.entries.get_mut(id) {
            Some(entry @ Entry::Reserved { .. }) => {
                *entry = Entry::Held(seq);
                self.reserved -= 1;
                true
            }
            _ => false,
        }
    }

    /// Drops a reservation. Returns the number under which a read has skipped its row, to be read again.
    pub(crate) fn unreserve(&mut self, id: &EventId) -> Option<Seq> {
        match self.entries.get(id) {
            Some(&Entry::Reserved { seen, .. }) => {
                self.entries.remove(id);
                self.reserved -= 1;
                seen
            }
            _ => None,
        }
    }

    /// Drops reservations older than this. Returns the lowest number under which a read has skipped one.
    pub(crate) fn expire_reserved(&mut self, before: Instant) -> Option<Seq> {
        if self.reserved == 0 {
            return None;
        }
        let mut lowest: Option<Seq> = None;
        let reserved = &mut self.reserved;
        self.entries.retain(|_, entry| match entry {
            Entry::Reserved { since, seen } if *since < before => {
                *reserved -= 1;
                lowest = match (lowest, *seen) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                false
            }
            _ => true,
        });
        lowest
    }

    /// Admits a row that was read. Returns true if its id was not in flight and is now held.
    pub(crate) fn admit(&mut self, id: &EventId, seq: Seq) -> bool {
        match self.entries.get_mut(id) {
            None => {
                self.entries.insert(id.clone(), Entry::Held(seq));
                true
            }
            Some(Entry::Reserved { seen, .. }) => {
                *seen = Some(seq);
                false
            }
            Some(Entry::Held(held)) => {
                if *held != seq {
                    self.moved.insert(id.clone(), seq);
                }
                false
            }
        }
    }

    /// Whether the id is in flight.
    pub(crate) fn has(&self, id: &EventId) -> bool {
        self.entries.contains_key(id)
    }

    /// Removes a held id, so that reads admit its row again.
    pub(crate) fn forget(&mut self, id: &EventId) {
        if matches!(self.entries.get(id), Some(Entry::Held(_))) {
            self.entries.remove(id);
            let moved = self.moved.remove(id);
            self.again = moved.into_iter().chain(self.again).min();
        }
    }

    /// Takes the number from which to read again for events that were promoted while they were held.
    pub(crate) fn take_again(&mut self) -> Option<Seq> {
        self.again.take()
    }

    /// Handles the confirmation of a settle.
    pub(crate) fn settled(&mut self, id: &EventId) {
        if self.reads > 0 {
            self.after_read.push(id.clone());
        } else {
            self.forget(id);
        }
    }

    /// Forgets a settled id whose row a caller has claimed. Unlike a read, a claim returns no row that was settled
    /// before it.
    pub(crate) fn claimed(&mut self, id: &EventId) {
        if let Some(place) = self.after_read.iter().position(|settled| settled == id) {
            self.after_read.swap_remove(place);
            self.forget(id);
        }
    }

    pub(crate) fn read_began(&mut self) {
        self.reads += 1;
    }

    pub(crate) fn read_merged(&mut self) {
        self.reads = self.reads.saturating_sub(1);
        if self.reads > 0 {
            return;
        }
        for id in std::mem::take(&mut self.after_read) {
            self.forget(&id);
        }
    }

    /// Maximum number of rows above this number that a read may return and that are in flight.
    pub(crate) fn above(&self, decided: Seq) -> usize {
        let held = self.entries.values().filter(|entry| matches!(entry, Entry::Held(seq) if *seq > decided));
        held.count() + self.reserved
    }

    /// Drops all held ids when the node is lost. Reservations stay, because their
    /// commits are still in progress.
    pub(crate) fn clear_held(&mut self) {
        self.entries.retain(|_, entry| matches!(entry, Entry::Reserved { .. }));
        self.after_read.clear();
        self.reads = 0;
        self.moved.clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> EventId {
        EventId::from_row(text)
    }

    /// PBX-012
    #[test]
    fn an_id_stays_known_until_every_read_begun_before_its_settle_is_merged() {
        let mut ids = InFlightIds::default();
        assert!(ids.admit(&id("a"), Seq(1)));
        ids.read_began();
        ids.settled(&id("a"));
        assert!(!ids.admit(&id("a"), Seq(1)), "the read under way began before the settle");
        ids.read_merged();
        assert_eq!(ids.len(), 0);
        ids.settled(&id("b"));
        assert!(ids.admit(&id("a"), Seq(1)));
    }

    /// PBX-012: the claim is newer than the settle, although the read that makes it began before.
    #[test]
    fn an_event_that_is_claimed_after_its_settle_is_not_known() {
        let mut ids = InFlightIds::default();
        assert!(ids.admit(&id("a"), Seq(1)));
        ids.read_began();
        ids.settled(&id("a"));
        ids.claimed(&id("a"));
        assert!(ids.admit(&id("a"), Seq(1)));
        ids.claimed(&id("a"));
        ids.read_merged();
        assert!(!ids.admit(&id("a"), Seq(1)), "it is in memory");
    }

    /// PBX-012
    #[test]
    fn an_event_that_was_moved_before_its_settle_was_confirmed_is_read_again() {
        let mut ids = InFlightIds::default();
        assert!(ids.admit(&id("a"), Seq(1)));
        assert!(!ids.admit(&id("a"), Seq(5)), "promoted, and seen under its new number");
        assert_eq!(ids.take_again(), None);
        ids.settled(&id("a"));
        assert_eq!(ids.take_again(), Some(Seq(5)));
        assert_eq!(ids.take_again(), None);
    }

    /// PBX-012
    #[test]
    fn writing_an_event_again_that_is_in_memory_does_not_make_it_unknown() {
        let mut ids = InFlightIds::default();
        assert!(ids.admit(&id("a"), Seq(1)));
        ids.reserve(&id("a"), Instant::now());
        assert!(!ids.take_reserved(&id("a"), Seq(2)));
        assert_eq!(ids.unreserve(&id("a")), None);
        assert!(!ids.admit(&id("a"), Seq(1)), "it is still in memory");
    }

    /// PBX-012, PBX-024
    #[test]
    fn a_reservation_seen_by_a_read_tells_where_to_read_again() {
        let mut ids = InFlightIds::default();
        ids.reserve(&id("a"), Instant::now());
        assert!(!ids.admit(&id("a"), Seq(7)));
        assert_eq!(ids.unreserve(&id("a")), Some(Seq(7)));
        assert!(!ids.take_reserved(&id("a"), Seq(7)), "without a reservation nothing is pushed");
    }
}
