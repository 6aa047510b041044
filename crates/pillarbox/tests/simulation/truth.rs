//! Who really holds which slot, as the store has it: what nodes only believe.

use std::collections::BTreeMap;

use pillarbox::model::{EventId, GroupKey, Lane, NodeId, Record, Slot};
use pillarbox::port::{Admin, GroupState, Membership};

use crate::history::{Life, Member};

/// The store's own view of its members.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    holders: BTreeMap<Slot, NodeId>,
    members: BTreeMap<NodeId, Member>,
    lanes: BTreeMap<NodeId, Lane>,
}

impl Truth {
    /// A node has joined; which of its process's it is.
    pub(crate) fn joined(&mut self, life: Life, node: NodeId) -> Member {
        let era = self.members.values().filter(|member| member.life == life).count();
        let member = Member { life, era };
        self.members.insert(node, member);
        member
    }

    /// A join or heartbeat took effect; `living` are the members after it. Whether what the node holds has changed.
    pub(crate) fn renewed(&mut self, node: NodeId, membership: &Membership, living: &[NodeId]) -> bool {
        let before: Vec<Slot> =
            self.holders.iter().filter(|(_, holder)| **holder == node).map(|(slot, _)| *slot).collect();
        self.holders.retain(|_, holder| *holder != node && living.contains(holder));
        self.holders.extend(membership.held.iter().map(|held| (held.slot, node)));
        self.lanes.insert(node, membership.lane);
        !before.iter().eq(membership.held.iter().map(|held| &held.slot))
    }

    pub(crate) fn left(&mut self, node: NodeId) {
        self.holders.retain(|_, holder| *holder != node);
    }

    /// The member a node id stands for.
    pub(crate) fn member(&self, node: NodeId) -> Option<Member> {
        self.members.get(&node).copied()
    }

    /// The last member of a process.
    pub(crate) fn last_member(&self, life: Life) -> Option<Member> {
        self.members.values().filter(|member| member.life == life).max().copied()
    }

    /// Whether a process is the holder of a slot.
    pub(crate) fn holds(&self, life: Life, slot: Slot) -> bool {
        self.holders.get(&slot).and_then(|node| self.member(*node)).is_some_and(|member| member.life == life)
    }

    /// All lanes that were ever given out.
    pub(crate) fn lanes(&self) -> Vec<Lane> {
        self.lanes.values().copied().collect()
    }
}

/// The row of an event.
pub(crate) async fn row(admin: &dyn Admin, id: &EventId) -> Option<Record> {
    admin.show(id.clone()).await.expect("the memory store shows").map(|shown| shown.record)
}

/// Whether a group is blocked.
pub(crate) async fn is_blocked(admin: &dyn Admin, group: Option<&GroupKey>) -> bool {
    let held = admin.held(group.cloned().into_iter().collect()).await.expect("the memory store lists groups");
    held.iter().any(|held| held.state == GroupState::Blocked)
}
