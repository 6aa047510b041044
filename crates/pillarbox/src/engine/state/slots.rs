//! The slots this node holds, and how much of each is in memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{GroupKey, Seq, Slot, SlotSet};
use crate::port::Quarantine;

/// What is not trusted in a slot that a crashed node held.
#[derive(Debug)]
struct Suspicion {
    seen: BTreeSet<GroupKey>,
    ungrouped_left: usize,
    /// Rows with a higher number were written later; none: there are no such rows.
    upto: Option<Seq>,
}

#[derive(Debug, Default)]
struct Hold {
    /// To be drained and given back.
    leaving: bool,
    /// Rows of it in memory: waiting, out, or not yet settled.
    unsettled: usize,
    suspicion: Option<Suspicion>,
    /// As the store has it, until it is told that the slot is trusted.
    quarantine: Option<Quarantine>,
    /// The read that was under way or over when it was taken: what that one saw may be another holder's past.
    taken: u64,
}

/// The slots this node holds.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    holds: BTreeMap<Slot, Hold>,
    /// How many are leaving.
    leaving: usize,
    /// How many reads have begun.
    reads: u64,
}

impl Slots {
    /// Takes a slot; true if it is new.
    pub(crate) fn take(&mut self, slot: Slot, suspect: bool, upto: Option<Seq>, ungrouped: usize) -> bool {
        if self.holds.contains_key(&slot) {
            return false;
        }
        let suspicion = Suspicion { seen: BTreeSet::new(), ungrouped_left: ungrouped, upto };
        let hold = Hold { suspicion: suspect.then_some(suspicion), taken: self.reads, ..Hold::default() };
        self.holds.insert(slot, hold);
        true
    }

    /// What the store has of the quarantine of a slot.
    pub(crate) fn quarantine(&mut self, slot: Slot, quarantine: Option<Quarantine>) {
        if let Some(hold) = self.holds.get_mut(&slot) {
            hold.quarantine = quarantine;
        }
    }

    /// Slots that the store has in quarantine and of which everything in it has been seen.
    pub(crate) fn seen_through(&self) -> impl Iterator<Item = Slot> {
        let seen = |(_, hold): &(&Slot, &Hold)| hold.quarantine.is_some() && hold.suspicion.is_none();
        self.holds.iter().filter(seen).map(|(slot, _)| *slot)
    }

    /// Whether its next holder would know what is quarantined.
    pub(crate) fn tells_next_holder(&self, slot: Slot) -> bool {
        self.holds.get(&slot).is_some_and(|hold| hold.quarantine.is_some())
    }

    /// How many quarantined events may be out at once: as many as there are workers, half as many after each further crash.
    /// Where the store keeps no count, one.
    pub(crate) fn quarantined_at_once(&self, workers: usize) -> usize {
        let limit = |hold: &Hold| match hold.quarantine {
            Some(Quarantine { evictions, .. }) => workers >> evictions.saturating_sub(1).min(usize::BITS - 1),
            None => 1,
        };
        let holds = self.holds.values().filter(|hold| hold.quarantine.is_some() || hold.suspicion.is_some());
        holds.map(limit).min().unwrap_or(1)
    }

    /// Slots that are held here but no longer in the store's list.
    pub(crate) fn lost(&self, held: &BTreeSet<Slot>) -> Vec<Slot> {
        self.holds.keys().filter(|slot| !held.contains(slot)).copied().collect()
    }

    pub(crate) fn holds(&self, slot: Slot) -> bool {
        self.holds.contains_key(&slot)
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let leaving = self.holds.remove(&slot).is_some_and(|hold| hold.leaving);
        self.leaving -= usize::from(leaving);
    }

    /// Marks a slot to be drained; true if it was not before.
    pub(crate) fn leave(&mut self, slot: Slot) -> bool {
        let begins =
            self.holds.get_mut(&slot).is_some_and(|hold| !std::mem::replace(&mut hold.leaving, true));
        self.leaving += usize::from(begins);
        begins
    }

    /// Leaving slots with nothing left in memory.
    pub(crate) fn drained(&self) -> Vec<Slot> {
        self.holds
            .iter()
            .filter(|(_, hold)| hold.leaving && hold.unsettled == 0)
            .map(|(slot, _)| *slot)
            .collect()
    }

    pub(crate) fn is_leaving(&self, slot: Slot) -> bool {
        self.leaving > 0 && self.holds.get(&slot).is_some_and(|hold| hold.leaving)
    }

    pub(crate) fn any_leaving(&self) -> bool {
        self.leaving > 0
    }

    pub(crate) fn read_began(&mut self) {
        self.reads += 1;
    }

    /// Whether rows of this slot may be taken in from the read that comes back.
    pub(crate) fn takes_rows(&self, slot: Slot) -> bool {
        self.holds.get(&slot).is_some_and(|hold| !hold.leaving && hold.taken < self.reads)
    }

    pub(crate) fn is_active(&self, slot: Slot) -> bool {
        self.holds.get(&slot).is_some_and(|hold| !hold.leaving)
    }

