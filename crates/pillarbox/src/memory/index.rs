//! The index of pending rows: by slot and number, and by due time for lanes −1 and −2.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::RangeInclusive;

use jiff::Timestamp;

use super::stored::Stored;
use crate::model::Lane;

/// The indexed columns of a pending row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    slot: i16,
    available_at: Timestamp,
}

impl Key {
    /// Key of a row; `None` if it is not pending.
    pub(super) fn of(row: &Stored) -> Option<Self> {
        row.status.is_pending().then(|| Self { slot: row.slot().0, available_at: row.available_at })
    }
}

/// The index of all pending rows.
#[derive(Debug, Default)]
pub(super) struct Index {
    slots: BTreeMap<i16, BTreeSet<i64>>,
    /// Rows of lanes −1 and −2, by (lane, due time, number).
    timed: BTreeSet<(i16, Timestamp, i64)>,
}

impl Index {
    pub(super) fn add(&mut self, seq: i64, key: Key) {
        self.slots.entry(key.slot).or_default().insert(seq);
        if key.slot < 0 {
            self.timed.insert((key.slot, key.available_at, seq));
        }
    }

    pub(super) fn remove(&mut self, seq: i64, key: Key) {
        if let Some(rows) = self.slots.get_mut(&key.slot) {
            rows.remove(&seq);
        }
        if key.slot < 0 {
            self.timed.remove(&(key.slot, key.available_at, seq));
        }
    }

    /// Rows of these slots from a number on, merged in the order of their numbers.
    pub(super) fn rows<'a>(
        &'a self,
        slots: &[RangeInclusive<i16>],
        from: i64,
    ) -> impl Iterator<Item = i64> + use<'a> {
        let mut sources: Vec<_> = slots
            .iter()
            .flat_map(|range| self.slots.range(range.clone()))
            .map(|(_, rows)| rows.range(from..))
            .collect();
        let mut heads: BinaryHeap<_> = sources
            .iter_mut()
            .enumerate()
            .filter_map(|(source, rows)| rows.next().map(|seq| Reverse((*seq, source))))
            .collect();
        std::iter::from_fn(move || {
            let mut head = heads.peek_mut()?;
            let Reverse((seq, source)) = *head;
            match sources[source].next() {
                Some(next) => *head = Reverse((*next, source)),
                None => drop(std::collections::binary_heap::PeekMut::pop(head)),
            }
            Some(seq)
        })
    }

    /// Due rows of lane −1 or −2, in the order of due time and number.
    pub(super) fn due(&self, lane: Lane, now: Timestamp) -> impl Iterator<Item = i64> {
        let range = (lane.0, Timestamp::MIN, i64::MIN)..=(lane.0, now, i64::MAX);
        self.timed.range(range).map(|(_, _, seq)| *seq)
    }

    /// Earliest due time after this time in lane −1.
    pub(super) fn next_due(&self, after: Timestamp) -> Option<Timestamp> {
        let range = (Lane::DELAYED.0, after, i64::MAX)..;
        self.timed.range(range).next().map(|(_, at, _)| *at)
    }

    /// Number of pending rows in a lane.
    pub(super) fn count(&self, lane: Lane) -> u64 {
        self.slots.get(&lane.0).map_or(0, |rows| rows.len() as u64)
    }

    /// Lanes of nodes that have pending rows.
    pub(super) fn lanes(&self) -> Vec<i16> {
        let used = self.slots.range(Lane::FIRST.0..).filter(|(_, rows)| !rows.is_empty());
        used.map(|(lane, _)| *lane).collect()
    }
}
