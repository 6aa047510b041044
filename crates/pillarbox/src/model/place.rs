//! The position of a row: its sequence number, slot, lane and token.

use std::fmt;

/// The sequence number that the database assigns to a row. Delivery follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Seq(pub i64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number that fences a claim. It increases with each claim of a row and never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Token(pub i64);

/// A partition of the events: 0 to 63 are shared between nodes, 64 and above are the lanes of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Slot(pub i16);

impl Slot {
    /// Whether this is a node's lane.
    #[must_use]
    pub const fn is_lane(self) -> bool {
        self.0 >= Lane::FIRST.0
    }
}

/// A private slot, for rows that are not delivered through the slot of their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Lane(pub i16);

impl Lane {
    /// Delayed rows: nobody delivers them until they are promoted.
    pub const DELAYED: Self = Self(-1);
    /// Messages of the queue, which workers claim.
    pub const QUEUE: Self = Self(-2);
    /// The first private lane of a node.
    pub const FIRST: Self = Self(64);
    /// The first lane of nodes that read only their own lane.
    pub const FIRST_ALONE: Self = Self(16_384);

    /// The slot number of rows in this lane.
    #[must_use]
    pub const fn slot(self) -> Slot {
        Slot(self.0)
    }
}

/// A set of slots, kept as sorted ranges, so that a statement can name it with few numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotSet {
    ranges: Vec<(i16, i16)>,
}

impl SlotSet {
    /// Creates a set of slots.
    #[must_use]
    pub fn new(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut numbers: Vec<i16> = slots.into_iter().map(|slot| slot.0).collect();
        numbers.sort_unstable();
        let mut ranges: Vec<(i16, i16)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if number <= last.saturating_add(1) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        Self { ranges }
    }

    /// The inclusive ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[(i16, i16)] {
        &self.ranges
    }

    /// The ranges without the negative lanes, which contain delayed and queued rows.
    #[must_use]
    pub fn delivered_ranges(&self) -> Vec<(i16, i16)> {
        let delivered = self.ranges.iter().map(|&(first, last)| (first.max(0), last));
        delivered.filter(|(first, last)| first <= last).collect()
    }

    /// Whether the set contains the slot.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&slot.0))
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| (first..=last).map(Slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_kept_as_ranges() {
        let set = SlotSet::new([3, 1, 2, 70, 5, 2].map(Slot));
        assert_eq!(set.ranges(), [(1, 3), (5, 5), (70, 70)]);
        assert!(set.contains(Slot(2)) && !set.contains(Slot(4)));
        assert_eq!(set.iter().count(), 5);
    }
}
