//! Busy outcomes: other transactions have locked their rows, so they are settled again later.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::settle_queue::Unsettled;
use crate::model::EventId;

/// First pause before a retry. It is short, because most locks are those of concurrent claims and settles.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Which outcomes a batch contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    /// New outcomes.
    First,
    /// Outcomes that were busy before.
    Again,
}

/// A busy outcome.
#[derive(Debug)]
struct Waiting {
    unsettled: Unsettled,
    /// A time of the database before the first call that may have settled it, if an answer was lost.
    repeats: Option<Timestamp>,
}

/// Outcomes that wait for other transactions' locks. They count as unconfirmed, so
/// that shutdown waits for them.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    waiting: VecDeque<Waiting>,
    /// The time that the last retry gave. Outcomes with different times take turns, because a settle has one time: an
    /// earlier one would refuse outcomes that were never settled.
    repeated: Option<Timestamp>,
    until: Option<Instant>,
    pause: Duration,
}

impl Busy {
    /// Adds busy outcomes in front, so that they precede later outcomes of the same rows.
    pub(super) fn put(&mut self, busy: Vec<Unsettled>, repeats: Option<Timestamp>) {
        for unsettled in busy.into_iter().rev() {
            self.waiting.push_front(Waiting { unsettled, repeats });
        }
    }

    /// Keeps outcomes behind a waiting outcome of the same row, which must be settled
    /// first, and returns the others.
    ///
    /// This occurs when a retry fails again before its last outcome is settled.
    pub(super) fn keep_back(&mut self, taken: Vec<Unsettled>) -> Vec<Unsettled> {
        if self.waiting.is_empty() {
            return taken;
        }
        let waiting: HashSet<&EventId> = self.ids().collect();
        let waits = |one: &Unsettled| waiting.contains(&one.outcome.id);
        let (behind, free): (Vec<_>, Vec<_>) = taken.into_iter().partition(waits);
        self.waiting.extend(behind.into_iter().map(|unsettled| Waiting { unsettled, repeats: None }));
        free
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &EventId> {
        self.waiting.iter().map(|waiting| &waiting.unsettled.outcome.id)
    }

    /// Time of the next retry, if outcomes wait.
    pub(super) fn at(&self) -> Option<Instant> {
        self.until
    }

    /// Takes at most `rows` outcomes that are due for a retry, all with the returned time.
    pub(super) fn due(&mut self, rows: usize, now: Instant) -> (Vec<Unsettled>, Option<Timestamp>) {
        if self.until.is_none_or(|until| now < until) {
            return Default::default();
        }
        self.repeated = self.next_time();
        // Each row at most once per batch; later outcomes of the same row wait.
        let (mut due, mut behind): (Vec<Unsettled>, VecDeque<Waiting>) = Default::default();
        let mut named = HashSet::new();
        for waiting in std::mem::take(&mut self.waiting) {
            // A row is marked even if its outcome does not fit, or a later outcome of
            // the row would overtake it.
            let first = named.insert(waiting.unsettled.outcome.id.clone());
            if first && waiting.repeats == self.repeated && due.len() < rows {
                due.push(waiting.unsettled);
            } else {
                behind.push_back(waiting);
            }
        }
        self.waiting = behind;
        if self.waiting.is_empty() {
            self.until = None;
        }
        (due, self.repeated)
    }

    /// The time whose turn it is, among those of outcomes that no other outcome of the same row precedes.
    fn next_time(&self) -> Option<Timestamp> {
        let mut named = HashSet::new();
        let first = self.waiting.iter().filter(|waiting| named.insert(&waiting.unsettled.outcome.id));
        let times: BTreeSet<Option<Timestamp>> = first.map(|waiting| waiting.repeats).collect();
        times.iter().find(|time| **time > self.repeated).or(times.first()).copied().flatten()
    }

    /// Handles the answer to a batch with this many busy outcomes.
    ///
    /// The pause grows only while no waiting outcome succeeds, because most locks are short. Returns the
    /// number of waiting outcomes when the pause reaches its maximum.
    pub(super) fn answered(
        &mut self,
        tried: Tried,
        changed: usize,
        busy: usize,
        now: Instant,
    ) -> Option<usize> {
        if self.waiting.is_empty() {
            self.clear();
            return None;
        }
        let before = self.pause;
        match tried {
            Tried::Again if changed == 0 => self.pause = (self.pause * 2).min(LONGEST_PAUSE),
            Tried::Again => self.pause = FIRST_PAUSE,
            Tried::First if busy > 0 => self.pause = FIRST_PAUSE,
            Tried::First => return None,
        }
        self.until = Some(now + self.pause);
        (before < LONGEST_PAUSE && self.pause == LONGEST_PAUSE).then_some(self.waiting.len())
    }
}
