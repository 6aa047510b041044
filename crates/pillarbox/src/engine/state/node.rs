//! The engine's node: its identity in the store, its lease and its heartbeats.

use tokio::time::Instant;

use crate::model::{Lane, NodeId};
use crate::port::Fence;

/// The state of the engine's node.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// Increases when the node is lost. Results of calls begun in an earlier incarnation are ignored.
    pub(crate) incarnation: u64,
    /// Fence of settles.
    pub(crate) fence: Fence,
    pub(crate) lane: Option<Lane>,
    /// End of the lease: no delivery or read begins after it. `None` if no lease is needed.
    pub(crate) lease_until: Option<Instant>,
    /// Number of heartbeats begun.
    pub(crate) heartbeats: u64,
    /// Whether the answer to the last heartbeat was lost.
    pub(crate) unanswered: bool,
    /// Version of the last list of held groups; −1 makes the next heartbeat request the list.
    pub(crate) groups_epoch: i64,
    /// Number of tasks that panicked.
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

    /// Id of the node while it is registered.
    pub(crate) fn id(&self) -> Option<NodeId> {
        match self.fence {
            Fence::Node(node) => self.lane.map(|_| node),
            Fence::Owner(_) | Fence::Open => None,
        }
    }

    pub(crate) fn has_lease(&self, now: Instant) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    /// Whether the lease has expired; false if none is needed.
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.lease_until.is_some_and(|until| now >= until)
    }
}
