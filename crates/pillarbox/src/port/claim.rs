//! Claiming rows under a lease.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::ByteLimits;
use crate::model::OwnerId;

/// The rows that a claim may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimFrom {
    /// Rows of the queue, lane −2.
    Queue,
    /// All other pending rows, for pollers that run without nodes.
    Events,
}

impl ClaimFrom {
    /// Chooses by the rows that may be claimed.
    #[must_use]
    pub fn either<T>(self, queue: T, events: T) -> T {
        match self {
            Self::Queue => queue,
            Self::Events => events,
        }
    }
}

/// A claim: finds due rows, oldest first, and locks them for one owner in one atomic step.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The rows that may be claimed.
    pub from: ClaimFrom,
    /// Only messages of these topics, compared byte by byte; empty means all topics. Ignored for events.
    pub topics: Arc<[String]>,
    /// The new owner.
    pub owner: OwnerId,
    /// How long the claim is valid without renewal.
    pub lease: Duration,
    /// The maximum number of results.
    pub rows: usize,
    /// The byte limits.
    pub bytes: ByteLimits,
    /// Skips rows younger than this.
    pub skip_recent: Duration,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Asks for the topics of due, unclaimed messages in the queue.
#[derive(Debug, Clone)]
pub struct DueTopics {
    /// Topics to skip.
    pub except: Arc<[String]>,
    /// The maximum number of results.
    pub limit: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Releases claims that expired too long ago; claims without an expiry, by the time they were made.
#[derive(Debug, Clone)]
pub struct Reap {
    /// The minimum time since the claim expired, or since it was made if it has no expiry.
    pub older_than: Duration,
    /// The maximum number of rows.
    pub rows: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}
