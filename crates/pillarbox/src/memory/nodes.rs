//! Membership: registers, renews and evicts nodes, and distributes slots.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use super::state::{Holding, Node, State};
use super::time::{later, until};
use crate::model::{NodeId, Seq, Slot};
use crate::port::{GroupStates, Heartbeat, HeldGroups, HeldSlot, Membership, Quarantine, Register};
use crate::rules::{SlotState, free_lane, share};

impl State {
    /// Registers a node. Returns `None` and changes nothing if a live node has this id.
    pub(super) fn register(&mut self, request: &Register, now: Timestamp) -> Option<Membership> {
        if self.nodes.get(&request.node).is_some_and(|node| node.expires_at > now) {
            return None;
        }
        self.evict(now, None);
        let lane = free_lane(request.part, &self.slot_states());
        let expires_at = later(now, request.lease);
        let node = Node { label: request.label.clone(), lane, joined_at: now, expires_at, state: None };
        self.nodes.insert(request.node, node);
        let mut suspect = Vec::new();
        self.take(Slot(lane.0), request.node, &mut suspect);
        let give = self.take_share(request.node, &[], &mut suspect);
        Some(self.membership(request.node, give, &suspect, None, Seq(0), now))
    }

    pub(super) fn heartbeat(&mut self, request: &Heartbeat, now: Timestamp) -> Option<Membership> {
        self.nodes.get_mut(&request.node)?.expires_at = later(now, request.lease);
        self.evict(now, Some(request.node));
        self.trust(request.node, &request.trusted);
        self.release(request.node, &request.release);
        if request.sweep {
            for lane in self.index.lanes() {
                self.slots.entry(lane).or_default();
            }
        }
        let mut suspect = Vec::new();
        let give = self.take_share(request.node, &request.release, &mut suspect);
        let seen = Some(request.groups_seen);
        Some(self.membership(request.node, give, &suspect, seen, request.after, now))
    }

    pub(super) fn publish(&mut self, node: NodeId, state: String) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.state = Some(state);
        }
    }

    pub(super) fn leave(&mut self, node: NodeId) {
        if self.nodes.remove(&node).is_some() {
            self.free(node, |holding| holding.suspect = false);
        }
    }

    /// Evicts all expired nodes except the one that is renewing, and marks their slots as suspect.
    fn evict(&mut self, now: Timestamp, renewing: Option<NodeId>) {
        let expired =
            |(id, node): (&NodeId, &Node)| (node.expires_at <= now && Some(*id) != renewing).then_some(*id);
        let dead: Vec<NodeId> = self.nodes.iter().filter_map(expired).collect();
        // The evicted node cannot have read rows that were written later, so those are not suspect.
        let upto = Seq(self.highest_pending());
        for node in dead {
            self.nodes.remove(&node);
            self.free(node, |holding| {
                holding.suspect = true;
                let evictions = holding.quarantine.map_or(0, |quarantine| quarantine.evictions) + 1;
                holding.quarantine = Some(Quarantine { evictions, upto });
            });
        }
    }

    fn highest_pending(&self) -> i64 {
        let mut rows = self.rows.iter().rev();
        rows.find(|(_, row)| row.status.is_pending()).map_or(0, |(seq, _)| *seq)
    }

    fn free(&mut self, node: NodeId, mark: impl Fn(&mut Holding)) {
        for holding in self.slots.values_mut().filter(|holding| holding.holder == Some(node)) {
            holding.holder = None;
            mark(holding);
        }
    }

    fn trust(&mut self, node: NodeId, slots: &[Slot]) {
        for slot in slots {
            let holding = self.slots.get_mut(&slot.0).filter(|holding| holding.holder == Some(node));
            if let Some(holding) = holding {
                holding.quarantine = None;
            }
        }
    }

    fn release(&mut self, node: NodeId, slots: &[Slot]) {
        let own = self.nodes[&node].lane.slot();
        for slot in slots.iter().filter(|slot| **slot != own) {
            let Some(holding) = self.slots.get_mut(&slot.0).filter(|holding| holding.holder == Some(node))
            else {
                continue;
            };
            if slot.is_lane() {
                self.slots.remove(&slot.0);
            } else {
                (holding.holder, holding.suspect) = (None, false);
            }
        }
    }

    /// Takes free slots up to the node's share. Returns the slots that it should give up.
    fn take_share(&mut self, node: NodeId, released: &[Slot], suspect: &mut Vec<Slot>) -> Vec<Slot> {
        let mut nodes: Vec<_> =
            self.nodes.iter().map(|(id, node)| (node.joined_at, *id, node.lane)).collect();
        nodes.sort_unstable();
        let nodes = nodes.into_iter().map(|(_, id, lane)| (id, lane));
        let share = share(node, nodes, &self.slot_states());
        for slot in share.take.into_iter().filter(|slot| !released.contains(slot)) {
            self.take(slot, node, suspect);
        }
        share.give
    }

    fn take(&mut self, slot: Slot, node: NodeId, suspect: &mut Vec<Slot>) {
        let holding = self.slots.entry(slot.0).or_default();
        if holding.suspect {
            suspect.push(slot);
        }
        (holding.holder, holding.suspect) = (Some(node), false);
    }

    fn slot_states(&self) -> Vec<SlotState> {
        self.slots
            .iter()
            .map(|(slot, holding)| SlotState { slot: Slot(*slot), holder: holding.holder })
            .collect()
    }

    fn membership(
        &self,
        node: NodeId,
        give: Vec<Slot>,
        suspect: &[Slot],
        groups_seen: Option<i64>,
        after: Seq,
        now: Timestamp,
    ) -> Membership {
        let mine = self.slots.iter().filter(|(_, holding)| holding.holder == Some(node));
        let held: Vec<_> = mine
            .map(|(slot, holding)| HeldSlot {
                slot: Slot(*slot),
                suspect: suspect.contains(&Slot(*slot)),
                // A leader numbers rows itself, so a bound by sequence number means
                // nothing to the next leader.
                quarantine: holding.quarantine.filter(|_| !self.led),
            })
            .collect();
        let slots: Vec<RangeInclusive<i16>> = held.iter().map(|held| held.slot.0..=held.slot.0).collect();
        let first = self.index.rows(&slots, i64::MIN).next();
        Membership {
            lane: self.nodes[&node].lane,
            give,
            nodes: self.nodes.len(),
            groups: (groups_seen != Some(self.epoch))
                .then(|| GroupStates { epoch: self.epoch, held: self.held_groups(&HeldGroups::first()) }),
            ready: self.index.rows(&slots, after.0.saturating_add(1)).next().is_some(),
            next_due: self.index.next_due(Timestamp::MIN).map(|at| until(now, at)),
            oldest: first.map(|seq| self.rows[&seq].created_at),
            held,
            now,
        }
    }
}
