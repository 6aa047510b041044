//! This engine's node: its identity in the store, its lease and its heartbeats.

use tokio::time::Instant;

use crate::model::{Lane, NodeId};
use crate::port::Fence;

/// What the engine knows of its node.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// Grows when the node is lost. Whatever began in an earlier incarnation is ignored.
    pub(crate) incarnation: u64,
    /// The right by which outcomes are settled.
    pub(crate) fence: Fence,
    pub(crate) lane: Option<Lane>,
    /// Nothing is begun after this; none where there is no node.
    pub(crate) lease_until: Option<Instant>,
    /// How many heartbeats were begun.
    pub(crate) heartbeats: u64,
    /// The answer to the last heartbeat was lost.
    pub(crate) unanswered: bool,
    /// The version of the last list of held groups; −1: the next heartbeat asks for a new one.
    pub(crate) groups_epoch: i64,
    /// How often a task ended by a panic.
    pub(crate) restarts: u64,
}

impl NodeState {
    pub(crate) fn none() -> Self {
        Self {
            incarnation: 0,
            fence: Fence::Open,
            lane: None,
            lease_until: None,
            heartbeats: 0,
            unanswered: false,
            groups_epoch: -1,
            restarts: 0,
        }
    }

    /// The node, while it is registered.
    pub(crate) fn id(&self) -> Option<NodeId> {
        match self.fence {
            Fence::Node(node) => self.lane.map(|_| node),
            Fence::Owner(_) | Fence::Open => None,
        }
    }

    pub(crate) fn has_lease(&self, now: Instant) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    /// Whether the lease has run out; false where none is needed.
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.lease_until.is_some_and(|until| now >= until)
    }
}
