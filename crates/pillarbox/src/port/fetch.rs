//! Reading pending rows in order.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::{GroupKey, Row, Seq, Slot, SlotSet};

/// How far a reader has got. Kept by the reader, given back with each read, never stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Every row up to here that will ever be seen has been seen.
    pub decided: Seq,
    /// Numbers that `decided` may rise to once the transactions that were open then have ended.
    pub waiting: Vec<Horizon>,
    /// Which server, and which start of it, gave these numbers, since another may give them again; zero: none said so.
    pub origin: i64,
}

/// A number, and the transactions that may still commit rows below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Horizon {
    /// The number, read before the transactions were listed.
    pub upto: Seq,
    /// The transactions that held a write lock on the table then.
    pub open: Vec<u64>,
}

/// The rows to read.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Pending rows of these slots above the cursor, whether due or not, in order.
    Slots {
        /// The slots.
        slots: SlotSet,
        /// Where to start.
        cursor: Cursor,
    },
    /// Pending rows of one group from a number on (itself included), whether due or not, in order.
    Group {
        /// Its slot.
        slot: Slot,
        /// The group.
        group: GroupKey,
        /// Where to start.
        from: Seq,
    },
    /// Every pending row that is due, but those of the queue, in order.
    Due,
}

/// How many bytes a read, a claim or a take may load. The store keeps both limits: what is beyond them is not loaded.
///
/// A row counts what its texts, headers and payload have as they are stored, as [`Row::bytes`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteLimits {
    /// No further row once the rows before it count this many; the first row always comes.
    pub total: usize,
    /// A row that has more comes without its contents, as one that can't be decoded, and counts nothing.
    pub row: usize,
}

impl ByteLimits {
    /// No limit, for tests.
    pub const NONE: Self = Self { total: usize::MAX, row: usize::MAX };

    /// A limit for all rows together, and none for a single one.
    #[must_use]
    pub const fn of_total(total: usize) -> Self {
        Self { total, row: usize::MAX }
    }

    /// Whether rows that count this much leave no room for another one.
    #[must_use]
    pub const fn reached_by(&self, bytes: usize) -> bool {
        bytes >= self.total
    }

    /// How many of the first rows may be loaded that have these sizes.
    #[must_use]
    pub fn fitting(&self, sizes: impl IntoIterator<Item = usize>) -> usize {
        let mut bytes = 0_usize;
        let fits = |size: &usize| {
            let first = bytes == 0;
            let room = first || !self.reached_by(bytes);
            bytes = bytes.saturating_add(Some(*size).filter(|size| *size <= self.row).unwrap_or_default());
            room
        };
        sizes.into_iter().take_while(fits).count()
    }

    /// The size up to which the contents of each of this many rows can be loaded together, before their sizes are known. A power
    /// of two, since it may be part of a statement's text.
    #[must_use]
    pub fn at_once(&self, rows: usize) -> usize {
        const LEAST: usize = 4 * 1_024;
        const MOST: usize = 1 << 30;
        let each = (self.total / rows.max(1)).clamp(LEAST, MOST);
        (1 << each.ilog2()).min(self.row)
    }
}

/// A read.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// The rows to read.
    pub scope: Scope,
    /// The row limit.
    pub rows: usize,
    /// How much is loaded.
    pub bytes: ByteLimits,
    /// Rows younger than this are left for later; the read of slots stops at the first such row.
    pub skip_recent: Duration,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// What a read saw, all in one snapshot.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The rows in order.
    pub rows: Vec<Row>,
    /// Where the next read of slots starts (reads of other scopes: the default).
    pub cursor: Cursor,
    /// Whether a limit cut the read short.
    pub more: bool,
    /// The database's now.
    pub now: Timestamp,
}
