//! Events set aside: the state kept of events that left memory to wait for their endpoint.
//!
//! Their rows stay pending in the store, so that they can be cancelled, and are read again when the wait
//! ends. For events that were not sent at all, only the position to read from is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::item::Item;
use crate::engine::Map;
use crate::model::{EventId, Seq, Slot};

/// Maximum number of remembered events. Beyond that the oldest entry is forgotten, and its
/// event is retried too early.
const MOST: usize = 20_000;

/// Minimum time between reads for events whose wait has ended.
const BETWEEN_READS: Duration = Duration::from_millis(250);

/// Delay of the next reread for each row that was passed over: a few times the duration of reading it, so
/// that a large backlog of one route does not crowd out other reads.
const PER_PASSED: Duration = Duration::from_micros(100);

/// The state of an event that must survive while the event is out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memo {
    batch_cap: usize,
    accepted_before: Option<u64>,
    blamed_since: Option<Instant>,
    outages: u32,
    noted: Option<u64>,
    quarantined: bool,
}

impl Memo {
    pub(crate) const NONE: Self = Self {
        batch_cap: usize::MAX,
        accepted_before: None,
        blamed_since: None,
        outages: 0,
        noted: None,
        quarantined: false,
    };

    /// Extracts the state of an event. The quarantine of a grouped event is kept by its group.
    pub(crate) fn of(item: &Item) -> Self {
        let quarantined = item.group.is_none() && (item.quarantined || item.is_recorded_here());
        Self {
            batch_cap: item.batch_cap,
            accepted_before: item.accepted_before,
            blamed_since: item.blamed_since,
            outages: item.outages,
            noted: item.noted,
            quarantined,
        }
    }

    pub(crate) fn apply(self, item: &mut Item) {
        item.batch_cap = self.batch_cap;
        item.accepted_before = self.accepted_before;
        item.blamed_since = self.blamed_since;
        item.outages = self.outages;
        item.noted = self.noted;
        item.quarantined |= self.quarantined;
    }
}

#[derive(Debug)]
struct Entry {
    memo: Memo,
    seq: Seq,
    slot: Slot,
    /// Reads skip the row until this time; `None` lets any read admit it.
    until: Option<Instant>,
    ticket: u64,
}

/// Rows that were read but not sent, because their route's circuit breaker is open.
///
/// Only the position to read from is kept, so their number is not limited.
#[derive(Debug, Default)]
struct Passed {
    lowest: Option<Seq>,
    until: Option<Instant>,
    rows: u32,
}

/// All events that are set aside.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    entries: Map<EventId, Entry>,
    by_age: BTreeMap<u64, EventId>,
    waiting: BTreeSet<(Instant, EventId)>,
    /// Events whose wait has ended and whose rows no read has reached yet.
    due: BTreeSet<(Seq, EventId)>,
    passed: Passed,
    tickets: u64,
    not_before: Option<Instant>,
}

impl Aside {
    /// Remembers an event. Returns the number of an event that is forgotten for it and must be read again.
    pub(crate) fn put(&mut self, item: &Item, until: Option<Instant>) -> Option<Seq> {
        self.take(item.id());
        self.tickets += 1;
        let (ticket, id) = (self.tickets, item.id().clone());
        let entry = Entry { memo: Memo::of(item), seq: item.seq, slot: item.slot, until, ticket };
        self.by_age.insert(ticket, id.clone());
        self.waiting.extend(until.map(|until| (until, id.clone())));
        self.entries.insert(id, entry);
        if self.entries.len() <= MOST {
            return None;
        }
        let oldest = self.by_age.first_key_value().map(|(_, id)| id.clone())?;
        self.remove(&oldest).filter(|entry| entry.until.is_some()).map(|entry| entry.seq)
    }

