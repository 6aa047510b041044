//! The port of tables of items, which belong to other programs and are taken by one node at a time.

use std::time::Duration;

use jiff::Timestamp;

use super::{ByteLimits, Order, StoreFuture, Table};
use crate::model::{EventId, GroupKey, NodeId, Row};

/// Takes the next pending rows of many groups, some of each, if the node is the leader.
///
/// Groups are ordered by key, byte by byte, unless the column has its own collation; a collation then applies
/// to `after` and `except` too. Rows of a group are ordered by the time of writing, then by id. Rows without
/// a group come before all groups, and only if `after` is `None`.
///
/// If the answer has fewer rows than `rows` and fewer bytes than the limit, no group remains after the last
/// one, except for groups whose first row is locked by another transaction.
#[derive(Debug, Clone)]
pub struct Take {
    /// The leader. Its row is share-locked until the rows are taken.
    pub node: NodeId,
    /// Only groups after this one; `None` starts at the first group.
    pub after: Option<GroupKey>,
    /// Groups to skip. The store itself skips blocked and paused groups, compared byte by byte.
    pub except: Vec<GroupKey>,
    /// The row limit, at most [`Take::MOST`].
    pub rows: usize,
    /// The byte limits. If they are reached, fewer rows are taken than are pending.
    pub bytes: ByteLimits,
    /// The maximum number of rows per group.
    pub each: usize,
    /// The maximum number of rows without a group.
    pub ungrouped: usize,
    /// Whether rows without a group keep their order, like the rows of one group. If not, a locked row does
    /// not hold up the others.
    pub ungrouped_order: Order,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

impl Take {
    /// The maximum number of rows that any store takes in one call.
    pub const MOST: usize = 10_000;
}

/// The result of a take.
#[derive(Debug, Clone)]
pub struct Taken {
    /// False if the node is no longer the leader; then nothing was taken.
    pub leads: bool,
    /// The taken rows; the time of the take is their token.
    pub rows: Vec<Row>,
}

/// Releases rows that were taken but not settled, if the node is the leader.
#[derive(Debug, Clone)]
pub struct Recover {
    /// The leader.
    pub node: NodeId,
    /// Only rows taken longer ago than this; zero means all.
    pub older_than: Duration,
    /// Rows to skip, because the leader has them in memory.
    pub except: Vec<EventId>,
    /// The maximum number of rows to release.
    pub rows: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A table of another program. Its rows have no sequence numbers, lanes or due times, and taking a row marks
/// it in the table.
///
/// It has one slot, whose holder is the leader. Only the leader takes rows.
pub trait ItemStore: Table {
    /// Takes rows. Never takes a row while an earlier row of its group is still pending and not taken with
    /// it, even if another transaction has locked the earlier row, as far as the database can tell.
    fn take(&self, request: Take) -> StoreFuture<'_, Taken>;

    /// Releases rows and returns how many; zero if the node is not the leader.
    fn recover(&self, request: Recover) -> StoreFuture<'_, u64>;
}
