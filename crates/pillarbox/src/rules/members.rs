//! Membership as a pure state machine: the registered nodes, and the slots and lanes that they hold.
//!
//! Stores that change membership with statements read a snapshot into this type, ask it what to do, and tell it what they
//! did. A store that keeps membership in one document makes every change here and writes the result.

use jiff::Timestamp;

use super::share::{Share, SlotState, free_lane, share};
use crate::model::{Lane, NodeId, Seq, Slot};
use crate::port::{GroupStates, HeldSlot, Membership, Quarantine, ReadScope};

/// A registered node, with whatever else a store keeps of it.
#[derive(Debug, Clone)]
pub struct Member<D = ()> {
    /// The node.
    pub id: NodeId,
    /// Its own lane.
    pub lane: Lane,
    /// When other nodes may evict it.
    pub expires_at: Timestamp,
    /// Details that membership does not depend on.
    pub details: D,
}

/// A slot or lane with its holder and its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRecord {
    /// The slot and its holder.
    pub state: SlotState,
    /// Whether the last holder was evicted and no node has taken the slot since.
    pub suspect: bool,
    /// Its quarantine since an eviction.
    pub quarantine: Option<Quarantine>,
}

impl SlotRecord {
    /// A slot as a store has it. Zero evictions mean that it has no quarantine.
    #[must_use]
    pub fn new(slot: Slot, holder: Option<NodeId>, suspect: bool, evictions: u32, upto: Seq) -> Self {
        let quarantine = (evictions > 0).then_some(Quarantine { evictions, upto });
        Self { state: SlotState { slot, holder }, suspect, quarantine }
    }

    /// A slot that nobody holds or has held.
    #[must_use]
    pub fn free(slot: Slot) -> Self {
        Self::new(slot, None, false, 0, Seq(0))
    }

    fn is_held_by(&self, node: NodeId) -> bool {
        self.state.holder == Some(node)
    }
}

/// Why a node is no longer registered.
#[derive(Debug, Clone, Copy)]
enum Removal {
    Left,
    /// With the highest pending number at that time, where rows have numbers.
    Evicted(Option<Seq>),
}

/// Nodes in order of registration, and slots in ascending order.
#[derive(Debug, Clone)]
pub struct Members<D = ()> {
    nodes: Vec<Member<D>>,
    slots: Vec<SlotRecord>,
    /// Suspect slots that were taken over since this value was read: taking them clears the flag in the store.
    taken_suspect: Vec<Slot>,
}

impl<D> Members<D> {
    /// A snapshot: nodes in order of registration, slots in ascending order.
    #[must_use]
    pub fn new(nodes: Vec<Member<D>>, slots: Vec<SlotRecord>) -> Self {
        Self { nodes, slots, taken_suspect: Vec::new() }
    }

    /// Forgets which suspect slots were taken over. For a store that keeps this value between calls.
    pub fn begin_call(&mut self) {
        self.taken_suspect.clear();
    }

    /// Replaces the snapshot by a newer one of the same call.
    #[must_use]
    pub fn reread(self, newer: Self) -> Self {
        Self { taken_suspect: self.taken_suspect, ..newer }
    }

