//! Row sources: the ways in which rows come into memory.
//!
//! A source decides what is asked of the store next and what an answer means. It owns what only its way of reading needs: a
//! cursor, a leader's term, the room for claims. The core owns the rest and never asks which source it has. What the core has to
//! tell a source it leaves in the read schedule: hints at new rows, and from where rows are to be read again that left memory.

mod claims;
mod leader;
mod slots;
mod sweep;

use std::fmt::Debug;

use tokio::time::Instant;

pub(crate) use claims::{ClaimSource, Clock};
pub(crate) use leader::LeaderSource;
pub(crate) use slots::SlotSource;

use super::core::Core;
use crate::model::{GroupKey, Lane, Row, Seq};
use crate::port::{ByteLimits, Fetch, Fetched, Outcome, Promoted, Recover, Take, Taken};

/// What is asked of the store next.
#[derive(Debug)]
pub(crate) enum Read {
    /// Read the slots.
    Slots { fetch: Fetch, version: u64 },
    /// Read one group from where it was left.
    Group { key: GroupKey, fetch: Fetch },
    /// Look for pending rows that the cursor has passed.
    Sweep(Fetch),
    /// Take rows as the leader.
    Take(Take),
    /// Release rows that were taken and that nobody has in memory any more.
    Recover(Recover),
    /// Move delayed rows that are due to this lane.
    Promote { lane: Lane, rows: usize },
    /// Claim up to this many rows.
    Claim { rows: usize, bytes: ByteLimits },
    /// Nothing before this time.
    Idle(Option<Instant>),
}

/// What the store answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Slots {
        fetched: Fetched,
        version: u64,
    },
    Group {
        key: GroupKey,
        fetched: Fetched,
    },
    Sweep(Fetched),
    Taken {
        take: Take,
        taken: Taken,
    },
    /// How many rows were released.
    Recovered(u64),
    Promoted(Promoted),
    /// Rows that were claimed, which may be worked on until then.
    Claimed {
        rows: Vec<Row>,
        clock: Clock,
        until: Instant,
    },
    /// What could not be taken in is free again.
    GaveBack,
}

/// A read that failed.
#[derive(Debug, Clone)]
pub(crate) enum Failed {
    Slots,
    Group(GroupKey),
    Sweep,
    Take,
    Recover,
    Promote,
}

/// The moments between which the store answered, on our clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) now: Instant,
}

/// A way in which rows come into memory.
pub(crate) trait RowSource: Debug + Send {
    /// What is asked of the store next. At most one read is under way at a time.
    fn next(&mut self, core: &mut Core, now: Instant) -> Read;

    /// Takes in an answer. Returns outcomes that give back, at once, what could not be taken in.
    fn merge(&mut self, core: &mut Core, answer: Answer, asked: Asked) -> Vec<Outcome>;

    /// A read failed: what it would have shown is still in the store.
    fn failed(&mut self, core: &mut Core, failed: Failed, now: Instant);

    /// Whether the reader should ask again. True only if `next` would then return something to do, or the two would chase each other.
    fn wakes(&mut self, core: &mut Core) -> bool;

    /// Slots came to this node: rows may be anywhere.
    fn gained(&mut self, core: &mut Core);

    /// The node registered: reading begins now.
    fn begin(&mut self, _core: &mut Core, _now: Instant) {}

    /// Up to which number every row is known to have been read.
    fn position(&mut self, _core: &mut Core) -> Seq {
        Seq::default()
    }

    /// Whether rows stay pending in the store while they are in memory, so that what leaves memory is read again.
    fn rereads(&self) -> bool {
        false
    }
}

/// Rows are handed in by others.
#[derive(Debug)]
pub(crate) struct NoSource;

impl RowSource for NoSource {
    fn next(&mut self, _: &mut Core, _: Instant) -> Read {
        Read::Idle(None)
    }

    fn merge(&mut self, _: &mut Core, _: Answer, _: Asked) -> Vec<Outcome> {
        Vec::new()
    }

    fn failed(&mut self, _: &mut Core, _: Failed, _: Instant) {}

    fn wakes(&mut self, _: &mut Core) -> bool {
        false
    }

    fn gained(&mut self, _: &mut Core) {}
}
