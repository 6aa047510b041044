//! Row sources: by slots, as a leader, or by claims.
//!
//! A source decides what to request from the store next and interprets the answer. It owns the state
//! of its way of reading: a cursor, a leader's term, or the room for claims. The core owns everything
//! else and never asks which source it has. The core passes wake-ups and reread positions to the
//! source through the read schedule.

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

/// The next request to the store.
#[derive(Debug)]
pub(crate) enum Read {
    /// Read pending rows of the slots.
    Slots { fetch: Fetch, version: u64 },
    /// Read one group from its first row that is not in memory.
    Group { key: GroupKey, fetch: Fetch },
    /// Search for pending rows that the cursor has passed.
    Sweep(Fetch),
    /// Take rows as the leader.
    Take(Take),
    /// Release taken rows that no process has in memory any more.
    Recover(Recover),
    /// Promote due rows out of lane −1; rows that keep no group order go to this lane.
    Promote { lane: Lane, rows: usize },
    /// Claim at most this many rows.
    Claim { rows: usize, bytes: ByteLimits },
    /// Nothing until this time, or until a wake-up.
    Idle(Option<Instant>),
}

/// The store's answer to a read.
#[derive(Debug)]
pub(crate) enum ReadResult {
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
    /// Number of released rows.
    Recovered(u64),
    Promoted(Promoted),
    /// Claimed rows, which may be processed until `until`.
    Claimed {
        rows: Vec<Row>,
        clock: Clock,
        until: Instant,
    },
    /// Claimed rows that could not be admitted are released.
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

/// Local times of the request and of the answer; the database's time of the answer lies between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) now: Instant,
}

/// A way in which rows come from the store into memory.
pub(crate) trait RowSource: Debug + Send {
    /// Decides the next request. At most one read is in progress at a time.
    fn next(&mut self, core: &mut Core, now: Instant) -> Read;

    /// Admits the rows of an answer. Returns outcomes that immediately release rows
    /// which could not be admitted.
    fn merge(&mut self, core: &mut Core, answer: ReadResult, asked: Asked) -> Vec<Outcome>;

    /// Handles a failed read. Its rows are still in the store and must be requested again.
    fn failed(&mut self, core: &mut Core, failed: Failed, now: Instant);

    /// Whether the reader should call `next` again. Must only be true if `next` then returns a request, or
    /// the reader would loop without pause.
    fn wakes(&mut self, core: &mut Core) -> bool;

    /// Handles new slots of this node: their pending rows may have any sequence number.
    fn gained(&mut self, core: &mut Core);

    /// Starts reading after the node has registered.
    fn begin(&mut self, _core: &mut Core, _now: Instant) {}

    /// Sequence number up to which all rows have been read.
    fn position(&mut self, _core: &mut Core) -> Seq {
        Seq::default()
    }

    /// Whether rows stay pending in the store while they are in memory, so that they can be read again.
    fn rereads(&self) -> bool {
        false
    }
}

/// The placeholder while the source is detached by [`Core::with_source`].
#[derive(Debug)]
pub(crate) struct NoSource;

impl RowSource for NoSource {
    fn next(&mut self, _: &mut Core, _: Instant) -> Read {
        Read::Idle(None)
    }

    fn merge(&mut self, _: &mut Core, _: ReadResult, _: Asked) -> Vec<Outcome> {
        Vec::new()
    }

    fn failed(&mut self, _: &mut Core, _: Failed, _: Instant) {}

    fn wakes(&mut self, _: &mut Core) -> bool {
        false
    }

    fn gained(&mut self, _: &mut Core) {}
}
