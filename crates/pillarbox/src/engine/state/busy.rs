//! Outcomes whose rows another transaction has locked: settled again after a while, apart from all others.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::settle_queue::Unsettled;
use crate::model::EventId;

/// Short, since most locks are those of others who claim or settle beside this.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Which outcomes a batch was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    /// New ones.
    First,
    /// Those that were busy before.
    Again,
}

/// Outcomes that wait for locks of others. They count as being settled, so that nothing ends without them.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    waiting: VecDeque<Unsettled>,
    until: Option<Instant>,
    pause: Duration,
}

impl Busy {
    /// Sets outcomes aside, before those of the same rows that came after them.
    pub(super) fn put(&mut self, busy: Vec<Unsettled>) {
        for unsettled in busy.into_iter().rev() {
            self.waiting.push_front(unsettled);
        }
    }

    /// Keeps back what comes after a waiting outcome of the same row: a retry may fail again before it is settled.
    pub(super) fn keep_back(&mut self, taken: Vec<Unsettled>) -> Vec<Unsettled> {
        if self.waiting.is_empty() {
            return taken;
        }
        let waiting: HashSet<&EventId> = self.ids().collect();
        let waits = |one: &Unsettled| waiting.contains(&one.outcome.id);
        let (behind, free): (Vec<_>, Vec<_>) = taken.into_iter().partition(waits);
        self.waiting.extend(behind);
        free
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &EventId> {
        self.waiting.iter().map(|unsettled| &unsettled.outcome.id)
    }

    /// When they are to be settled again, if there are any.
    pub(super) fn at(&self) -> Option<Instant> {
        self.until
    }

    /// The outcomes that are due for another attempt, at most this many.
    pub(super) fn due(&mut self, rows: usize, now: Instant) -> Vec<Unsettled> {
        if self.until.is_none_or(|until| now < until) {
            return Vec::new();
        }
        // A row at most once; what comes after waits for its turn.
        let (mut due, mut behind): (Vec<Unsettled>, VecDeque<Unsettled>) = Default::default();
        let mut named = HashSet::new();
        for unsettled in std::mem::take(&mut self.waiting) {
            // What is named stays behind also where there is no room: its order counts.
            let first = named.insert(unsettled.outcome.id.clone());
            if first && due.len() < rows { due.push(unsettled) } else { behind.push_back(unsettled) }
        }
        self.waiting = behind;
        if self.waiting.is_empty() {
            self.until = None;
        }
        due
    }

    /// A batch was answered, and this many of its outcomes were busy. Most locks are short: the pause grows only while nothing that
    /// waited gets through. Returns how many wait once it has grown to its longest.
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