    /// The registered nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Member<D>] {
        &self.nodes
    }

    /// The slots and lanes.
    #[must_use]
    pub fn slots(&self) -> &[SlotRecord] {
        &self.slots
    }

    /// A slot or lane, free if nobody holds or has held it.
    #[must_use]
    pub fn slot(&self, slot: Slot) -> SlotRecord {
        let found = self.slots.iter().find(|record| record.state.slot == slot);
        found.copied().unwrap_or_else(|| SlotRecord::free(slot))
    }

    /// A registered node.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Member<D>> {
        self.nodes.iter().find(|one| one.id == node)
    }

    /// A registered node, to change its lease or its details.
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Member<D>> {
        self.nodes.iter_mut().find(|one| one.id == node)
    }

    /// Whether a node is registered.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        self.get(node).is_some()
    }

    /// The slots that a node holds.
    pub fn held_by(&self, node: NodeId) -> impl Iterator<Item = &SlotRecord> {
        self.slots.iter().filter(move |record| record.is_held_by(node))
    }

    /// The expired nodes, without the one that is renewing its lease.
    #[must_use]
    pub fn expired(&self, now: Timestamp, renewing: Option<NodeId>) -> Vec<NodeId> {
        let expired = |node: &&Member<D>| node.expires_at <= now && Some(node.id) != renewing;
        self.nodes.iter().filter(expired).map(|node| node.id).collect()
    }

    /// The lane for a new node that reads these rows.
    #[must_use]
    pub fn free_lane(&self, reads: ReadScope) -> Lane {
        free_lane(reads, &self.states())
    }

    /// The lane of a node.
    #[must_use]
    pub fn lane_of(&self, node: NodeId) -> Lane {
        self.get(node).map_or(Lane::FIRST, |one| one.lane)
    }

    /// The free slots that a node should take, and the held slots that it should drain and release.
    ///
    /// `releasing` are slots that the same call releases: they are left to other nodes.
    #[must_use]
    pub fn share(&self, node: NodeId, releasing: &[Slot]) -> Share {
        let nodes = self.nodes.iter().map(|one| (one.id, one.lane));
        let mut share = share(node, nodes, &self.states());
        share.take.retain(|slot| !releasing.contains(slot));
        share
    }

    fn states(&self) -> Vec<SlotState> {
        self.slots.iter().map(|record| record.state).collect()
    }

    /// Registers a node. `registered_at` tells when a node was registered.
    pub fn add(&mut self, node: Member<D>, registered_at: impl Fn(&Member<D>) -> Timestamp) {
        self.nodes.push(node);
        self.nodes.sort_by_key(|node| (registered_at(node), node.id));
    }

    /// Renews a lease. Returns false if the node is not registered.
    pub fn renew(&mut self, node: NodeId, expires_at: Timestamp) -> bool {
        self.get_mut(node).map(|node| node.expires_at = expires_at).is_some()
    }

    /// Removes expired nodes and marks their slots suspect. Where rows have numbers, quarantines the rows up to `upto`.
    pub fn evict(&mut self, expired: &[NodeId], upto: Option<Seq>) {
        for node in expired {
            self.remove(*node, Removal::Evicted(upto));
        }
    }

    /// Removes a node that shuts down. Returns false if it is not registered.
    pub fn leave(&mut self, node: NodeId) -> bool {
        let is_there = self.has(node);
        self.remove(node, Removal::Left);
        is_there
    }

    fn remove(&mut self, node: NodeId, removal: Removal) {
        self.nodes.retain(|one| one.id != node);
        for record in self.slots.iter_mut().filter(|record| record.is_held_by(node)) {
            record.state.holder = None;
            record.suspect = matches!(removal, Removal::Evicted(_));
            if let Removal::Evicted(Some(upto)) = removal {
                let evictions = record.quarantine.map_or(0, |quarantine| quarantine.evictions) + 1;
                record.quarantine = Some(Quarantine { evictions, upto });
            }
        }
    }

    /// Ends the quarantine of these slots, as far as the node holds them.
    pub fn trust(&mut self, node: NodeId, slots: &[Slot]) {
        let trusted =
            |record: &&mut SlotRecord| record.is_held_by(node) && slots.contains(&record.state.slot);
        for record in self.slots.iter_mut().filter(trusted) {
            record.quarantine = None;
        }
    }

    /// Frees drained slots and drops drained lanes, as far as the node holds them. A node never releases its own lane.
    pub fn release(&mut self, node: NodeId, slots: &[Slot]) {
        let own = self.lane_of(node).slot();
        let drained = |record: &SlotRecord| {
            let slot = record.state.slot;
            record.is_held_by(node) && slot != own && slots.contains(&slot)
        };
        self.slots.retain(|record| !(drained(record) && record.state.slot.is_lane()));
        for record in self.slots.iter_mut().filter(|record| drained(record)) {
            record.state.holder = None;
            record.suspect = false;
        }
    }

    /// Adds lanes that have rows but no record, so that a node can take them.
    pub fn add_lanes(&mut self, lanes: &[Slot]) {
        for lane in lanes {
            self.record(*lane);
        }
    }

    fn record(&mut self, slot: Slot) -> &mut SlotRecord {
        let place = match self.slots.binary_search_by_key(&slot, |record| record.state.slot) {
            Ok(place) => place,
            Err(place) => {
                self.slots.insert(place, SlotRecord::free(slot));
                place
            }
        };
        &mut self.slots[place]
    }

    /// Gives slots to a node.
    pub fn take(&mut self, node: NodeId, slots: &[Slot]) {
        for slot in slots {
            let record = self.record(*slot);
            record.state.holder = Some(node);
            if std::mem::take(&mut record.suspect) {
                self.taken_suspect.push(*slot);
            }
        }
    }

    /// The membership of a node. Its pending rows are added by [`Membership::with_rows`].
    #[must_use]
    pub fn membership(
        &self,
        node: NodeId,
        give: Vec<Slot>,
        groups: Option<GroupStates>,
        now: Timestamp,
    ) -> Membership {
        let held = |record: &SlotRecord| {
            let slot = record.state.slot;
            HeldSlot { slot, suspect: self.taken_suspect.contains(&slot), quarantine: record.quarantine }
        };
        Membership {
            lane: self.lane_of(node),
            held: self.held_by(node).map(held).collect(),
            give,
            nodes: self.nodes.len(),
            groups,
            ready: false,
            next_due: None,
            oldest: None,
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u128) -> NodeId {
        NodeId::from_random(number)
    }

    fn member(number: u128, lane: i16, expires_at: Timestamp) -> Member {
        Member { id: node(number), lane: Lane(lane), expires_at, details: () }
    }

    fn two_slots() -> Members {
        let at = |second| Timestamp::from_second(second).unwrap();
        let slots = vec![SlotRecord::free(Slot(0)), SlotRecord::free(Slot(1))];
        let mut members = Members::new(vec![member(1, 64, at(10)), member(2, 65, at(20))], slots);
        members.take(node(1), &[Slot(0), Slot(1), Slot(64)]);
        members
    }

    /// PBX-011, PBX-063
    #[test]
    fn slots_of_an_evicted_node_are_suspect_once_and_quarantined_until_they_are_trusted() {
        let mut members = two_slots();
        let now = Timestamp::from_second(10).unwrap();
        assert_eq!(members.expired(now, None), [node(1)]);
        assert!(members.expired(now, Some(node(1))).is_empty(), "a node that renews is not evicted");
        members.evict(&[node(1)], Some(Seq(7)));
        assert!(!members.has(node(1)));
        members.take(node(2), &[Slot(0)]);
        let quarantine = Some(Quarantine { evictions: 1, upto: Seq(7) });
        let held = members.membership(node(2), Vec::new(), None, now).held;
        assert_eq!(held, [HeldSlot { slot: Slot(0), suspect: true, quarantine }]);
        let later = Members::new(members.nodes().to_vec(), members.slots().to_vec());
        let held = later.membership(node(2), Vec::new(), None, now).held;
        assert_eq!(held, [HeldSlot { slot: Slot(0), suspect: false, quarantine }], "it is told once");
        members.trust(node(1), &[Slot(0)]);
        assert_eq!(members.slots()[0].quarantine, quarantine, "only the holder trusts it");
        members.trust(node(2), &[Slot(0)]);
        assert_eq!(members.slots()[0].quarantine, None);
    }

    /// PBX-012
    #[test]
    fn a_release_frees_slots_drops_lanes_and_keeps_the_own_lane() {
        let mut members = two_slots();
        members.take(node(2), &[Slot(70)]);
        members.release(node(1), &[Slot(0), Slot(64), Slot(70)]);
        let slots: Vec<_> =
            members.slots().iter().map(|record| (record.state.slot.0, record.state.holder)).collect();
        let (first, second) = (Some(node(1)), Some(node(2)));
        assert_eq!(slots, [(0, None), (1, first), (64, first), (70, second)]);
        members.release(node(2), &[Slot(70)]);
        assert_eq!(members.slots().len(), 3, "a drained lane of a former node goes");
        assert!(members.share(node(2), &[Slot(0)]).take.is_empty(), "what a call releases is left to others");
    }
}
