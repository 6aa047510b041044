//! Membership: registering, heartbeats, taking and releasing slots; promoting delayed rows.

use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::Timestamp;

use super::{HeldGroup, Order};
use crate::model::{Lane, NodeId, Seq, Slot};

/// What a node reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// Its share of the slots, its own lane, and lanes of nodes that are gone.
    #[default]
    Share,
    /// Its own lane, which tells the others that it takes no share.
    OwnLane,
}

impl Part {
    /// The lanes that nodes with this part have.
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
    /// The new node; never one that was there before.
    pub node: NodeId,
    /// A label for people, such as host and process.
    pub label: String,
    /// What it reads.
    pub part: Part,
    /// How long it lives without a heartbeat.
    pub lease: Duration,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A heartbeat: renews a node's lease and names the slots that it releases.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The node that renews itself.
    pub node: NodeId,
    /// How long it lives from now.
    pub lease: Duration,
    /// Slots it holds in which nothing is quarantined any more.
    pub trusted: Vec<Slot>,
    /// Drained slots to release: a slot of groups becomes free, a lane that is not this node's own is dropped.
    pub release: Vec<Slot>,
    /// The epoch of the list of held groups that this node knows.
    pub groups_seen: i64,
    /// How far this node has read: `ready` is about rows beyond it.
    pub after: Seq,
    /// Whether to look for lanes that have rows and no holder, and to make them free to be taken.
    pub sweep: bool,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A slot a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldSlot {
    /// The slot or lane that is held.
    pub slot: Slot,
    /// Whether this call took it from a node that was evicted, and not from one that released it.
    pub suspect: bool,
    /// What is quarantined of it, from the eviction of a holder until a holder trusts it. None where rows have no numbers, and
    /// where an older release, which keeps no count, evicted the holder.
    pub quarantine: Option<Quarantine>,
}

/// The rows that evicted holders of a slot may have crashed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantine {
    /// How many holders were evicted since the slot was last trusted, from 1.
    pub evictions: u32,
    /// The highest pending number when the last holder was evicted. It can't have read later rows.
    pub upto: Seq,
}

/// What a node holds, and what it should know.
#[derive(Debug, Clone)]
pub struct Membership {
    /// Its own lane.
    pub lane: Lane,
    /// All slots it holds now: groups' slots, its own lane, adopted lanes.
    pub held: Vec<HeldSlot>,
    /// The slots that it should drain and release, because they are another node's share.
    pub give: Vec<Slot>,
    /// How many nodes are alive, itself included.
    pub nodes: usize,
    /// The first of the groups that are blocked or paused, if that changed since `groups_seen`.
    pub groups: Option<GroupStates>,
    /// Whether there are pending rows beyond `after` in what it holds.
    pub ready: bool,
    /// The time until the next delayed row is due; zero if one is due now.
    pub next_due: Option<Duration>,
    /// When the oldest pending row of what it holds was written.
    pub oldest: Option<Timestamp>,
    /// The database's now.
    pub now: Timestamp,
}

/// The groups that are held back: the first page of them, [`HeldGroups::first`](super::HeldGroups::first).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStates {
    /// The number of this state; grows with each change.
    pub epoch: i64,
    /// The groups, in the order of their keys; a full page may be followed by others.
    pub held: Vec<HeldGroup>,
}

/// Moves delayed rows that are due: each gets a new number, and a place in the node's lane or its group's slot.
#[derive(Debug, Clone)]
pub struct Promote {
    /// The node that promotes.
    pub node: NodeId,
    /// Its lane.
    pub lane: Lane,
    /// Per group: rows with a group go to its slot, the others to the lane.
    pub order: Order,
    /// The limit.
    pub rows: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// What a promotion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promoted {
    /// How many rows were moved.
    pub moved: usize,
    /// The time until the next delayed row is due; zero if more are due now: over the limit, or locked by others.
    pub next_due: Option<Duration>,
    /// Where more are due now, the time until the next one after these.
    pub later: Option<Duration>,
}
