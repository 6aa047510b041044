//! The settle queue: outcomes that the store has not confirmed.

use std::collections::{HashSet, VecDeque};

use jiff::Timestamp;
use tokio::time::Instant;

use super::busy::{Busy, Tried};
use super::notes::Notes;
use crate::model::{EventId, GroupKey, Slot};
use crate::port::{Change, Outcome};

/// The state of the settler task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Settler {
    /// Settling, or about to request a batch.
    #[default]
    Busy,
    /// Waiting for a first outcome.
    Idle,
    /// Waiting for more outcomes to settle together, at most until this time.
    Lingering(Instant),
}

/// An unsettled outcome, with the slot and group that its confirmation updates.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) outcome: Outcome,
    pub(crate) slot: Slot,
    /// Group of the event, if the group waits for this outcome.
    pub(crate) group: Option<GroupKey>,
}

/// Outcomes for one settle call, and whether they were busy before.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) outcomes: Vec<Unsettled>,
    pub(crate) tried: Tried,
    /// A time of the database before the first call that may have settled one of them, if an answer was lost.
    pub(crate) repeats: Option<Timestamp>,
}

/// All outcomes that the store has not confirmed.
#[derive(Debug, Default)]
pub(crate) struct SettleQueue {
    queue: VecDeque<Unsettled>,
    /// Time since which the first outcome of the queue waits.
    since: Option<Instant>,
    /// Whether a queued outcome makes its group wait or is not just a done mark.
    urgent: bool,
    /// Time of the last batch.
    taken_at: Option<Instant>,
    /// Number of outcomes taken by the settler and not yet confirmed, including busy ones.
    unconfirmed: usize,
    busy: Busy,
    notes: Notes,
    settler: Settler,
}

impl SettleQueue {
    /// Queues an outcome. Returns the note of the same event that it replaces.
    pub(crate) fn push(&mut self, unsettled: Unsettled, now: Instant) -> Option<Unsettled> {
        self.since.get_or_insert(now);
        self.urgent |= unsettled.group.is_some() || unsettled.outcome.change != Change::Done;
        let note = self.notes.drop_for(&unsettled);
        self.queue.push_back(unsettled);
        note
    }

    /// Queues a note on why an event waits. Returns false if it replaces a note or does not fit.
    pub(crate) fn note(&mut self, note: Unsettled) -> bool {
        self.notes.put(note)
    }

    /// Number of outcomes that have not been sent to the store.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Number of outcomes that the store has not confirmed.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.unconfirmed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ids of events whose outcome waits for its first batch or for a lock.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &EventId> {
        self.queue.iter().map(|unsettled| &unsettled.outcome.id).chain(self.busy.ids())
    }

    /// Time since which outcomes wait; `None` if there are none or they fill a batch.
    pub(crate) fn lingers_since(&self, rows: usize) -> Option<Instant> {
        self.since.filter(|_| self.queue.len() < rows)
    }

    /// Time of the last batch; `None` if an urgent outcome is queued.
    pub(crate) fn last_batch(&self) -> Option<Instant> {
        self.taken_at.filter(|_| !self.urgent)
    }

    /// Whether the settler should be woken. `at` is the time at which a batch is due; `None` means now.
    pub(crate) fn wakes(&self, at: Option<Instant>) -> bool {
        match self.settler {
            Settler::Busy => false,
            Settler::Idle => self.since.is_some() || !self.notes.is_empty(),
            Settler::Lingering(until) => {
                !self.notes.is_empty() || (self.since.is_some() && at.is_none_or(|at| at < until))
            }
        }
    }

    /// Returns the next batch if one is due, or else the time at which to ask again, if anything waits.
    pub(crate) fn next(
        &mut self,
        at: Option<Instant>,
        rows: usize,
        now: Instant,
    ) -> Result<Due, Option<Instant>> {
        let (again, repeats) = self.busy.due(rows, now);
        if !again.is_empty() {
            return Ok(Due { repeats, ..self.due(again, Tried::Again) });
        }
        if !self.notes.is_empty() {
            // Notes are written separately from outcomes, so that no statement changes a row twice.
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
        Due { outcomes, tried, repeats: None }
    }

    /// Handles the answer to a batch: the number of confirmed outcomes, and the
    /// outcomes whose rows are locked, which an earlier call may have settled since `repeats`.
    ///
    /// Returns the number of outcomes that wait for locks when the pause
    /// between attempts reaches its maximum.
    pub(crate) fn answered(
        &mut self,
        tried: Tried,
        confirmed: usize,
        busy: Vec<Unsettled>,
        repeats: Option<Timestamp>,
        now: Instant,
    ) -> Option<usize> {
        self.unconfirmed = self.unconfirmed.saturating_sub(confirmed);
        let locked = busy.len();
        self.busy.put(busy, repeats);
        self.busy.answered(tried, confirmed, locked, now)
    }

    /// Drops all outcomes, because the node was lost.
    pub(crate) fn clear(&mut self) {
        *self = Self { taken_at: self.taken_at, settler: self.settler, ..Self::default() };
    }
}

/// Separates later outcomes of a row that has an attempt in the batch: a store may settle
/// a batch in any order.
fn each_row_once(taken: Vec<Unsettled>) -> (Vec<Unsettled>, Vec<Unsettled>) {
    if taken.iter().all(|one| !matches!(one.outcome.change, Change::Attempt { .. })) {
        return (taken, Vec::new());
    }
    let mut named: HashSet<EventId> = HashSet::new();
    taken.into_iter().partition(|one| named.insert(one.outcome.id.clone()))
}