    fn remove(&mut self, id: &EventId) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.by_age.remove(&entry.ticket);
        match entry.until {
            Some(until) => self.waiting.remove(&(until, id.clone())),
            None => self.due.remove(&(entry.seq, id.clone())),
        };
        Some(entry)
    }

    /// Takes the remembered state of an event that is in memory again.
    pub(crate) fn take(&mut self, id: &EventId) -> Option<Memo> {
        if self.entries.is_empty() {
            return None;
        }
        self.remove(id).map(|entry| entry.memo)
    }

    /// Whether reads must skip this event for now.
    pub(crate) fn waits(&self, id: &EventId) -> bool {
        !self.waiting.is_empty() && self.entries.get(id).is_some_and(|entry| entry.until.is_some())
    }

    pub(crate) fn has(&self, id: &EventId) -> bool {
        self.entries.contains_key(id)
    }

    /// Time of the next read for an event whose wait ends.
    pub(crate) fn next(&self) -> Option<Instant> {
        let first =
            self.waiting.first().map(|(until, _)| *until).into_iter().chain(self.passed.until).min()?;
        Some(first.max(self.not_before.unwrap_or(first)))
    }

    /// Notes a row that is passed over until this time. Returns whether it is the first.
    pub(crate) fn pass(&mut self, seq: Seq, until: Instant) -> bool {
        let first = self.passed.lowest.is_none();
        self.passed.lowest = self.passed.lowest.into_iter().chain([seq]).min();
        self.passed.until = self.passed.until.into_iter().chain([until]).min();
        self.passed.rows = self.passed.rows.saturating_add(1);
        first
    }

    /// Whether a row with this number may have been passed over, and is reread later.
    pub(crate) fn has_passed(&self, seq: Seq) -> bool {
        self.passed.lowest.is_some_and(|lowest| lowest <= seq)
    }

    /// Ends the wait of events whose time has come. Returns the lowest of their numbers, to read from.
    pub(crate) fn wake(&mut self, now: Instant) -> Option<Seq> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        // Rows whose route is still down are passed over again after this reread.
        let pause = PER_PASSED * std::mem::take(&mut self.passed.rows);
        self.not_before = Some(now + pause.max(BETWEEN_READS));
        let passed = self.passed.until.is_some_and(|until| until <= now);
        let mut lowest = if passed { std::mem::take(&mut self.passed).lowest } else { None };
        while let Some((_, id)) = self.waiting.first().filter(|(until, _)| *until <= now).cloned() {
            self.waiting.pop_first();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.until = None;
                lowest = Some(lowest.map_or(entry.seq, |lowest| lowest.min(entry.seq)));
                self.due.insert((entry.seq, id));
            }
        }
        lowest
    }

    /// Makes an event wait for the next reread, because this read found it while
    /// its last outcome was unconfirmed.
    pub(crate) fn put_off(&mut self, id: &EventId, now: Instant) {
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.until.is_none()) else {
            return;
        };
        if self.due.remove(&(entry.seq, id.clone())) {
            let until = now + BETWEEN_READS;
            entry.until = Some(until);
            self.waiting.insert((until, id.clone()));
        }
    }

    /// Forgets due events up to this number. All rows up to it were read, so events that
    /// were not found are gone.
    pub(crate) fn read_upto(&mut self, decided: Seq) {
        while let Some((_, id)) = self.due.first().filter(|(seq, _)| *seq <= decided).cloned() {
            self.remove(&id);
        }
    }

    /// Number of rows above this number that a read may return and that must be skipped.
    pub(crate) fn above(&self, seq: Seq) -> usize {
        self.entries.values().filter(|entry| entry.until.is_some() && entry.seq > seq).count()
    }

    /// Slots of quarantined events.
    pub(crate) fn quarantined_slots(&self) -> impl Iterator<Item = Slot> {
        self.entries.values().filter(|entry| entry.memo.quarantined).map(|entry| entry.slot)
    }

    pub(crate) fn drop_slot(&mut self, slot: Slot) {
        let gone = self.entries.iter().filter(|(_, entry)| entry.slot == slot).map(|(id, _)| id.clone());
        for id in gone.collect::<Vec<_>>() {
            self.remove(&id);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
