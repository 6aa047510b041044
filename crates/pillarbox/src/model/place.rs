//! Where a row stands in the order of delivery, and who may deliver it.

use std::fmt;

/// The number the database gives a row; delivery follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Seq(pub i64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number that fences a claim: grows with each claim of a row, never falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Token(pub i64);

/// A share of the events: 0 to 63 for groups, 64 and above for the lanes of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Slot(pub i16);

impl Slot {
    /// Whether this is a node's lane.
    #[must_use]
    pub const fn is_lane(self) -> bool {
        self.0 >= Lane::FIRST.0
    }
}

/// Who delivers a row that is not delivered by its group's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Lane(pub i16);

impl Lane {
    /// Nobody, until its time has come.
    pub const DELAYED: Self = Self(-1);
    /// Whoever claims it.
    pub const QUEUE: Self = Self(-2);
    /// The first private lane of a node.
    pub const FIRST: Self = Self(64);
    /// The first lane of a node that reads no other.
    pub const FIRST_ALONE: Self = Self(16_384);

    /// The slot that rows of this lane have.
    #[must_use]
    pub const fn slot(self) -> Slot {
        Slot(self.0)
    }
}

/// A set of slots, kept as sorted ranges so that a statement can name it in a few numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotSet {
    ranges: Vec<(i16, i16)>,
}

impl SlotSet {
    /// The set of these slots.
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

    /// Inclusive ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[(i16, i16)] {
        &self.ranges
    }

    /// Whether the slot is in it.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&slot.0))
    }

    /// Whether there is none.
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
