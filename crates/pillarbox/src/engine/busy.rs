//! Outcomes whose rows another transaction has locked: settled again after a while, apart from all others.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::core::Unsettled;
use crate::model::EventId;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
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
    pub(super) fn push(&mut self, unsettled: Unsettled) {
        self.waiting.push_back(unsettled);
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

    /// Those that are to be settled again now, up to so many.
    pub(super) fn due(&mut self, rows: usize, now: Instant) -> Vec<Unsettled> {
        if self.until.is_none_or(|until| now < until) {
            return Vec::new();
        }
        let due = self.waiting.drain(..rows.min(self.waiting.len())).collect();
        if self.waiting.is_empty() {
            self.until = None;
        }
        due
    }

    /// A batch was answered, so many of its outcomes were busy. New locks are short as a rule: the pause grows only while
    /// nothing that waited gets through. Tells how many wait when it has grown to its longest.
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
