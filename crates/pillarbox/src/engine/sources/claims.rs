//! The claim source: rows of the queue that one owner claims, and whose leases it renews together.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Asked, Failed, Read, ReadResult, RowSource};
use crate::engine::core::{Core, GroupDuringSettle, Phase};
use crate::engine::state::claim_size::ClaimSize;
use crate::engine::state::item::Custody;
use crate::engine::state::leases::HeldLease;
use crate::engine::state::settle_queue::Unsettled;
use crate::engine::steps::admission::{Arrival, Suspicion};
use crate::engine::tasks::claimer::Sizing;
use crate::model::{EventId, Lane, Row};
use crate::port::{Claimed, Outcome, Settled};
use crate::rules::Lease;

/// How many claims one owner may hold whose outcomes are not settled, beside those in memory. With one, a claim waits
/// for the settle before it; more keep the server busy with both.
const UNSETTLED: usize = 3;
/// Number of rows that counts as one claim there, if more may be in memory.
const CLAIM: usize = 1_000;
/// How many times the allowed number of messages may be in memory after handlers have become slower.
const EXCESS: usize = 4;

/// A time of the database's clock and the local time at which it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) database: Timestamp,
    pub(crate) here: Instant,
}

impl Clock {
    /// Age of a timestamp when the clock was read.
    fn age_of(self, at: Timestamp) -> Duration {
        Duration::try_from(self.database.duration_since(at)).unwrap_or_default()
    }
}

/// Admits the rows that the claimer claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimSource {
    /// The last claim was limited by room, so the worker waits for a signal when there is room.
    wanted: bool,
    /// A row was released because an earlier outcome of it is unconfirmed; it can
    /// be claimed again after that.
    again: bool,
}

impl RowSource for ClaimSource {
    fn next(&mut self, core: &mut Core, now: Instant) -> Read {
        core.release_excess(now);
        let rows = claimable(core);
        self.wanted = rows < claim_at_room(core);
        if rows == 0 {
            return Read::Idle(None);
        }
        Read::Claim { rows, bytes: core.byte_limits(core.cold_room().1) }
    }

    /// Admits claimed rows. Rows that arrive during shutdown or are still in memory are released.
    fn merge(&mut self, core: &mut Core, answer: ReadResult, Asked { now, .. }: Asked) -> Vec<Outcome> {
        let (rows, clock, until) = match answer {
            ReadResult::Claimed { rows, clock, until } => (rows, clock, until),
            ReadResult::GaveBack => {
                self.again = core.phase == Phase::Running;
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        let back = |row: Row| HeldLease::of(&row, row.seq).give_back(row.id);
        if core.phase != Phase::Running {
            return rows.into_iter().map(back).collect();
        }
        // These rows may have been claimed before the last renewal, which did not include them.
        let until = core.claimed_until().map_or(until, |renewed| renewed.min(until));
        core.renew_lease(until);
        let mut given_back = Vec::new();
        for row in rows {
            // The row was claimed again before its last outcome was confirmed. Releasing it prevents a
            // concurrent second delivery, and no one has to wait for the lease to end.
            if let Some(row) = core.admit(arrival(row, clock, now), now) {
                given_back.push(back(row));
            }
        }
        given_back
    }

    fn failed(&mut self, _: &mut Core, _: Failed, _: Instant) {}

    /// Signals once when there is room again, or when a released row can be claimed again.
    fn wakes(&mut self, core: &mut Core) -> bool {
        let room = self.wanted && claimable(core) >= claim_at_room(core);
        self.wanted &= !room;
        // The released row may be the one being delivered or settled. Claiming earlier would claim and
        // release it in a loop.
        let again = self.again && core.workers.busy == 0 && core.all_settled();
        self.again &= !again;
        room || again
    }

    fn gained(&mut self, _: &mut Core) {}
}

fn arrival(row: Row, clock: Clock, now: Instant) -> Arrival {
    let claimed = Claimed { token: row.token, created_at: row.created_at };
    Arrival {
        custody: Custody::Claimed(Arc::new(claimed)),
        // The last claim expired, so the row may have crashed its process.
        suspicion: Suspicion::Of(row.lapsed),
        expires: row.expires_at.map(|at| Core::local(at, clock.database, clock.here)),
        age: Some((clock.age_of(row.created_at), clock.here)),
        ..Arrival::of(row, now)
    }
}

/// Number of rows that may be claimed now.
///
/// Claims with an unsettled outcome count too: claiming far ahead of slow settles would let leases expire.
fn claimable(core: &Core) -> usize {
    if core.phase != Phase::Running {
        return 0;
    }
    let size = core.claim_rows();
    let held = (size + UNSETTLED * size.min(CLAIM)).saturating_sub(core.leases.len());
    held.min(size.saturating_sub(core.buffer.cold_rows())).min(core.cold_room().0)
}

/// Minimum room for a claim. Waiting for a good part of a claim makes slow handlers cause few claims.
fn claim_at_room(core: &Core) -> usize {
    (core.claim_rows() / 2).max(1)
}

impl Core {
    /// Sets how many claimed messages may be in memory.
    pub(crate) fn size_claims(&mut self, sizing: Sizing, lease: Lease) {
        let max = self.settings.cold_rows;
        self.claim_size = match sizing {
            Sizing::Fixed => ClaimSize::fixed(max),
            Sizing::FollowsHandlers => ClaimSize::following_handlers(max, lease.length()),
        };
    }

    /// Number of claimed messages that may be in memory.
    pub(in crate::engine) fn claim_rows(&self) -> usize {
        self.claim_size.rows(self.settings.workers)
    }

    /// Releases messages that no worker has begun, if handlers have become so slow that others may handle them
    /// sooner. Does not count their attempts.
    fn release_excess(&mut self, now: Instant) {
        let excess = self.buffer.cold_rows().saturating_sub(EXCESS * self.claim_rows());
        for item in self.buffer.take_last(excess) {
            let change = item.release();
            self.settle_later(item, change, GroupDuringSettle::Continues, now);
        }
    }

    /// Merges the answer to a renewal of all leases. Returns the number of stale ones,
    /// which another owner holds now.
    pub(crate) fn extended(&mut self, outcomes: &[Outcome], settled: &Settled, until: Instant) -> usize {
        for place in &settled.stale {
            self.leases.end(&outcomes[*place].id, outcomes[*place].token);
        }
        self.renew_lease(until);
        settled.stale.len()
    }

    /// Outcomes that renew all held leases.
    pub(crate) fn extensions(&self, lease: Duration) -> Vec<Outcome> {
        self.leases.extensions(lease)
    }

    /// End of the time in which claimed rows may be processed.
    pub(crate) fn claimed_until(&self) -> Option<Instant> {
        self.node.lease_until.filter(|_| !self.leases.is_empty())
    }

    /// Releases every claim without an outcome, and does not count its attempt.
    pub(in crate::engine) fn release_claims(&mut self, now: Instant) {
        // A row whose attempt is being recorded is returned when the
        // record is confirmed; see `attempt_recorded`.
        let unsettled = self.settles.waiting().chain(self.quarantine.recording());
        let unsettled: Vec<EventId> = unsettled.cloned().collect();
        for outcome in self.leases.give_back_but(&unsettled) {
            self.push_unsettled(Unsettled { outcome, slot: Lane::QUEUE.slot(), group: None }, now);
        }
    }
}
