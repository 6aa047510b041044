//! Settlement: forms batches of outcomes, and applies their confirmation.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::engine::core::{Core, Phase};
use crate::engine::state::breaker::Outlook;
use crate::engine::state::busy::Tried;
use crate::engine::state::groups::GroupHold;
use crate::engine::state::settle_queue::{Due, Unsettled};
use crate::engine::tally::Notice;
use crate::model::{EventId, GroupKey, Slot};
use crate::port::{Change, Fence, Outcome, Settled};

/// Maximum number of outcomes of claims that wait for each other.
const ENOUGH_CLAIMS: usize = 500;

/// The outcome of a row that a caller claimed again while this one was being settled. It is settled under the new
/// claim, unless it was settled before that claim, which is then given back.
fn again(outcome: &Outcome, changed: bool) -> Outcome {
    let change = match &outcome.change {
        Change::Retry { counts, .. } if changed => Change::Release { attempts: counts.attempts() },
        change => change.clone(),
    };
    Outcome { change, ..outcome.clone() }
}

/// The next action of the settler.
#[derive(Debug)]
pub(crate) enum NextSettle {
    /// Settle this batch under this fence.
    Batch { fence: Fence, batch: Batch, incarnation: u64 },
    /// Wait for more outcomes, at most until this time.
    Linger(Instant),
    /// Wait for a signal: the second settler has a batch, and what waits may have to wait for its answer.
    Beside,
    /// Wait for a signal: nothing is to be settled.
    Empty,
}

/// Outcomes of one settle call, with the slot and group of each.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) outcomes: Arc<[Outcome]>,
    places: Vec<(Slot, Option<GroupKey>)>,
    tried: Tried,
    /// A time of the database before the first call that may have settled it, if an answer was lost.
    pub(crate) repeats: Option<Timestamp>,
}

impl Batch {
    fn new(Due { outcomes, tried, repeats }: Due) -> Self {
        let (outcomes, places): (Vec<_>, Vec<_>) = outcomes
            .into_iter()
            .map(|unsettled| (unsettled.outcome, (unsettled.slot, unsettled.group)))
            .unzip();
        Self { outcomes: outcomes.into(), places, tried, repeats }
    }
}

impl Core {
    /// Time at which the queued outcomes must be settled; `None` means now.
    ///
    /// While workers are busy, outcomes linger so that they are settled together. If the engine is idle they
    /// are settled immediately. The exception are done marks right after a batch, which nothing waits for:
    /// they linger, or a stream of single events would be settled one by one.
    pub(in crate::engine) fn settle_at(&self) -> Option<Instant> {
        let since = self.settles.lingers_since(self.settings.settle_rows)?;
        if self.quarantine.recording().is_some() || !self.is_running() {
            return None;
        }
        if matches!(self.node.fence, Fence::Owner(_)) && self.settles.queued() >= self.enough_claims() {
            return None;
        }
        let from = if self.is_idle() { self.settles.last_batch()? } else { since };
        Some(from + self.settings.settle_linger)
    }

    /// Number of outcomes of claims that are settled at once. Waiting for many more would be in vain: the next claim
    /// waits for these, or they cost no less in a larger batch.
    fn enough_claims(&self) -> usize {
        (self.claim_rows() / 2).clamp(1, ENOUGH_CLAIMS)
    }

    /// Returns a batch if one is due.
    pub(crate) fn next_settle(&mut self, now: Instant) -> NextSettle {
        let at = self.settle_at();
        match self.settles.next(at, self.settings.settle_rows, now) {
            Ok(mut due) => {
                if matches!(self.node.fence, Fence::Owner(_)) {
                    // Renewals run concurrently and lock rows in the order of their numbers. The
                    // same order here prevents deadlocks.
                    due.outcomes.sort_by_key(|unsettled| unsettled.outcome.seq);
                    for Unsettled { outcome, .. } in &mut due.outcomes {
                        outcome.token = self.leases.newer(outcome).unwrap_or(outcome.token);
                    }
                }
                self.batch(due)
            }
            Err(Some(until)) => NextSettle::Linger(until),
            Err(None) if self.settles.is_settled_beside() => NextSettle::Beside,
            Err(None) => NextSettle::Empty,
        }
    }

    /// Lets two batches be settled at once. Must be called before the first outcome.
    pub(crate) fn settle_two_at_once(&mut self) {
        self.settles.split();
    }

    /// Returns a batch for the second settler if there is enough for it.
    pub(crate) fn next_second_settle(&mut self, now: Instant) -> NextSettle {
        let due = self.settles.next_second(self.settings.settle_rows, now);
        due.map_or(NextSettle::Empty, |due| self.batch(due))
    }

    fn batch(&self, due: Due) -> NextSettle {
        let (fence, incarnation) = (self.node.fence.clone(), self.node.incarnation);
        NextSettle::Batch { fence, batch: Batch::new(due), incarnation }
    }

