//! The settle queue: outcomes that the store has not confirmed.

use std::collections::HashSet;

use jiff::Timestamp;
use tokio::time::Instant;

use super::busy::{Busy, Tried};
use super::halves::{Half, Halves, Part};
use super::notes::Notes;
use crate::model::{EventId, GroupKey, Slot};
use crate::port::{Change, Outcome};

/// A second batch is settled only if its half has at least the number of rows of a batch divided by this: small batches
/// would cost more than they save.
const LEAST: usize = 4;

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
    queue: Halves,
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
    /// What the settler took last. While it waits, this means nothing.
    taken: Option<Part>,
    /// The half that the second settler is settling.
    beside: Option<Half>,
}

impl SettleQueue {
    /// Splits the queue, so that a second settler can work beside the first. Must be called before the first outcome.
    pub(crate) fn split(&mut self) {
        self.queue = Halves::new(true);
    }

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
        self.queue.len(Part::Whole)
    }

    /// Number of outcomes that the store has not confirmed.
    pub(crate) fn len(&self) -> usize {
        self.queued() + self.unconfirmed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ids of events whose outcome waits for its first batch or for a lock.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &EventId> {
        self.queue.ids().chain(self.busy.ids())
    }

    /// Time since which outcomes wait; `None` if there are none or they fill a batch.
    pub(crate) fn lingers_since(&self, rows: usize) -> Option<Instant> {
        self.since.filter(|_| self.queue.len(self.open()) < rows)
    }

    /// Time of the last batch; `None` if an urgent outcome is queued.
    pub(crate) fn last_batch(&self) -> Option<Instant> {
        self.taken_at.filter(|_| !self.urgent)
    }

    /// What the settler may take: not the half that the second settler is settling, or an outcome could overtake an
    /// earlier one of the same event or group.
    fn open(&self) -> Part {
        self.beside.map_or(Part::Whole, |half| Part::Half(half.other()))
    }

    /// Whether notes may be written. They are of any half.
    fn may_note(&self) -> bool {
        self.beside.is_none() && !self.notes.is_empty()
    }

    /// Whether what waits may have to wait for the second settler.
    pub(crate) fn is_settled_beside(&self) -> bool {
        self.beside.is_some()
    }

    fn has_open(&self) -> bool {
        self.queue.len(self.open()) > 0
    }

    /// Whether the settler should be woken. `at` is the time at which a batch is due; `None` means now.
    pub(crate) fn wakes(&self, at: Option<Instant>) -> bool {
        match self.settler {
            Settler::Busy => false,
            Settler::Idle => self.has_open() || self.may_note(),
            Settler::Lingering(until) => {
                self.may_note() || (self.has_open() && at.is_none_or(|at| at < until))
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
        let open = self.open();
        if open == Part::Whole
            && let Some(due) = self.next_apart(rows, now)
        {
            (self.settler, self.taken) = (Settler::Busy, Some(open));
            return Ok(due);
        }
        if !self.has_open() || at.is_some_and(|until| now < until) {
            let at = at.filter(|_| self.has_open());
            // The end of the second settler's batch wakes the settler.
            let again = self.busy.at().filter(|_| open == Part::Whole);
            let until = at.into_iter().chain(again).min();
            self.settler = until.map_or(Settler::Idle, Settler::Lingering);
            return Err(until);
        }
        let part = if open == Part::Whole && self.is_enough_for_two(rows) {
            Part::Half(self.queue.longer())
        } else {
            open
        };
        (self.settler, self.taken) = (Settler::Busy, Some(part));
        Ok(self.take(part, rows, now))
    }

    /// The next batch of busy outcomes or of notes.
    fn next_apart(&mut self, rows: usize, now: Instant) -> Option<Due> {
        let (again, repeats) = self.busy.due(rows, now);
        if !again.is_empty() {
            return Some(Due { outcomes: again, tried: Tried::Again, repeats });
        }
        if self.notes.is_empty() {
            return None;
        }
        // Notes are written separately from outcomes, so that no statement changes a row twice.
        let notes = self.notes.take(rows);
        self.unconfirmed += notes.len();
        Some(Due { outcomes: notes, tried: Tried::First, repeats: None })
    }

    fn is_enough_for_two(&self, rows: usize) -> bool {
        let shorter = self.queue.len(Part::Half(self.queue.longer().other()));
        self.queue.is_split() && self.queued() > rows && shorter >= (rows / LEAST).max(1)
    }

    /// The half from which a second batch can be settled beside the settler's.
    fn second(&self, rows: usize) -> Option<Half> {
        let (Settler::Busy, Some(Part::Half(taken)), None) = (self.settler, self.taken, self.beside) else {
            return None;
        };
        let (other, is_plain) = (taken.other(), self.busy.is_empty() && self.notes.is_empty());
        (is_plain && self.queue.len(Part::Half(other)) >= (rows / LEAST).max(1)).then_some(other)
    }

    /// Whether the second settler should be woken.
    pub(crate) fn wakes_second(&self, rows: usize) -> bool {
        self.second(rows).is_some()
    }

    /// Returns a batch for the second settler, whose last batch has ended.
    pub(crate) fn next_second(&mut self, rows: usize, now: Instant) -> Option<Due> {
        self.beside = None;
        let half = self.second(rows)?;
        self.beside = Some(half);
        Some(self.take(Part::Half(half), rows, now))
    }

    fn take(&mut self, part: Part, rows: usize, now: Instant) -> Due {
        let (taken, behind) = each_row_once(self.queue.take(part, rows));
        self.unconfirmed += taken.len();
        behind.into_iter().rev().for_each(|unsettled| self.queue.push_front(unsettled));
        let taken = self.busy.keep_back(taken);
        self.since = (!self.queue.is_empty()).then_some(now);
        self.urgent &= !self.queue.is_empty();
        self.taken_at = Some(now);
        Due { outcomes: taken, tried: Tried::First, repeats: None }
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
        // The settlers may still wait for answers about what they took.
        *self = Self {
            taken_at: self.taken_at,
            settler: self.settler,
            taken: self.taken,
            beside: self.beside,
            queue: Halves::new(self.queue.is_split()),
            ..Self::default()
        };
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
