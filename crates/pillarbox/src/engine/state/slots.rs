//! The slots of this node, with the number of rows in memory and the quarantine of each.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{GroupKey, Seq, Slot, SlotSet};
use crate::port::Quarantine;

/// The suspect rows of a slot that was taken over from an evicted node.
#[derive(Debug)]
struct Suspicion {
    seen: BTreeSet<GroupKey>,
    ungrouped_left: usize,
    /// Rows with a higher number are not suspect, because they were written later; `None` means no bound.
    upto: Option<Seq>,
}

#[derive(Debug, Default)]
struct HeldSlotState {
    /// Whether the slot is being drained, to be released.
    leaving: bool,
    /// Number of its rows in memory: queued, being delivered, or unsettled.
    unsettled: usize,
    suspicion: Option<Suspicion>,
    /// Quarantine as stored, until a heartbeat reports the slot as trusted.
    quarantine: Option<Quarantine>,
    /// Number of reads begun when the slot was taken. Those reads may have seen rows that the previous holder
    /// delivered since, so only later reads count.
    taken: u64,
}

/// All slots that this node holds.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    holds: BTreeMap<Slot, HeldSlotState>,
    /// Number of slots that are being drained.
    leaving: usize,
    /// Number of reads begun.
    reads: u64,
}

impl Slots {
    /// Adds a slot. Returns true if it is new. At most `ungrouped` rows without a group are suspect.
    pub(crate) fn take(&mut self, slot: Slot, suspect: bool, upto: Option<Seq>, ungrouped: usize) -> bool {
        if self.holds.contains_key(&slot) {
            return false;
        }
        let suspicion = Suspicion { seen: BTreeSet::new(), ungrouped_left: ungrouped, upto };
        let hold = HeldSlotState {
            suspicion: suspect.then_some(suspicion),
            taken: self.reads,
            ..HeldSlotState::default()
        };
        self.holds.insert(slot, hold);
        true
    }

    /// Updates the stored quarantine of a slot.
    pub(crate) fn quarantine(&mut self, slot: Slot, quarantine: Option<Quarantine>) {
        if let Some(hold) = self.holds.get_mut(&slot) {
            hold.quarantine = quarantine;
        }
    }

    /// Slots in quarantine whose suspect rows have all been read.
    pub(crate) fn seen_through(&self) -> impl Iterator<Item = Slot> {
        let seen =
            |(_, hold): &(&Slot, &HeldSlotState)| hold.quarantine.is_some() && hold.suspicion.is_none();
        self.holds.iter().filter(seen).map(|(slot, _)| *slot)
    }

    /// Whether the store tells the next holder of this slot about the quarantine.
    pub(crate) fn tells_next_holder(&self, slot: Slot) -> bool {
        self.holds.get(&slot).is_some_and(|hold| hold.quarantine.is_some())
    }

    /// Maximum number of concurrent deliveries from quarantine: the number of workers,
    /// halved after each further crash.
    ///
    /// It is 1 if the store keeps no count of evictions.
    pub(crate) fn quarantined_at_once(&self, workers: usize) -> usize {
        let limit = |hold: &HeldSlotState| match hold.quarantine {
            Some(Quarantine { evictions, .. }) => workers >> evictions.saturating_sub(1).min(usize::BITS - 1),
            None => 1,
        };
        let holds = self.holds.values().filter(|hold| hold.quarantine.is_some() || hold.suspicion.is_some());
        holds.map(limit).min().unwrap_or(1)
    }

    /// Slots in memory that are missing in the store's list.
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

    /// Starts to drain a slot. Returns true if it was not being drained before.
    pub(crate) fn leave(&mut self, slot: Slot) -> bool {
        let begins =
            self.holds.get_mut(&slot).is_some_and(|hold| !std::mem::replace(&mut hold.leaving, true));
        self.leaving += usize::from(begins);
        begins
    }

    /// Slots that are drained: no row is left in memory.
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

    /// Whether rows of this slot may be admitted from the read that is being merged.
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

    /// Adopted lanes, that is, all but the node's own lane, without rows in memory and not suspect.
    pub(crate) fn idle_adopted(&self, own: Slot) -> Vec<Slot> {
        let idle = |(slot, hold): &(&Slot, &HeldSlotState)| {
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

    /// Whether this row may have crashed the evicted holder. Must be called once for each row: only the first
    /// row of a group and the first ungrouped rows are suspect.
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

    /// Slots whose suspect rows have not all been read.
    pub(crate) fn suspect(&self) -> impl Iterator<Item = Slot> {
        self.holds.iter().filter(|(_, hold)| hold.suspicion.is_some()).map(|(slot, _)| *slot)
    }

    /// Ends all suspicion, because every pending row has been read once.
    pub(crate) fn trust(&mut self) {
        for hold in self.holds.values_mut() {
            hold.suspicion = None;
        }
    }

    /// Ends the suspicion of slots whose bound is at or below this number, because all rows up
    /// to it have been read.
    pub(crate) fn read_upto(&mut self, decided: Seq) {
        let seen = |suspicion: &mut Suspicion| suspicion.upto.is_some_and(|upto| upto <= decided);
        for hold in self.holds.values_mut() {
            hold.suspicion.take_if(seen);
        }
    }

    /// Removes the bounds of suspicion. Sequence numbers are reused, so a higher number no
    /// longer means a later write.
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