    /// Merges the store's answer to a batch.
    pub(crate) fn settled(&mut self, batch: Batch, settled: &Settled, incarnation: u64, now: Instant) {
        if incarnation != self.node.incarnation {
            return;
        }
        let confirmed = batch.outcomes.len().saturating_sub(settled.busy.len());
        let mut stale = settled.stale.iter().copied().peekable();
        let mut busy = settled.busy.iter().copied().peekable();
        let (mut set_aside, mut claimed_again) = (Vec::new(), Vec::new());
        let outcomes = batch.outcomes.iter().zip(batch.places).enumerate();
        for (place, (outcome, (slot, group))) in outcomes {
            if busy.next_if_eq(&place).is_some() {
                set_aside.push(Unsettled { outcome: outcome.clone(), slot, group });
                continue;
            }
            let changed = stale.next_if_eq(&place).is_none();
            // A stale note is normal: the event may have been settled or cancelled meanwhile.
            if matches!(outcome.change, Change::Waits { .. }) {
                self.slots.left(slot);
                continue;
            }
            if self.leases.newer(outcome).is_some() {
                claimed_again.push(Unsettled { outcome: again(outcome, changed), slot, group });
                continue;
            }
            self.tally.stale += u64::from(!changed);
            if batch.repeats.is_some() && !changed {
                self.read_refused(outcome, group.as_ref(), now);
            }
            self.confirm(outcome, slot, group, changed, now);
        }
        let waits = self.settles.answered(batch.tried, confirmed, set_aside, batch.repeats, now);
        self.tally.notices.extend(waits.map(Notice::Busy));
        claimed_again.into_iter().for_each(|unsettled| self.push_unsettled(unsettled, now));
        if settled.reused {
            // Sequence numbers were reused, so unread rows may lie below the cursor.
            self.slots.suspect_any_number();
            self.reads.reread_all();
        }
        self.reread_moved();
    }

    /// Reads the row of a refused failure again. A repeated settle refuses a row that became available lately,
    /// although the first call need not have settled it.
    fn read_refused(&mut self, outcome: &Outcome, group: Option<&GroupKey>, now: Instant) {
        let refusable = matches!(outcome.change, Change::Retry { .. } | Change::Dead { .. });
        if !refusable || !self.rereads() {
            return;
        }
        self.reads.reread_from(outcome.seq);
        self.reads.wake = true;
        let Some(key) = group else { return };
        if let Some(group) = self.groups.get_mut(key) {
            group.miss(outcome.seq);
            for other in self.groups.unload(key) {
                self.drop_item(other, now);
            }
        }
    }

    fn confirm(
        &mut self,
        outcome: &Outcome,
        slot: Slot,
        group: Option<GroupKey>,
        changed: bool,
        now: Instant,
    ) {
        if matches!(outcome.change, Change::Attempt { .. }) {
            if changed {
                return self.attempt_recorded(&outcome.id, now);
            }
            self.leases.end(&outcome.id, outcome.token);
            if let Some(item) = self.quarantine.gone(&outcome.id) {
                let group = item.group.clone();
                self.forget_item(&item);
                self.group_back(group.as_ref(), now);
            }
            return;
        }
        self.in_flight.settled(&outcome.id);
        self.leases.end(&outcome.id, outcome.token);
        self.slots.left(slot);
        let Some(key) = group else {
            return;
        };
        if let Some(group) = self.groups.get_mut(&key) {
            match outcome.change {
                Change::Dead { blocks: Some(_), .. } => self.note_blocked(&key, changed),
                _ => group.settling = group.settling.saturating_sub(1),
            }
        }
        self.groups.place(&key, now);
    }

    /// Makes a quarantined event ready to send once its attempt is recorded. If the engine has stopped or
    /// sending is paused, the event is returned instead.
    fn attempt_recorded(&mut self, id: &EventId, now: Instant) {
        self.quarantine.recorded(id);
        self.leases.attempt_recorded(id);
        if self.phase == Phase::Stopped {
            for item in self.quarantine.give_back() {
                self.return_item(item, now);
            }
        } else if matches!(self.breaker.outlook(now), Outlook::Paused(_)) {
            self.set_all_aside(now);
        }
    }

    /// Notes that the block of a group is stored. Lists of heartbeats that begin after this one include it.
    fn note_blocked(&mut self, key: &GroupKey, changed: bool) {
        let heartbeat = self.node.heartbeats;
        if let Some(group) = self.groups.get_mut(key)
            && group.hold == Some(GroupHold::Blocking(None))
        {
            group.hold = Some(GroupHold::Blocking(Some(heartbeat)));
        }
        if !changed {
            // Either an earlier call whose answer was lost settled it, or the row is gone. The store's list
            // decides, so the next heartbeat requests it.
            self.node.groups_epoch = -1;
        }
    }
}