    pub(crate) fn any_active(&self) -> bool {
        self.holds.len() > self.leaving
    }

    pub(crate) fn active_set(&self) -> SlotSet {
        SlotSet::new(self.holds.iter().filter(|(_, hold)| !hold.leaving).map(|(slot, _)| *slot))
    }

    pub(crate) fn groups_held(&self) -> usize {
        self.holds.keys().filter(|slot| !slot.is_lane()).count()
    }

    /// Lanes held besides this one, empty in memory.
    pub(crate) fn idle_adopted(&self, own: Slot) -> Vec<Slot> {
        let idle = |(slot, hold): &(&Slot, &Hold)| {
            slot.is_lane()
                && **slot != own
                && !hold.leaving
                && hold.unsettled == 0
                && hold.suspicion.is_none()
        };
        self.holds.iter().filter(idle).map(|(slot, _)| *slot).collect()
    }

    pub(crate) fn entered(&mut self, slot: Slot) {
        if let Some(hold) = self.holds.get_mut(&slot) {
            hold.unsettled += 1;
        }
    }

    pub(crate) fn left(&mut self, slot: Slot) {
        if let Some(hold) = self.holds.get_mut(&slot) {
            hold.unsettled = hold.unsettled.saturating_sub(1);
        }
    }

    /// Whether this row is among those the crashed holder may have died of; asked once for each row.
    pub(crate) fn suspects(&mut self, slot: Slot, group: Option<&GroupKey>, seq: Seq) -> bool {
        let Some(suspicion) = self.holds.get_mut(&slot).and_then(|hold| hold.suspicion.as_mut()) else {
            return false;
        };
        if suspicion.upto.is_some_and(|upto| seq > upto) {
            return false;
        }
        match group {
            Some(group) => suspicion.seen.insert(group.clone()),
            None => {
                let suspect = suspicion.ungrouped_left > 0;
                suspicion.ungrouped_left = suspicion.ungrouped_left.saturating_sub(1);
                suspect
            }
        }
    }

    /// Slots whose rows of before the last eviction have not all been seen.
    pub(crate) fn suspect(&self) -> impl Iterator<Item = Slot> {
        self.holds.iter().filter(|(_, hold)| hold.suspicion.is_some()).map(|(slot, _)| *slot)
    }

    /// Everything pending has been seen once: nothing is suspect any more.
    pub(crate) fn trust(&mut self) {
        for hold in self.holds.values_mut() {
            hold.suspicion = None;
        }
    }

    /// Everything up to this number has been seen.
    pub(crate) fn read_upto(&mut self, decided: Seq) {
        let seen = |suspicion: &mut Suspicion| suspicion.upto.is_some_and(|upto| upto <= decided);
        for hold in self.holds.values_mut() {
            hold.suspicion.take_if(seen);
        }
    }

    /// Numbers are given again: they no longer tell what was written later.
    pub(crate) fn suspect_any_number(&mut self) {
        for suspicion in self.holds.values_mut().filter_map(|hold| hold.suspicion.as_mut()) {
            suspicion.upto = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.holds.clear();
        self.leaving = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot(3);

    fn quarantined(evictions: u32, upto: i64) -> Slots {
        let mut slots = Slots::default();
        slots.take(SLOT, true, Some(Seq(upto)), 10);
        slots.quarantine(SLOT, Some(Quarantine { evictions, upto: Seq(upto) }));
        slots
    }

    /// PBX-063
    #[test]
    fn rows_above_the_bound_are_trusted_unless_numbers_went_back() {
        let group = |n: i64| GroupKey::new(format!("g{n}"));
        let mut slots = quarantined(1, 5);
        assert!(slots.suspects(SLOT, Some(&group(5)), Seq(5)));
        assert!(!slots.suspects(SLOT, Some(&group(5)), Seq(5)), "only the first of a group");
        assert!(!slots.suspects(SLOT, Some(&group(6)), Seq(6)));
        slots.suspect_any_number();
        slots.read_upto(Seq(9));
        assert!(slots.suspects(SLOT, Some(&group(7)), Seq(7)));
    }

    /// PBX-063
    #[test]
    fn a_slot_is_seen_through_when_everything_up_to_its_bound_was_read() {
        let mut slots = quarantined(1, 5);
        slots.read_upto(Seq(4));
        assert_eq!(slots.seen_through().count(), 0);
        slots.read_upto(Seq(5));
        assert_eq!(slots.seen_through().collect::<Vec<_>>(), [SLOT]);
        slots.quarantine(SLOT, None);
        assert_eq!(slots.seen_through().count(), 0, "the store knows it");
    }

    /// PBX-063
    #[test]
    fn half_as_many_are_out_after_each_crash() {
        let at_once = |evictions| quarantined(evictions, 5).quarantined_at_once(10);
        assert_eq!([1, 2, 3, 4, 5, u32::MAX].map(at_once), [10, 5, 2, 1, 0, 0]);
        let mut unknown = Slots::default();
        unknown.take(SLOT, true, None, 10);
        assert_eq!(unknown.quarantined_at_once(10), 1, "the store keeps no count");
    }
}
