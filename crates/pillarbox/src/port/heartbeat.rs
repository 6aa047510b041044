//! Membership: registering, heartbeats, taking and releasing slots; promoting delayed rows.

use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;

use super::{HeldGroup, Order, StoreError};
use crate::model::{Lane, NodeId, Seq, Slot, SlotSet};

/// How long a heartbeat waits for the query for pending rows.
const LOOK: Duration = Duration::from_secs(2);

/// The rows that a node reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadScope {
    /// A share of the slots, its own lane, and the lanes of former nodes.
    #[default]
    Share,
    /// Only its own lane. The lane number tells other nodes that it takes no share.
    OwnLane,
}

impl ReadScope {
    /// The lane numbers of nodes with this part.
    #[must_use]
    pub const fn lanes(self) -> RangeInclusive<i16> {
        match self {
            Self::Share => Lane::FIRST.0..=Lane::FIRST_ALONE.0 - 1,
            Self::OwnLane => Lane::FIRST_ALONE.0..=i16::MAX,
        }
    }

    /// The part of the node that has this lane.
    #[must_use]
    pub const fn of(lane: Lane) -> Self {
        if lane.0 < Lane::FIRST_ALONE.0 { Self::Share } else { Self::OwnLane }
    }
}

/// Registers a node.
#[derive(Debug, Clone)]
pub struct Register {
    /// The id of the new node; never reused.
    pub node: NodeId,
    /// A label for operators, such as host and process.
    pub label: String,
    /// The rows that it reads.
    pub reads: ReadScope,
    /// How long the registration is valid without a heartbeat.
    pub lease: Duration,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A heartbeat: renews a node's lease and names the slots that it releases.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The node that renews its lease.
    pub node: NodeId,
    /// The new lease, from now.
    pub lease: Duration,
    /// Held slots whose quarantine has ended.
    pub trusted: Vec<Slot>,
    /// Drained slots to release: a shared slot becomes free, and the lane of another node is dropped.
    pub release: Vec<Slot>,
    /// The epoch of held groups that this node has read.
    pub groups_seen: i64,
    /// The number up to which this node has read. `ready` reports rows above it.
    pub after: Seq,
    /// Whether to look for lanes that have rows but no holder, so that nodes can take them.
    pub sweep: bool,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A slot held by a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldSlot {
    /// The slot or lane.
    pub slot: Slot,
    /// Whether this call took it over from an evicted node, rather than from one that released it.
    pub suspect: bool,
    /// Its quarantine, from the eviction of a holder until a holder trusts the slot. `None` if rows have no
    /// numbers, or if an older release, which keeps no count, evicted the holder.
    pub quarantine: Option<Quarantine>,
}

/// The rows on which evicted holders of a slot may have crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantine {
    /// The number of holders evicted since the slot was last trusted; at least 1.
    pub evictions: u32,
    /// The highest pending number when the last holder was evicted. That holder cannot have read later rows.
    pub upto: Seq,
}

/// The slots of a node and the state it needs to know.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The node's own lane.
    pub lane: Lane,
    /// All slots it holds: shared slots, its own lane, and adopted lanes.
    pub held: Vec<HeldSlot>,
    /// The slots to drain and release, because they belong to another node's share.
    pub give: Vec<Slot>,
    /// The number of registered nodes, including this one.
    pub nodes: usize,
    /// The first page of held groups, if they changed since `groups_seen`.
    pub groups: Option<GroupStates>,
    /// Whether its slots have pending rows above `after`.
    pub ready: bool,
    /// The time until the next delayed row is due; zero if one is due now.
    pub next_due: Option<Duration>,
    /// When the oldest pending row of its slots was written.
    pub oldest: Option<Timestamp>,
    /// The current time of the database.
    pub now: Timestamp,
}

/// The pending rows of a node's slots. Stores look for them after the heartbeat, so that a slow query cannot cost the node its
/// lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRows {
    /// Whether there are rows above the number up to which the node has read.
    pub ready: bool,
    /// When the oldest one was written.
    pub oldest: Option<Timestamp>,
    /// When the next delayed row is due.
    pub next_due: Option<Timestamp>,
}

impl Membership {
    /// Adds the pending rows that a query of these slots finds. If it fails or takes longer than two seconds, `ready` is set,
    /// so that the reader looks itself.
    pub async fn look<Q>(self, query: impl FnOnce(SlotSet) -> Q) -> Self
    where
        Q: Future<Output = Result<PendingRows, StoreError>>,
    {
        let slots = SlotSet::new(self.held.iter().map(|held| held.slot));
        match timeout(LOOK, query(slots)).await {
            Ok(Ok(rows)) => return self.with_rows(rows),
            Ok(Err(error)) => tracing::debug!(%error, "could not look for pending rows"),
            Err(_) => {}
        }
        Self { ready: true, ..self }
    }

    /// Adds the pending rows.
    #[must_use]
    pub fn with_rows(self, PendingRows { ready, oldest, next_due }: PendingRows) -> Self {
        let until = |due: Timestamp| Duration::try_from(due.duration_since(self.now)).unwrap_or_default();
        Self { ready, oldest, next_due: next_due.map(until), ..self }
    }
}

/// The first page of held groups, [`HeldGroups::first`](super::HeldGroups::first).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStates {
    /// The version of this state. It grows with each change.
    pub epoch: i64,
    /// The groups, ordered by key. More groups may follow a full page.
    pub held: Vec<HeldGroup>,
}

/// Moves due rows out of lane −1. Each gets a new number, and goes to the node's lane or to its group's slot.
#[derive(Debug, Clone)]
pub struct Promote {
    /// The node that promotes.
    pub node: NodeId,
    /// The lane of that node.
    pub lane: Lane,
    /// With `PerGroup`, rows with a group go to its slot; all others go to the lane.
    pub order: Order,
    /// The maximum number of rows to move.
    pub rows: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// The result of a promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promoted {
    /// The number of rows moved.
    pub moved: usize,
    /// The time until the next delayed row is due. Zero if more rows are due now, beyond the limit or locked
    /// by others.
    pub next_due: Option<Duration>,
    /// If more rows are due now, the time until the first one that is not.
    pub later: Option<Duration>,
}
