//! The settle queue: outcomes on their way to the store, and outcomes that wait for other transactions' locks.

use std::collections::{HashSet, VecDeque};

use tokio::time::Instant;

use super::busy::{Busy, Tried};
use super::notes::Notes;
use crate::model::{EventId, GroupKey, Slot};
use crate::port::{Change, Outcome};

/// What the settler is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Settler {
    /// Settling, or about to ask for a batch.
    #[default]
    Busy,
    /// Waiting for a first outcome.
    Idle,
    /// Waiting for more outcomes to settle together, at most until then.
    Lingering(Instant),
}

/// An outcome that waits to be settled, with what its confirmation changes in memory.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) outcome: Outcome,
    pub(crate) slot: Slot,
    /// Its group, if the outcome holds it back.
    pub(crate) group: Option<GroupKey>,
}

/// Outcomes that one call settles, and whether they were busy before.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) outcomes: Vec<Unsettled>,
    pub(crate) tried: Tried,
}

/// Every outcome that the store has not confirmed.
#[derive(Debug, Default)]
pub(crate) struct SettleQueue {
    queue: VecDeque<Unsettled>,
    /// Since when the first of the queue waits.
    since: Option<Instant>,
    /// One of the queue holds back its group or changes when its event is tried again.
    urgent: bool,
    /// When the settler last took a batch.
    taken_at: Option<Instant>,
    /// Outcomes taken by the settler and not yet confirmed, including the busy ones.
    unconfirmed: usize,
    busy: Busy,
    notes: Notes,
    settler: Settler,
}

impl SettleQueue {
    /// Queues an outcome; the note of the same event that it makes superfluous.
    pub(crate) fn push(&mut self, unsettled: Unsettled, now: Instant) -> Option<Unsettled> {
        self.since.get_or_insert(now);
        self.urgent |= unsettled.group.is_some() || unsettled.outcome.change != Change::Done;
        let note = self.notes.drop_for(&unsettled);
        self.queue.push_back(unsettled);
        note
    }

    /// Queues a note on why an event waits; false if it replaces one or does not fit.
    pub(crate) fn note(&mut self, note: Unsettled) -> bool {
        self.notes.put(note)
    }

    /// How many outcomes wait for a first batch.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// How many outcomes the store has not confirmed.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.unconfirmed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of events whose outcome waits, for a first batch or for a lock.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &EventId> {
        self.queue.iter().map(|unsettled| &unsettled.outcome.id).chain(self.busy.ids())
    }

    /// Since when outcomes wait, if they may wait for others.
    pub(crate) fn lingers_since(&self, rows: usize) -> Option<Instant> {
        self.since.filter(|_| self.queue.len() < rows)
    }

    /// When the last batch was taken, if nothing in the queue is urgent.
    pub(crate) fn last_batch(&self) -> Option<Instant> {
        self.taken_at.filter(|_| !self.urgent)
    }

    /// Whether the settler should be woken, where `at` is the time at which a batch is due; `None`: now.
    pub(crate) fn wakes(&self, at: Option<Instant>) -> bool {
        match self.settler {
            Settler::Busy => false,
            Settler::Idle => self.since.is_some() || !self.notes.is_empty(),
            Settler::Lingering(until) => {
                !self.notes.is_empty() || (self.since.is_some() && at.is_none_or(|at| at < until))
            }
        }
    }

    /// The next batch, if one is due now; otherwise when to ask again, if anything waits.
    pub(crate) fn next(
        &mut self,
        at: Option<Instant>,
        rows: usize,
        now: Instant,
    ) -> Result<Due, Option<Instant>> {
        let again = self.busy.due(rows, now);
        if !again.is_empty() {
            return Ok(self.due(again, Tried::Again));
        }
        if !self.notes.is_empty() {
            // Written apart from outcomes, so that no statement changes a row twice.
            let notes = self.notes.take(rows);
            self.unconfirmed += notes.len();
            return Ok(self.due(notes, Tried::First));
        }
        if self.since.is_none() || at.is_some_and(|until| now < until) {
            let until = at.into_iter().chain(self.busy.at()).min();
            self.settler = until.map_or(Settler::Idle, Settler::Lingering);
            return Err(until);
        }
        let count = self.queue.len().min(rows);
        let (taken, behind) = each_row_once(self.queue.drain(..count).collect());
        self.unconfirmed += taken.len();
        behind.into_iter().rev().for_each(|unsettled| self.queue.push_front(unsettled));
        let taken = self.busy.keep_back(taken);
        self.since = (!self.queue.is_empty()).then_some(now);
        self.urgent &= !self.queue.is_empty();
        self.taken_at = Some(now);
        Ok(self.due(taken, Tried::First))
    }

    fn due(&mut self, outcomes: Vec<Unsettled>, tried: Tried) -> Due {
        self.settler = Settler::Busy;
        Due { outcomes, tried }
    }

    /// A batch was answered: this many of its outcomes are confirmed, and the rows of the others are locked. Returns how many
    /// outcomes wait for locks, once the pause between attempts has grown to its longest.
    pub(crate) fn answered(
        &mut self,
        tried: Tried,
        confirmed: usize,
        busy: Vec<Unsettled>,
        now: Instant,
    ) -> Option<usize> {
        self.unconfirmed = self.unconfirmed.saturating_sub(confirmed);
        let locked = busy.len();
        self.busy.put(busy);
        self.busy.answered(tried, confirmed, locked, now)
    }

    /// Nothing of it counts any more.
    pub(crate) fn clear(&mut self) {
        *self = Self { taken_at: self.taken_at, settler: self.settler, ..Self::default() };
    }
}

/// Takes out what comes behind an attempt at the same row: a store may settle the outcomes of one batch in any order.
fn each_row_once(taken: Vec<Unsettled>) -> (Vec<Unsettled>, Vec<Unsettled>) {
    if taken.iter().all(|one| one.outcome.change != Change::Attempt) {
        return (taken, Vec::new());
    }
    let mut named: HashSet<EventId> = HashSet::new();
    taken.into_iter().partition(|one| named.insert(one.outcome.id.clone()))
}
