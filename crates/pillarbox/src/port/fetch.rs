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

/// Which rows.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Pending rows of these slots above the cursor, whether due or not, in order.
    Slots {
        /// The slots.
        slots: SlotSet,
        /// From where.
        cursor: Cursor,
    },
    /// Pending rows of one group from a number on (itself included), whether due or not, in order.
    Group {
        /// Its slot.
        slot: Slot,
        /// The group.
        group: GroupKey,
        /// From where.
        from: Seq,
    },
    /// Every pending row that is due, but those of the queue, in order.
    Due,
}

/// A read.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// Which rows.
    pub scope: Scope,
    /// At most so many rows.
    pub rows: usize,
    /// No further row once so many bytes of payload were read; the first row always comes.
    pub bytes: usize,
    /// Rows younger than this are left for later; the read of slots stops at the first such row.
    pub skip_recent: Duration,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}

impl Fetch {
    /// A read of no slot: it tells the database's time, and nothing else.
    #[must_use]
    pub fn time() -> Self {
        let scope = Scope::Slots { slots: SlotSet::new([]), cursor: Cursor::default() };
        Self { scope, rows: 1, bytes: 1, skip_recent: Duration::ZERO, now: None }
    }
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
