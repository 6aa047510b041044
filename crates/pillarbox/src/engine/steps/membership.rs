//! Membership: the contents of a heartbeat, and the changes that its answer makes.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::engine::core::{Core, Phase};
use crate::engine::state::groups::GroupHold;
use crate::engine::state::held::HeldList;
use crate::engine::state::schedule::Reader;
use crate::model::{NodeId, Seq, Slot};
use crate::port::{Fence, Heartbeat, Membership, ReadScope};

/// Every this many heartbeats, one searches for lanes that have rows and no holder.
const HEARTBEATS_PER_SWEEP: u64 = 12;
/// Every this many heartbeats, adopted lanes without rows in memory are released.
const HEARTBEATS_PER_LANE_CHECK: u64 = 24;

impl Core {
    /// Starts a newly registered node, with no events in memory.
    pub(crate) fn registered(
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

    /// Drops everything the node held after it was evicted: other nodes may deliver it now.
    ///
    /// The new incarnation makes the engine ignore the results of calls that are still in progress.
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

    /// Resets the state after a task panicked, since it may have left a change half done.
    ///
    /// The node registers again under another id. Claimed rows become claimable when their lease ends.
    pub(crate) fn restarted(&mut self, now: Instant) {
        self.node.restarts += 1;
        let needs_lease = self.node.lease_until.is_some();
        self.lost(now);
        if !needs_lease {
            self.node.lease_until = None;
        }
    }

    pub(crate) fn next_heartbeat(&mut self, node: NodeId, now: Instant) -> Heartbeat {
        self.check_recovery(now);
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
            // After `give_back`, untried quarantined events are in no list here, so
            // their slots would look trusted.
            trusted: if self.phase == Phase::Stopped { Vec::new() } else { self.trusted() },
            release: self.slots.drained(),
            groups_seen: self.node.groups_epoch,
            after: self.with_source(|source, core| source.position(core)),
            sweep: self.node.heartbeats % HEARTBEATS_PER_SWEEP == 1,
            now: None,
        }
    }

    /// Handles a failed heartbeat. It may have taken slots of an evicted node, and the answer
    /// that says so is lost.
    pub(crate) fn heartbeat_failed(&mut self) {
        self.node.unanswered = true;
        // A crash of the database may have undone settles, so the reader reads again on a new connection.
        self.reads.heard_nothing();
    }

    /// Merges the answer to a heartbeat that released these slots.
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
        // After a lost answer, slots taken by that heartbeat may be suspect. A store with slots repeats their
        // quarantine in each answer; a table of items does not.
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
            // If the store does not pass the quarantine on to the next holder, this node tries the
            // quarantined events before it gives the slot up.
            if self.slots.tells_next_holder(*slot) || !quarantined.contains(slot) {
                self.leave_slot(*slot, now);
            }
        }
        if gained {
            // Rows of the new slots can have any number. Reading from the start is safe, because
            // ids in flight are skipped.
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

    /// Slots with quarantined events that have not been tried.
    fn quarantined_slots(&self) -> BTreeSet<Slot> {
        let slots = self.quarantine.slots().chain(self.buffer.quarantined_slots());
        let slots = slots.chain(self.groups.quarantined_slots()).chain(self.aside.quarantined_slots());
        slots.chain(self.slots.suspect()).collect()
    }

    /// Slots in quarantine whose suspect events have all been read and tried.
    pub(crate) fn trusted(&self) -> Vec<Slot> {
        let mut seen = self.slots.seen_through().peekable();
        if seen.peek().is_none() {
            return Vec::new();
        }
        let quarantined = self.quarantined_slots();
        seen.filter(|slot| !quarantined.contains(slot)).collect()
    }

    /// Starts to drain a slot: queued events leave memory, and batches being delivered are awaited.
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
                Some(GroupHold::Blocking(None)) => true,
                Some(GroupHold::Blocking(Some(heartbeat))) => self.node.heartbeats <= heartbeat,
                _ => false,
            };
            match (in_list, unseen) {
                (true, _) => group.hold = Some(GroupHold::Listed),
                (false, true) => {
                    // The list may have been read before the block was stored, or after an operator ended it.
                    // The next list, read in full, decides.
                    self.node.groups_epoch = -1;
                    continue;
                }
                (false, false) => {
                    // A replayed event comes before all rows of the group in memory, so the group
                    // is read from its start.
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
        // Rows of released groups are not in memory. A read in progress may return rows that follow an event
        // replayed since, so its rows are discarded.
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

    /// Whether the next heartbeat should come early: slots are being handed over, or this node
    /// has less than its share.
    pub(crate) fn wants_early_heartbeat(&self, nodes: usize, slots: i16) -> bool {
        let due = match self.settings.reads {
            ReadScope::Share => slots.unsigned_abs() as usize / nodes.max(1),
            ReadScope::OwnLane => 0,
        };
        self.slots.any_leaving() || self.slots.groups_held() < due
    }

    pub(crate) fn has_drained_slots(&self) -> bool {
        !self.slots.drained().is_empty()
    }
}
