//! Reporting outcomes, fenced.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::{EventId, GroupKey, NodeId, OwnerId, Seq, Token};

/// What proves the right to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fence {
    /// The node's row is there, locked until the settle is through. No expiry is tested.
    Node(NodeId),
    /// The row is claimed by this owner with this outcome's token.
    Owner(OwnerId),
    /// Nothing: whoever calls delivers alone (pollers and dispatchers used by themselves).
    Open,
}

/// What happens to a row that is done. Rows with a message id are always kept until purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDone {
    /// It stays until purge.
    #[default]
    Keep,
    /// It goes at once: fastest.
    ///
    /// A caller who repeats a commit of unknown outcome with the same event id may then write the event a second time: the first one may
    /// have been delivered and deleted meanwhile. [`Keep`](Self::Keep) refuses the second write until purge.
    Delete,
}

/// Whether the attempt is counted by this outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// One more.
    One,
    /// Nothing was tried, or it was counted before.
    None,
    /// A claim counted it, and it is taken back; nothing is added to the history.
    Back,
}

/// Where an event waits for its next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Where it is: at the head of its group, or claimable.
    InPlace,
    /// In lane −1, until someone promotes it.
    Delayed,
}

/// What is to change in a row. Every change but `Attempt` and `Extend` also ends a claim on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Delivered.
    Done,
    /// Failed: again after the delay, by the database's clock.
    Retry {
        /// How long to wait.
        delay: Duration,
        /// Why it failed.
        error: String,
        /// Whether this counts the attempt.
        counts: Counts,
        /// Where it waits.
        wait: Wait,
    },
    /// Given up.
    Dead {
        /// Why.
        error: String,
        /// Whether this counts an attempt.
        counts: Counts,
        /// The group that stays blocked behind it, until an operator acts.
        blocks: Option<GroupKey>,
    },
    /// Not due yet: to lane −1 until its `available_at`; nothing counted.
    Delay,
    /// About to be tried: counts the attempt, changes nothing else.
    Attempt,
    /// Given back untouched: a claim's attempt is taken back.
    Release,
    /// Given back untouched, and so is an attempt that was counted by `Attempt` before: it was not made after all.
    Untried,
    /// The claim goes on: it ends so long from now. Changes only rows that are claimed.
    Extend {
        /// How long.
        lease: Duration,
    },
}

/// An outcome of one row. Stores find the row by its number, and change it only if it has this id too: after a failover or
/// a restore a server gives numbers again. Where rows have no number they are found by their id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its number.
    pub seq: Seq,
    /// Its id.
    pub id: EventId,
    /// The token of its claim; zero without one.
    pub token: Token,
    /// What changes.
    pub change: Change,
}

/// A batch of outcomes, applied in one transaction.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The right to do so.
    pub fence: Fence,
    /// The outcomes, each row at most once.
    pub outcomes: Arc<[Outcome]>,
    /// What happens to rows that are done.
    pub on_done: OnDone,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}

/// What a settle did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// False: the node is gone; nothing was changed.
    pub held: bool,
    /// Places in `outcomes` that changed nothing: gone, not pending, claimed by someone else since, or another event's now.
    pub stale: Vec<usize>,
    /// A pending row of another event was found under the number of an outcome: numbers have been given again, and no
    /// position that was read before holds.
    pub reused: bool,
}
