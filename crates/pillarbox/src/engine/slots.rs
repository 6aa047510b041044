//! The slots this node holds, and how much of each is in memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{GroupKey, Slot, SlotSet};

/// What is not trusted in a slot that a crashed node held.
#[derive(Debug)]
pub(crate) struct Suspicion {
    seen: BTreeSet<GroupKey>,
    ungrouped_left: usize,
}

#[derive(Debug, Default)]
struct Hold {
    /// To be drained and given back.
    leaving: bool,
    /// Rows of it in memory: waiting, out, or not yet settled.
    unsettled: usize,
    suspicion: Option<Suspicion>,
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
    pub(crate) fn take(&mut self, slot: Slot, suspect: bool, ungrouped: usize) -> bool {
        if self.holds.contains_key(&slot) {
            return false;
        }
        let suspicion = suspect.then(|| Suspicion { seen: BTreeSet::new(), ungrouped_left: ungrouped });
        self.holds.insert(slot, Hold { suspicion, taken: self.reads, ..Hold::default() });
        true
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
    pub(crate) fn suspects(&mut self, slot: Slot, group: Option<&GroupKey>) -> bool {
        let Some(suspicion) = self.holds.get_mut(&slot).and_then(|hold| hold.suspicion.as_mut()) else {
            return false;
        };
        match group {
            Some(group) => suspicion.seen.insert(group.clone()),
            None => {
                let suspect = suspicion.ungrouped_left > 0;
                suspicion.ungrouped_left = suspicion.ungrouped_left.saturating_sub(1);
                suspect
            }
        }
    }

    /// Whether not everything that was pending when it was taken over has been seen.
    pub(crate) fn is_suspect(&self, slot: Slot) -> bool {
        self.holds.get(&slot).is_some_and(|hold| hold.suspicion.is_some())
    }

    /// Everything pending has been seen once: nothing is suspect any more.
    pub(crate) fn trust(&mut self) {
        for hold in self.holds.values_mut() {
            hold.suspicion = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.holds.clear();
        self.leaving = 0;
    }
}
