//! Membership: joining, renewing, taking and giving slots; promoting delayed rows.

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

/// A node joins.
#[derive(Debug, Clone)]
pub struct Join {
    /// The new node; never one that was there before.
    pub node: NodeId,
    /// A label for people, such as host and process.
    pub label: String,
    /// What it reads.
    pub part: Part,
    /// How long it lives without a beat.
    pub lease: Duration,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}

/// A node renews itself and says what it has let go of.
#[derive(Debug, Clone)]
pub struct Beat {
    /// The node that renews itself.
    pub node: NodeId,
    /// How long it lives from now.
    pub lease: Duration,
    /// Slots it holds in which nothing is quarantined any more.
    pub trusted: Vec<Slot>,
    /// Drained slots to give back: a group's slot becomes free, a lane that is not this node's own is dropped.
    pub release: Vec<Slot>,
    /// The state of groups this node knows, by its number.
    pub groups_seen: i64,
    /// How far this node has read: `ready` tells of rows beyond it.
    pub after: Seq,
    /// Look for rows in lanes that nobody holds, and make these lanes free to be taken.
    pub sweep: bool,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}

/// A slot a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldSlot {
    /// The slot or lane that is held.
    pub slot: Slot,
    /// Taken by this call from a node that was buried, not from one that handed it over.
    pub suspect: bool,
    /// How much of it is quarantined, from the burial of a holder until a holder trusts it. None where rows have no numbers, and
    /// where a release that keeps no count buried the holder.
    pub quarantine: Option<Quarantine>,
}

/// What the buried holders of a slot may have died of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantine {
    /// How many holders were buried since the slot was last trusted, from 1.
    pub burials: u32,
    /// The highest pending number when the last of them was: later rows it can't have read.
    pub upto: Seq,
}

/// What a node holds, and what it should know.
#[derive(Debug, Clone)]
pub struct Membership {
    /// Its own lane.
    pub lane: Lane,
    /// All slots it holds now: groups' slots, its own lane, adopted lanes.
    pub held: Vec<HeldSlot>,
    /// Those it should drain and release, because they are another's share.
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
    /// For which member.
    pub node: NodeId,
    /// Its lane.
    pub lane: Lane,
    /// Per group: rows with a group go to its slot, the others to the lane.
    pub order: Order,
    /// At most so many.
    pub rows: usize,
    /// A test's now; by default the database's.
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
