//! Claiming rows under a lease.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::ByteLimits;
use crate::model::OwnerId;

/// Which rows may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimFrom {
    /// Rows of the queue, lane −2.
    Queue,
    /// Every other pending row, for pollers that run without nodes.
    Events,
}

/// A claim: one atomic step that finds due rows and locks them to an owner, oldest first.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The rows that may be claimed.
    pub from: ClaimFrom,
    /// Only messages of these topics, compared by their bytes; none: of every topic. It has no meaning for events.
    pub topics: Arc<[String]>,
    /// The new owner.
    pub owner: OwnerId,
    /// How long the claim lasts without renewal.
    pub lease: Duration,
    /// The limit.
    pub rows: usize,
    /// How much is loaded.
    pub bytes: ByteLimits,
    /// Rows younger than this are left for later.
    pub skip_recent: Duration,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Which topics have messages in the queue that are due and that nobody has claimed.
#[derive(Debug, Clone)]
pub struct DueTopics {
    /// Topics to leave out.
    pub except: Arc<[String]>,
    /// The limit.
    pub limit: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Frees claims that have expired; where claims carry no end, claims that were made too long ago.
#[derive(Debug, Clone)]
pub struct Reap {
    /// Longer ago than this: since the end of the claim, or since it was made where it has none.
    pub older_than: Duration,
    /// The row limit.
    pub rows: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}
