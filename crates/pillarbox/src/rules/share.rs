//! Distribution of slots: even, contiguous shares of the shared slots, and orphaned lanes spread over the
//! registered nodes.

use crate::model::{Lane, NodeId, Slot};
use crate::port::ReadScope;

/// The number of shared slots.
pub const SLOTS: i16 = 64;

/// A slot or lane with its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotState {
    /// The slot or lane.
    pub slot: Slot,
    /// The holder, if there is one.
    pub holder: Option<NodeId>,
}

/// The slots that one node should take and release.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Free slots of this node's share, to take.
    pub take: Vec<Slot>,
    /// Held slots of another node's share, to drain and then release.
    pub give: Vec<Slot>,
}

/// Computes the share of `me`. `nodes` are the registered nodes with their lanes, in order of registration;
/// `slots` are all slots and lanes of the table.
///
/// Shared slots are assigned in contiguous ranges in that order. A lane stays with its holder; an orphaned
/// lane is assigned to one node. Nodes that read only their own lane get neither.
#[must_use]
pub fn share(me: NodeId, nodes: impl IntoIterator<Item = (NodeId, Lane)>, slots: &[SlotState]) -> Share {
    let sharing = |(node, lane): (NodeId, Lane)| (ReadScope::of(lane) == ReadScope::Share).then_some(node);
    let nodes: Vec<NodeId> = nodes.into_iter().filter_map(sharing).collect();
    let mut share = Share::default();
    let groups = slots.iter().filter(|state| !state.slot.is_lane()).count();
    let mut ordinal = 0;
    for state in slots {
        let due = if state.slot.is_lane() && state.holder.is_some() {
            state.holder
        } else if nodes.is_empty() {
            None
        } else if state.slot.is_lane() {
            Some(nodes[state.slot.0 as usize % nodes.len()])
        } else {
            ordinal += 1;
            Some(nodes[(ordinal - 1) * nodes.len() / groups])
        };
        match state.holder {
            None if due == Some(me) => share.take.push(state.slot),
            Some(holder) if holder == me && due != Some(me) => share.give.push(state.slot),
            _ => {}
        }
    }
    share
}

/// The lane for a new node: of the lanes for its part, the lowest one without a holder, else the lowest
/// number not in the table.
#[must_use]
pub fn free_lane(reads: ReadScope, slots: &[SlotState]) -> Lane {
    let lanes = reads.lanes();
    let holder = |lane: i16| slots.iter().find(|state| state.slot.0 == lane).map(|state| state.holder);
    let orphan = slots
        .iter()
        .filter(|state| lanes.contains(&state.slot.0) && state.holder.is_none())
        .map(|state| state.slot.0)
        .min();
    let unused = || lanes.clone().find(|&lane| holder(lane).is_none());
    Lane(orphan.or_else(unused).unwrap_or(*lanes.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u128) -> NodeId {
        NodeId::from_random(n)
    }

    fn table(holder: impl Fn(i16) -> Option<NodeId>) -> Vec<SlotState> {
        (0..SLOTS).map(|n| SlotState { slot: Slot(n), holder: holder(n) }).collect()
    }

    /// PBX-011
    #[test]
    fn shares_are_even_contiguous_and_cover_everything() {
        for count in 1..=70_u128 {
            let nodes: Vec<_> = (0..count).map(|n| (node(n), Lane::FIRST)).collect();
            let slots = table(|_| None);
            let mut all: Vec<Slot> = Vec::new();
            for (me, _) in &nodes {
                let take = share(*me, nodes.clone(), &slots).take;
                assert!(take.windows(2).all(|p| p[1].0 == p[0].0 + 1));
                assert!(take.len() >= 64 / count as usize && take.len() <= 64_usize.div_ceil(count as usize));
                all.extend(take);
            }
            all.sort_unstable();
            assert_eq!(all.len(), 64);
            all.dedup();
            assert_eq!(all.len(), 64);
        }
    }

    #[test]
    fn a_newcomer_is_given_its_share_by_those_who_hold_it() {
        let slots = table(|_| Some(node(1)));
        let nodes = [(node(1), Lane(64)), (node(2), Lane(65))];
        assert_eq!(share(node(1), nodes, &slots).give, (32..64).map(Slot).collect::<Vec<_>>());
        assert!(share(node(2), nodes, &slots).take.is_empty());
    }

    /// PBX-093
    #[test]
    fn a_node_that_reads_its_own_lane_only_has_no_share() {
        let alone = free_lane(ReadScope::OwnLane, &[]);
        let nodes = [(node(1), Lane(64)), (node(2), alone)];
        let lane = |slot, holder| SlotState { slot, holder };
        let mut slots = table(|_| None);
        slots.extend([lane(Slot(65), None), lane(alone.slot(), Some(node(2)))]);
        assert_eq!(share(node(2), nodes, &slots), Share::default());
        assert_eq!(share(node(1), nodes, &slots).take.len(), 65, "all slots and the lane that nobody holds");
        let none_reads = [(node(2), alone)];
        assert_eq!(share(node(2), none_reads, &slots), Share::default(), "its own lane stays its own");
    }

    /// PBX-093
    #[test]
    fn lanes_of_the_two_parts_are_never_mixed() {
        let orphan = |lane: Lane| SlotState { slot: lane.slot(), holder: None };
        let alone = free_lane(ReadScope::OwnLane, &[]);
        assert_eq!(free_lane(ReadScope::OwnLane, &[orphan(Lane(64)), orphan(alone)]), alone);
        assert_eq!(free_lane(ReadScope::Share, &[orphan(alone)]), Lane(64));
    }

    #[test]
    fn lanes_stay_with_their_holder_and_orphans_go_to_one_node() {
        let nodes = [(node(1), Lane(66)), (node(2), Lane(64))];
        let lane = |n, holder| SlotState { slot: Slot(n), holder };
        let slots = [lane(64, Some(node(2))), lane(65, None), lane(66, Some(node(1)))];
        assert_eq!(share(node(2), nodes, &slots), Share { take: vec![Slot(65)], give: vec![] });
        assert_eq!(share(node(1), nodes, &slots), Share::default());
        assert_eq!(free_lane(ReadScope::Share, &slots), Lane(65));
        assert_eq!(free_lane(ReadScope::Share, &slots[..1]), Lane(65));
        assert_eq!(free_lane(ReadScope::Share, &[]), Lane(64));
    }
}
