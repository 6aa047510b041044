//! Queued outcomes in two halves, which may be settled at the same time.

use std::collections::VecDeque;

use super::settle_queue::Unsettled;
use crate::model::EventId;

/// One half of the outcomes. All outcomes of an event and of a slot, and so of a group, are in the same half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    First,
    Second,
}

impl Half {
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// A lane is one slot without order, so its events are told apart by their ids.
    fn of(unsettled: &Unsettled) -> Self {
        let slot = unsettled.slot;
        let key = if slot.is_lane() {
            unsettled.outcome.id.as_str().bytes().fold(0, u8::wrapping_add)
        } else {
            slot.0.to_le_bytes()[0]
        };
        if key & 1 == 0 { Self::First } else { Self::Second }
    }
}

/// What a batch is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Half(Half),
}

/// A queue of outcomes, split in halves if two batches may be settled at once.
#[derive(Debug, Default)]
pub(super) struct Halves {
    is_split: bool,
    first: VecDeque<Unsettled>,
    second: VecDeque<Unsettled>,
}

impl Halves {
    pub(super) fn new(is_split: bool) -> Self {
        Self { is_split, ..Self::default() }
    }

    pub(super) fn is_split(&self) -> bool {
        self.is_split
    }

    pub(super) fn push_back(&mut self, unsettled: Unsettled) {
        self.of(&unsettled).push_back(unsettled);
    }

    pub(super) fn push_front(&mut self, unsettled: Unsettled) {
        self.of(&unsettled).push_front(unsettled);
    }

    fn of(&mut self, unsettled: &Unsettled) -> &mut VecDeque<Unsettled> {
        match self.is_split.then(|| Half::of(unsettled)) {
            None | Some(Half::First) => &mut self.first,
            Some(Half::Second) => &mut self.second,
        }
    }

    fn half(&mut self, half: Half) -> &mut VecDeque<Unsettled> {
        match half {
            Half::First => &mut self.first,
            Half::Second => &mut self.second,
        }
    }

    pub(super) fn len(&self, part: Part) -> usize {
        match part {
            Part::Whole => self.first.len() + self.second.len(),
            Part::Half(Half::First) => self.first.len(),
            Part::Half(Half::Second) => self.second.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len(Part::Whole) == 0
    }

    pub(super) fn longer(&self) -> Half {
        if self.first.len() < self.second.len() { Half::Second } else { Half::First }
    }

    /// Takes at most `rows` outcomes; from the shorter half first, so that it never waits for the longer one.
    pub(super) fn take(&mut self, part: Part, rows: usize) -> Vec<Unsettled> {
        let from = match part {
            Part::Half(half) => vec![half],
            Part::Whole => vec![self.longer().other(), self.longer()],
        };
        let mut taken = Vec::with_capacity(rows.min(self.len(part)));
        for half in from {
            let queue = self.half(half);
            let count = queue.len().min(rows - taken.len());
            taken.extend(queue.drain(..count));
        }
        taken
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &EventId> {
        self.first.iter().chain(&self.second).map(|unsettled| &unsettled.outcome.id)
    }
}
