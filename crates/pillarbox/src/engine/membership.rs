//! Membership: what a beat asks and what its answer changes.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::core::{Core, Phase};
use super::groups::Hold;
use super::held::HeldList;
use crate::model::{NodeId, Seq, Slot};
use crate::port::{Beat, Cursor, Fence, Membership, Part};

/// Look for rows in lanes that nobody holds once in so many beats.
const BEATS_PER_SWEEP: u64 = 12;
/// An adopted lane with nothing in it is let go after so many beats.
const BEATS_PER_LANE_CHECK: u64 = 24;

impl Core {
    /// A new node begins, with nothing in memory.
    pub(crate) fn joined(
        &mut self,
        node: NodeId,
        membership: &Membership,
        held: Option<HeldList>,
        asked: Instant,
        now: Instant,
    ) {
        self.fence = Fence::Node(node);
        self.beat_unanswered = false;
        self.groups_epoch = -1;
        self.cursor = Cursor::default();
        self.sweep_later(now);
        self.apply(membership, held, asked, now);
    }

    /// The node was buried: nothing it held is ours any more.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.incarnation += 1;
        self.lane = None;
        self.lease_until = Some(now);
        self.lines.clear();
        self.groups.clear();
        self.careful.clear();
        self.known.clear_held();
        self.aside.clear();
        self.held.drop_slots();
        self.claims.clear();
        self.slots.clear();
        self.settles.clear();
        self.notes.clear();
        self.busy.clear();
        self.settles_since = None;
        self.settles_press = false;
        self.settling = 0;
        self.cursor = Cursor::default();
        self.rewinds += 1;
        self.wake = true;
        self.more = false;
    }

    /// A loop ended by a panic, and what it was doing is half done: everything begins anew. A node joins again as another; rows
    /// that were claimed come back when their lease ends.
    pub(crate) fn restarted(&mut self, now: Instant) {
        self.restarts += 1;
        let needs_lease = self.lease_until.is_some();
        self.lost(now);
        if !needs_lease {
            self.lease_until = None;
        }
    }

    pub(crate) fn next_beat(&mut self, node: NodeId, now: Instant) -> Beat {
        self.beats += 1;
        if self.beats.is_multiple_of(BEATS_PER_LANE_CHECK)
            && let (Some(lane), true) = (self.lane, !self.more && !self.wake)
        {
            for slot in self.slots.idle_adopted(lane.slot()) {
                self.leave_slot(slot, now);
            }
        }
        Beat {
            node,
            lease: self.settings.lease.length(),
            // What was given back at the end is in no list here, though nobody has tried it.
            trusted: if self.phase == Phase::Stopped { Vec::new() } else { self.trusted() },
            release: self.slots.drained(),
            groups_seen: self.groups_epoch,
            after: self.cursor.decided,
            sweep: self.beats % BEATS_PER_SWEEP == 1,
            now: None,
        }
    }

    /// The answer is lost; if the beat took slots, so is whether they were a dead node's.
    pub(crate) fn beat_failed(&mut self) {
        self.beat_unanswered = true;
        // What crashed may have taken done marks back with it: the reader looks, on a new connection.
        self.nothing_at = None;
        self.wake = true;
    }

    /// The answer to a beat that released these slots.
    pub(crate) fn renewed(
        &mut self,
        released: &[Slot],
        membership: &Membership,
        held: Option<HeldList>,
        asked: Instant,
        now: Instant,
    ) {
        for slot in released {
            self.slots.remove(*slot);
        }
        self.apply(membership, held, asked, now);
    }

    fn apply(&mut self, membership: &Membership, list: Option<HeldList>, asked: Instant, now: Instant) {
        self.lane = Some(membership.lane);
        self.lease_until = Some(asked + self.settings.lease.usable_for());
        self.halted = false;
        self.reader_idle |= std::mem::take(&mut self.reader_barred);
        let ungrouped = self.settings.cold_rows;
        let mut gained = false;
        // A quarantine is told again; a leader's rows have none.
        let unsure = std::mem::take(&mut self.beat_unanswered) && self.lead.is_some();
        for held in &membership.held {
            let suspect = held.suspect || held.quarantine.is_some() || unsure;
            let upto = held.quarantine.map(|quarantine| quarantine.upto);
            gained |= self.slots.take(held.slot, suspect, upto, ungrouped);
            self.slots.quarantine(held.slot, held.quarantine);
        }
        self.careful.set_limit(self.slots.quarantined_at_once(self.settings.workers));
        let listed: BTreeSet<Slot> = membership.held.iter().map(|held| held.slot).collect();
        for slot in self.slots.lost(&listed) {
            self.leave_slot(slot, now);
            self.slots.remove(slot);
        }
        let wary = if membership.give.is_empty() { BTreeSet::new() } else { self.wary_of() };
        for slot in &membership.give {
            // Where the store does not tell the next holder, what the last one may have died of is tried here first.
            if self.slots.tells_next_holder(*slot) || !wary.contains(slot) {
                self.leave_slot(*slot, now);
            }
        }
        if gained {
            // Rows of the new slots may be anywhere; those in memory are known.
            self.read_all_again();
            self.lead_anew();
        }
        if let Some(list) = list {
            self.apply_groups(list, now);
        }
        self.wake |= membership.ready;
        self.nothing_at = (!membership.ready).then_some(asked);
        if let Some(ahead) = membership.next_due {
            self.hint_due(now + ahead);
        }
    }

    /// Slots of which something that their last holder may have died of has not been tried.
    fn wary_of(&self) -> BTreeSet<Slot> {
        let careful = self.careful.slots().chain(self.lines.careful_slots());
        let careful = careful.chain(self.groups.careful_slots()).chain(self.aside.careful_slots());
        careful.chain(self.slots.suspect()).collect()
    }

    /// Slots in quarantine in which nothing is left to be tried with care.
    pub(crate) fn trusted(&self) -> Vec<Slot> {
        let mut seen = self.slots.seen_through().peekable();
        if seen.peek().is_none() {
            return Vec::new();
        }
        let wary = self.wary_of();
        seen.filter(|slot| !wary.contains(slot)).collect()
    }

    /// Drains a slot: what is not out leaves memory, what is out is waited for.
    fn leave_slot(&mut self, slot: Slot, now: Instant) {
        if !self.slots.leave(slot) {
            return;
        }
        let mut dropped = self.lines.drop_slot(slot);
        dropped.extend(self.groups.drop_slot(slot));
        dropped.extend(self.careful.drop_slot(slot));
        for item in dropped {
            self.drop_item(item, now);
        }
        self.aside.drop_slot(slot);
        self.held.drop_slot(slot);
    }

    fn apply_groups(&mut self, list: HeldList, now: Instant) {
        self.groups_epoch = list.epoch;
        self.relisted();
        for key in self.groups.keys() {
            let in_list = list.groups.contains(&key);
            let Some(group) = self.groups.get_mut(&key) else {
                continue;
            };
            let unseen = match group.hold {
                Some(Hold::Blocking(None)) => true,
                Some(Hold::Blocking(Some(beat))) => self.beats <= beat,
                _ => false,
            };
            match (in_list, unseen) {
                (true, _) => group.hold = Some(Hold::Listed),
                (false, true) => {
                    // This list may be older than the block, or come after its end: the next one tells.
                    self.groups_epoch = -1;
                    continue;
                }
                (false, false) => {
                    // An event that was brought back stands before all that was seen of its group here.
                    if group.hold.take().is_some() {
                        group.miss(Seq::default());
                        for item in self.groups.unload(&key) {
                            self.drop_item(item, now);
                        }
                    }
                }
            }
            if in_list {
                for item in self.groups.unload(&key) {
                    self.drop_item(item, now);
                }
            }
            self.groups.place(&key, now);
        }
        let let_go = self.held.replace(list.groups);
        if let_go.is_empty() {
            return;
        }
        // They are not in memory. What a read under way shows of them may come behind an event that was brought back since.
        self.read_all_again();
        self.reads_from = self.rewinds;
        for (key, careful) in let_go {
            self.overtakes(&key);
            if let Some(slot) = careful {
                let group = self.groups.entry(&key, slot);
                group.careful = true;
                group.miss(Seq::default());
                self.groups.place(&key, now);
            }
        }
    }

    pub(super) fn read_all_again(&mut self) {
        self.cursor = Cursor::default();
        self.rewinds += 1;
        self.wake = true;
    }

    /// Drained slots wait to be given back, or this node has less than its share: the next beat should come soon.
    pub(crate) fn restless(&self, nodes: usize, slots: i16) -> bool {
        let due = match self.settings.part {
            Part::Share => slots.unsigned_abs() as usize / nodes.max(1),
            Part::OwnLane => 0,
        };
        self.slots.any_leaving() || self.slots.groups_held() < due
    }

    pub(crate) fn has_drained_slots(&self) -> bool {
        !self.slots.drained().is_empty()
    }
}
