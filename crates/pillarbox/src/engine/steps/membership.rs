//! Membership: what a heartbeat asks and what its answer changes.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::engine::core::{Core, Phase};
use crate::engine::state::groups::Hold;
use crate::engine::state::held::HeldList;
use crate::engine::state::schedule::Reader;
use crate::model::{NodeId, Seq, Slot};
use crate::port::{Fence, Heartbeat, Membership, Part};

/// Every this many heartbeats, lanes are looked for that have rows and no holder.
const HEARTBEATS_PER_SWEEP: u64 = 12;
/// An adopted lane with nothing in it is released after this many heartbeats.
const HEARTBEATS_PER_LANE_CHECK: u64 = 24;

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
        self.node.fence = Fence::Node(node);
        self.node.unanswered = false;
        self.node.groups_epoch = -1;
        self.with_source(|source, core| source.begin(core, now));
        self.apply(membership, held, asked, now);
    }

    /// The node was evicted: nothing that it held is ours any more.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.node.incarnation += 1;
        self.node.lane = None;
        self.node.lease_until = Some(now);
        self.buffer.clear();
        self.groups.clear();
        self.quarantine.clear();
        self.in_flight.clear_held();
        self.aside.clear();
        self.held.drop_slots();
        self.leases.clear();
        self.slots.clear();
        self.settles.clear();
        self.reads.restart();
    }

    /// A task panicked and left its work half done: everything restarts. The node registers again under another id; rows that
    /// were claimed come back when their lease ends.
    pub(crate) fn restarted(&mut self, now: Instant) {
        self.node.restarts += 1;
        let needs_lease = self.node.lease_until.is_some();
        self.lost(now);
        if !needs_lease {
            self.node.lease_until = None;
        }
    }

    pub(crate) fn next_heartbeat(&mut self, node: NodeId, now: Instant) -> Heartbeat {
        self.node.heartbeats += 1;
        if self.node.heartbeats.is_multiple_of(HEARTBEATS_PER_LANE_CHECK)
            && let (Some(lane), true) = (self.node.lane, !self.reads.more && !self.reads.wake)
        {
            for slot in self.slots.idle_adopted(lane.slot()) {
                self.leave_slot(slot, now);
            }
        }
        Heartbeat {
            node,
            lease: self.settings.lease.length(),
            // What was given back at shutdown is in no list here, though it was not tried.
            trusted: if self.phase == Phase::Stopped { Vec::new() } else { self.trusted() },
            release: self.slots.drained(),
            groups_seen: self.node.groups_epoch,
            after: self.with_source(|source, core| source.position(core)),
            sweep: self.node.heartbeats % HEARTBEATS_PER_SWEEP == 1,
            now: None,
        }
    }

    /// The answer is lost, and with it whether slots that the heartbeat took were a dead node's.
    pub(crate) fn heartbeat_failed(&mut self) {
        self.node.unanswered = true;
        // What crashed may have taken done marks back with it: the reader looks, on a new connection.
        self.reads.heard_nothing();
    }

    /// The answer to a heartbeat that released these slots.
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
        self.node.lane = Some(membership.lane);
        self.renew_lease(asked + self.settings.lease.usable_for());
        if self.reads.reader == Reader::WithoutLease {
            self.reads.reader = Reader::Idle;
        }
        let ungrouped = self.settings.cold_rows;
        let mut gained = false;
        // A quarantine is told again; a leader's rows have none.
        let unsure = std::mem::take(&mut self.node.unanswered) && !self.reads.rereads;
        for held in &membership.held {
            let suspect = held.suspect || held.quarantine.is_some() || unsure;
            let upto = held.quarantine.map(|quarantine| quarantine.upto);
            gained |= self.slots.take(held.slot, suspect, upto, ungrouped);
            self.slots.quarantine(held.slot, held.quarantine);
        }
        self.quarantine.set_limit(self.slots.quarantined_at_once(self.settings.workers));
        let listed: BTreeSet<Slot> = membership.held.iter().map(|held| held.slot).collect();
        for slot in self.slots.lost(&listed) {
            self.leave_slot(slot, now);
            self.slots.remove(slot);
        }
        let quarantined = if membership.give.is_empty() { BTreeSet::new() } else { self.quarantined_slots() };
        for slot in &membership.give {
            // Where the store does not tell the next holder of a quarantine, quarantined events are tried here first.
            if self.slots.tells_next_holder(*slot) || !quarantined.contains(slot) {
                self.leave_slot(*slot, now);
            }
        }
        if gained {
            // Rows of the new slots may be anywhere; those in memory are known.
            self.with_source(|source, core| source.gained(core));
        }
        if let Some(list) = list {
            self.apply_groups(list, now);
        }
        self.reads.heard(membership.ready, asked);
        if let Some(ahead) = membership.next_due {
            self.reads.hint_due(now + ahead);
        }
    }

    /// Slots of which a quarantined event has not been tried.
    fn quarantined_slots(&self) -> BTreeSet<Slot> {
        let slots = self.quarantine.slots().chain(self.buffer.quarantined_slots());
        let slots = slots.chain(self.groups.quarantined_slots()).chain(self.aside.quarantined_slots());
        slots.chain(self.slots.suspect()).collect()
    }

    /// Slots in quarantine of which everything has been tried.
    pub(crate) fn trusted(&self) -> Vec<Slot> {
        let mut seen = self.slots.seen_through().peekable();
        if seen.peek().is_none() {
            return Vec::new();
        }
        let quarantined = self.quarantined_slots();
        seen.filter(|slot| !quarantined.contains(slot)).collect()
    }

    /// Drains a slot: what is not out leaves memory, what is out is waited for.
    fn leave_slot(&mut self, slot: Slot, now: Instant) {
        if !self.slots.leave(slot) {
            return;
        }
        let mut dropped = self.buffer.drop_slot(slot);
        dropped.extend(self.groups.drop_slot(slot));
        dropped.extend(self.quarantine.drop_slot(slot));
        for item in dropped {
            self.drop_item(item, now);
        }
        self.aside.drop_slot(slot);
        self.held.drop_slot(slot);
    }

    fn apply_groups(&mut self, list: HeldList, now: Instant) {
        self.node.groups_epoch = list.epoch;
        for key in self.groups.keys() {
            let in_list = list.groups.contains(&key);
            let Some(group) = self.groups.get_mut(&key) else {
                continue;
            };
            let unseen = match group.hold {
                Some(Hold::Blocking(None)) => true,
                Some(Hold::Blocking(Some(heartbeat))) => self.node.heartbeats <= heartbeat,
                _ => false,
            };
            match (in_list, unseen) {
                (true, _) => group.hold = Some(Hold::Listed),
                (false, true) => {
                    // This list may be older than the block, or come after its end: the next one tells.
                    self.node.groups_epoch = -1;
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
        let released = self.held.replace(list.groups);
        if released.is_empty() {
            return;
        }
        // They are not in memory. What a read under way shows of them may come behind an event that was brought back since.
        self.reads.reread_all();
        self.reads.discard_reads();
        for (key, quarantined) in released {
            self.groups.overtakes(&key);
            if let Some(slot) = quarantined {
                let group = self.groups.entry(&key, slot);
                group.quarantined = true;
                group.miss(Seq::default());
                self.groups.place(&key, now);
            }
        }
    }

    /// Whether the next heartbeat should come soon: drained slots are to be released, or this node has less than its share.
    pub(crate) fn wants_early_heartbeat(&self, nodes: usize, slots: i16) -> bool {
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
