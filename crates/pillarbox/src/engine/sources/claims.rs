//! Claiming under a lease: rows of the queue, taken by one owner and renewed together.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Answer, Asked, Failed, Read, RowSource};
use crate::engine::core::{Core, Phase};
use crate::engine::state::item::Custody;
use crate::engine::state::leases::HeldLease;
use crate::engine::state::settle_queue::Unsettled;
use crate::engine::steps::admission::{Arrival, Suspicion};
use crate::model::{EventId, Lane, Row};
use crate::port::{Claimed, Outcome, Settled};

/// A moment of the database's clock on ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) database: Timestamp,
    pub(crate) here: Instant,
}

impl Clock {
    /// How old something was at that moment.
    fn age_of(self, at: Timestamp) -> Duration {
        Duration::try_from(self.database.duration_since(at)).unwrap_or_default()
    }
}

/// Takes in what the claimer claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimSource {
    /// Someone waits for room to claim more.
    wanted: bool,
    /// A row was given back because an outcome of it was still on its way; it can be claimed once that has arrived.
    again: bool,
}

impl RowSource for ClaimSource {
    fn next(&mut self, core: &mut Core, _: Instant) -> Read {
        let rows = claimable(core);
        self.wanted = rows < core.read_at_room();
        if rows == 0 {
            return Read::Idle(None);
        }
        Read::Claim { rows, bytes: core.byte_limits(core.cold_room().1) }
    }

    /// What comes after the end of intake, or is still in memory here, is given back.
    fn merge(&mut self, core: &mut Core, answer: Answer, Asked { now, .. }: Asked) -> Vec<Outcome> {
        let (rows, clock, until) = match answer {
            Answer::Claimed { rows, clock, until } => (rows, clock, until),
            Answer::GaveBack => {
                self.again = core.phase == Phase::Running;
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        let back = |row: Row| HeldLease::of(&row, row.seq).give_back(row.id);
        if core.phase != Phase::Running {
            return rows.into_iter().map(back).collect();
        }
        if core.leases.is_empty() {
            core.renew_lease(until);
        }
        let mut given_back = Vec::new();
        for row in rows {
            // Claimed again before the answer to its last outcome: never twice at once, and nobody waits for a lease to end.
            if let Some(row) = core.admit(arrival(row, clock, now), now) {
                given_back.push(back(row));
            }
        }
        given_back
    }

    fn failed(&mut self, _: &mut Core, _: Failed, _: Instant) {}

    /// Tells once that there is room again for someone who waits for it.
    fn wakes(&mut self, core: &mut Core) -> bool {
        let room = self.wanted && claimable(core) >= core.read_at_room();
        self.wanted &= !room;
        // What is out may be the very row that was given back: it would be claimed and given back without end.
        let again = self.again && core.workers.busy == 0 && core.all_settled();
        self.again &= !again;
        room || again
    }

    fn gained(&mut self, _: &mut Core) {}
}

fn arrival(row: Row, clock: Clock, now: Instant) -> Arrival {
    let claimed =
        Claimed { token: row.token, created_at: row.created_at, last_error: row.last_error.clone() };
    Arrival {
        custody: Custody::Claimed(Arc::new(claimed)),
        // The process that held it may have died of it.
        suspicion: Suspicion::Of(row.lapsed),
        expires: row.expires_at.map(|at| Core::local(at, clock.database, clock.here)),
        age: Some((clock.age_of(row.created_at), clock.here)),
        ..Arrival::of(row, now)
    }
}

/// How many more rows may be claimed. Claims whose outcome is not in the store yet are held too: claiming far ahead of slow settles
/// would let them run out.
fn claimable(core: &Core) -> usize {
    if core.phase != Phase::Running {
        return 0;
    }
    let held = (2 * core.settings.cold_rows).saturating_sub(core.leases.len());
    held.min(core.cold_room().0)
}

impl Core {
    /// The answer to a renewal of all leases: what is stale belongs to another owner now. How many those are.
    pub(crate) fn extended(&mut self, outcomes: &[Outcome], settled: &Settled, until: Instant) -> usize {
        for place in &settled.stale {
            self.leases.end(&outcomes[*place].id, outcomes[*place].token);
        }
        self.renew_lease(until);
        settled.stale.len()
    }

    /// What renews every lease that is held.
    pub(crate) fn extensions(&self, lease: Duration) -> Vec<Outcome> {
        self.leases.extensions(lease)
    }

    /// Until when claims may be worked on.
    pub(crate) fn claimed_until(&self) -> Option<Instant> {
        self.node.lease_until.filter(|_| !self.leases.is_empty())
    }

    /// Gives back every claim without an outcome, its attempt not counted.
    pub(in crate::engine) fn release_claims(&mut self, now: Instant) {
        // What is being recorded for a delivery from quarantine is given back when the record is confirmed.
        let unsettled = self.settles.waiting().chain(self.quarantine.recording());
        let unsettled: Vec<EventId> = unsettled.cloned().collect();
        for outcome in self.leases.give_back_but(&unsettled) {
            self.push_unsettled(Unsettled { outcome, slot: Lane::QUEUE.slot(), group: None }, now);
        }
    }
}
