//! Reading pending rows in order.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::{GroupKey, Row, Seq, Slot, SlotSet};

/// The position up to which a reader has read its slots. The reader keeps it in memory and passes it to each
/// read; it is never stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    /// All rows up to this number have been seen: no open transaction can still commit a row at or below it.
    pub decided: Seq,
    /// Numbers to which `decided` may rise once the transactions that were open at the time have ended.
    pub waiting: Vec<Horizon>,
    /// Identifies the origin of these numbers, such as one session. A cursor of another origin is stale,
    /// because numbers may have been reused. Zero if the store does not track it.
    pub origin: i64,
}

/// A number together with the transactions that may still commit rows below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Horizon {
    /// The number. It is read before the transactions are listed, so a transaction that begins later draws
    /// only higher numbers.
    pub upto: Seq,
    /// The transactions that held a write lock on the table at that time.
    pub open: Vec<u64>,
}

/// The rows to read.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Pending rows of these slots above the cursor, due or not, in order.
    Slots {
        /// The slots to read.
        slots: SlotSet,
        /// The position to start from.
        cursor: Cursor,
    },
    /// Pending rows of one group from a number on (inclusive), due or not, in order.
    Group {
        /// The slot of the group.
        slot: Slot,
        /// The key of the group.
        group: GroupKey,
        /// The position to start from.
        from: Seq,
    },
    /// All due pending rows outside of the queue, in order.
    Due,
}

/// The byte limits of a read, a claim or a take. The store enforces both and does not load more.
///
/// A row counts with the stored size of its texts, headers and payload, as in [`Row::bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteLimits {
    /// No further row is loaded once the rows before it reach this size. The first row is always loaded.
    pub total: usize,
    /// A larger row is returned without its contents, as a malformed row, and counts as zero.
    pub row: usize,
}

impl ByteLimits {
    /// No limit, for tests.
    pub const NONE: Self = Self { total: usize::MAX, row: usize::MAX };

    /// A limit for all rows together, without a limit per row.
    #[must_use]
    pub const fn of_total(total: usize) -> Self {
        Self { total, row: usize::MAX }
    }

    /// Whether this size leaves no room for another row.
    #[must_use]
    pub const fn reached_by(&self, bytes: usize) -> bool {
        bytes >= self.total
    }

    /// How many of the first rows with these sizes may be loaded.
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

    /// The size up to which the contents of this many rows can be loaded together before their sizes are
    /// known. A power of two, because it may be part of a statement's text and few different texts should
    /// result.
    #[must_use]
    pub fn at_once(&self, rows: usize) -> usize {
        const LEAST: usize = 4 * 1_024;
        const MOST: usize = 1 << 30;
        let each = (self.total / rows.max(1)).clamp(LEAST, MOST);
        (1 << each.ilog2()).min(self.row)
    }
}

/// A read of pending rows.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// The rows to read.
    pub scope: Scope,
    /// The maximum number of rows.
    pub rows: usize,
    /// The byte limits.
    pub bytes: ByteLimits,
    /// Skips rows younger than this; a read of slots stops at the first such row.
    pub skip_recent: Duration,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// The result of a read, from one snapshot.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// The cursor for the next read of slots. A read of a group that found rows sets only its origin; for [`Scope::Due`]
    /// it is the default.
    pub cursor: Cursor,
    /// Whether a limit ended the read, so that more rows may match.
    pub more: bool,
    /// The current time of the database.
    pub now: Timestamp,
}
