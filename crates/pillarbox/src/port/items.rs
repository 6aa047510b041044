//! The port of tables of other programs: their rows have no numbers, and one node at a time takes them.

use std::time::Duration;

use jiff::Timestamp;

use super::{Answer, ByteLimits, Order, Table};
use crate::model::{EventId, GroupKey, NodeId, Row};

/// Takes the next pending rows of many groups, some of each, if the node leads.
///
/// Groups come in the order of their keys: that of bytes, unless the column has a collation of its own, which then goes for
/// `after` and `except` too. Rows within one come by when they were written and id. Rows without a group come before all
/// groups, and only where `after` is none. Fewer than `rows`, and fewer bytes than the limit:
/// no group is left after the last one, but for such of which someone else has locked the first row.
#[derive(Debug, Clone)]
pub struct Take {
    /// The leader; its row is share-locked until the rows are taken.
    pub node: NodeId,
    /// Groups after this one in the order of groups; none: from the first one on.
    pub after: Option<GroupKey>,
    /// Groups to leave out. Blocked and paused groups the store leaves out itself, compared by bytes.
    pub except: Vec<GroupKey>,
    /// The row limit, at most [`Take::MOST`].
    pub rows: usize,
    /// How much is loaded. Rows that count as much as the limit may be fewer than there were.
    pub bytes: ByteLimits,
    /// The row limit of each group.
    pub each: usize,
    /// The limit of rows without a group.
    pub ungrouped: usize,
    /// Whether rows without a group keep their order like the rows of one group. Otherwise a locked row holds up no other.
    pub ungrouped_order: Order,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

impl Take {
    /// More rows than this no store takes in one call.
    pub const MOST: usize = 10_000;
}

/// What was taken.
#[derive(Debug, Clone)]
pub struct Taken {
    /// False: the node does not lead any more, and nothing was taken.
    pub leads: bool,
    /// The rows, with their claims as tokens.
    pub rows: Vec<Row>,
}

/// Releases rows that were taken and not settled, if the node leads.
#[derive(Debug, Clone)]
pub struct Recover {
    /// The leader.
    pub node: NodeId,
    /// Only rows that were taken longer ago than this; zero: all.
    pub older_than: Duration,
    /// Rows that the leader has in memory.
    pub except: Vec<EventId>,
    /// The limit.
    pub rows: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A table of another program: its rows have no numbers, lanes or due times, and are marked in the table when they are taken.
///
/// Its one slot is leadership: whoever holds it takes the rows.
pub trait ItemStore: Table {
    /// Takes rows. Never one that is behind a row of its group that is still pending, also where someone else has that one
    /// locked, as far as the database can tell.
    fn take(&self, request: Take) -> Answer<'_, Taken>;

    /// Releases rows, and returns how many; none if the node does not lead.
    fn recover(&self, request: Recover) -> Answer<'_, u64>;
}
