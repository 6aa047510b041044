//! Events set aside: what is remembered of events that left memory because the endpoint failed under them, and from where to
//! read again for events that were not even sent.
//!
//! Their rows stay pending in the store, so that a cancel finds them, and are read again when their time has come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::item::Item;
use crate::engine::Map;
use crate::model::{EventId, Seq, Slot};

/// Events remembered. Beyond that the one remembered longest is forgotten, and tried sooner than it should be.
const MOST: usize = 20_000;

/// Reads for events whose time has come are no closer together than this.
const BETWEEN_READS: Duration = Duration::from_millis(250);

/// By how much each row that was passed over puts off the next read from the first of them: a few times what reading it takes,
/// so that a large backlog of one route leaves most of the reads to others.
const PER_PASSED: Duration = Duration::from_micros(100);

/// What must not be lost of an event while it is out of memory.
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

    /// The group knows by itself whether its first event is quarantined.
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
    /// It is left alone until then; none: taken in by whatever read shows it.
    until: Option<Instant>,
    ticket: u64,
}

/// Rows that were read and not sent, because the circuit breaker of their route is open. However many they are, only where to
/// read again is remembered.
#[derive(Debug, Default)]
struct Passed {
    lowest: Option<Seq>,
    until: Option<Instant>,
    rows: u32,
}

/// The events that are set aside.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    entries: Map<EventId, Entry>,
    by_age: BTreeMap<u64, EventId>,
    waiting: BTreeSet<(Instant, EventId)>,
    /// Their time has come, and no read has passed them yet.
    due: BTreeSet<(Seq, EventId)>,
    passed: Passed,
    tickets: u64,
    not_before: Option<Instant>,
}

impl Aside {
    /// Remembers an event; the number of one that is forgotten for it and has to be read again.
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

    /// What is remembered of an event that is in memory again.
    pub(crate) fn take(&mut self, id: &EventId) -> Option<Memo> {
        if self.entries.is_empty() {
            return None;
        }
        self.remove(id).map(|entry| entry.memo)
    }

    /// Whether it is to be left alone for now.
    pub(crate) fn waits(&self, id: &EventId) -> bool {
        !self.waiting.is_empty() && self.entries.get(id).is_some_and(|entry| entry.until.is_some())
    }

    pub(crate) fn has(&self, id: &EventId) -> bool {
        self.entries.contains_key(id)
    }

    /// When the next read for one of them is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let first =
            self.waiting.first().map(|(until, _)| *until).into_iter().chain(self.passed.until).min()?;
        Some(first.max(self.not_before.unwrap_or(first)))
    }

    /// A row is passed over until then; whether it is the first.
    pub(crate) fn pass(&mut self, seq: Seq, until: Instant) -> bool {
        let first = self.passed.lowest.is_none();
        self.passed.lowest = self.passed.lowest.into_iter().chain([seq]).min();
        self.passed.until = self.passed.until.into_iter().chain([until]).min();
        self.passed.rows = self.passed.rows.saturating_add(1);
        first
    }

    /// Whether a row with this number may have been passed over.
    pub(crate) fn has_passed(&self, seq: Seq) -> bool {
        self.passed.lowest.is_some_and(|lowest| lowest <= seq)
    }

    /// Lets those be read whose time has come; the lowest of their numbers.
    pub(crate) fn wake(&mut self, now: Instant) -> Option<Seq> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        // What was passed over is passed again, if it has to be.
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

    /// A read has shown it while its last outcome was not confirmed yet: it comes with the next.
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

    /// Every row up to this number has been seen: events that were not seen are gone.
    pub(crate) fn read_upto(&mut self, decided: Seq) {
        while let Some((_, id)) = self.due.first().filter(|(seq, _)| *seq <= decided).cloned() {
            self.remove(&id);
        }
    }

    /// How many rows above this number a read may show that are left alone.
    pub(crate) fn above(&self, seq: Seq) -> usize {
        self.entries.values().filter(|entry| entry.until.is_some() && entry.seq > seq).count()
    }

    /// The slots of quarantined events.
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
