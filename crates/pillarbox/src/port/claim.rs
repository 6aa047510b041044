//! Claiming rows under a lease.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::ByteLimits;
use crate::model::OwnerId;

/// Which rows may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimFrom {
    /// Those of the queue, lane −2.
    Queue,
    /// Every pending row but those of the queue, for pollers that run without nodes.
    Events,
}

/// A claim: one atomic step that finds due rows and locks them to an owner, oldest first.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Which rows.
    pub from: ClaimFrom,
    /// Only messages of these topics, compared by their bytes; none: of every topic. It has no meaning for events.
    pub topics: Arc<[String]>,
    /// For whom.
    pub owner: OwnerId,
    /// For how long.
    pub lease: Duration,
    /// At most so many.
    pub rows: usize,
    /// How much is loaded.
    pub bytes: ByteLimits,
    /// Rows younger than this are left for later.
    pub skip_recent: Duration,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}

/// Which topics have messages in the queue that are due and that nobody has claimed.
#[derive(Debug, Clone)]
pub struct DueTopics {
    /// But these.
    pub except: Arc<[String]>,
    /// At most so many.
    pub limit: usize,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}

/// Gives back claims that have run out; where claims carry no end, those that were made too long ago.
#[derive(Debug, Clone)]
pub struct Reap {
    /// Longer ago than this: since the end of the claim, or since it was made where it has none.
    pub older_than: Duration,
    /// At most so many rows.
    pub rows: usize,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}
