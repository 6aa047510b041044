//! Settlement: outcomes in batches, and what their confirmation frees.

use std::sync::Arc;

use tokio::time::Instant;

use crate::engine::core::{Core, Phase};
use crate::engine::state::breaker::Outlook;
use crate::engine::state::busy::Tried;
use crate::engine::state::groups::Hold;
use crate::engine::state::settle_queue::{Due, Unsettled};
use crate::model::{EventId, GroupKey, Slot};
use crate::port::{Change, Fence, Outcome, Settled};

/// What the settler does next.
#[derive(Debug)]
pub(crate) enum NextSettle {
    /// Settle these, by this right.
    Batch { fence: Fence, batch: Batch, incarnation: u64 },
    /// More may come: wait, at most until then.
    Linger(Instant),
    /// Nothing to settle.
    Empty,
}

/// Outcomes on their way to the store, and what each means in memory.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) outcomes: Arc<[Outcome]>,
    places: Vec<(Slot, Option<GroupKey>)>,
    tried: Tried,
}

impl Batch {
    fn new(Due { outcomes, tried }: Due) -> Self {
        let (outcomes, places): (Vec<_>, Vec<_>) = outcomes
            .into_iter()
            .map(|unsettled| (unsettled.outcome, (unsettled.slot, unsettled.group)))
            .unzip();
        Self { outcomes: outcomes.into(), places, tried }
    }
}

impl Core {
    /// When the outcomes that are there are to be settled, whether more have come or not; `None`: now.
    ///
    /// While workers are busy, outcomes wait for others to settle with. With nothing else going on they wait for nothing, unless a
    /// batch has just gone: then done marks, which nothing waits for, make up the next one, or a stream of lone events would be
    /// settled one by one.
    pub(in crate::engine) fn settle_at(&self) -> Option<Instant> {
        let since = self.settles.lingers_since(self.settings.settle_rows)?;
        if self.quarantine.recording().is_some() || !self.is_running() {
            return None;
        }
        let from = if self.is_idle() { self.settles.last_batch()? } else { since };
        Some(from + self.settings.settle_linger)
    }

    /// A batch if it is time for one.
    pub(crate) fn next_settle(&mut self, now: Instant) -> NextSettle {
        let at = self.settle_at();
        match self.settles.next(at, self.settings.settle_rows, now) {
            Ok(mut due) => {
                if matches!(self.node.fence, Fence::Owner(_)) {
                    // Renewals go on beside it: both lock their rows in one order.
                    due.outcomes.sort_by_key(|unsettled| unsettled.outcome.seq);
                }
                let (fence, incarnation) = (self.node.fence.clone(), self.node.incarnation);
                NextSettle::Batch { fence, batch: Batch::new(due), incarnation }
            }
            Err(Some(until)) => NextSettle::Linger(until),
            Err(None) => NextSettle::Empty,
        }
    }

    /// The store's answer to a batch.
    pub(crate) fn settled(&mut self, batch: Batch, settled: &Settled, incarnation: u64, now: Instant) {
        if incarnation != self.node.incarnation {
            return;
        }
        let confirmed = batch.outcomes.len().saturating_sub(settled.busy.len());
        let mut stale = settled.stale.iter().copied().peekable();
        let mut busy = settled.busy.iter().copied().peekable();
        let mut set_aside = Vec::new();
        let outcomes = batch.outcomes.iter().zip(batch.places).enumerate();
        for (place, (outcome, (slot, group))) in outcomes {
            if busy.next_if_eq(&place).is_some() {
                set_aside.push(Unsettled { outcome: outcome.clone(), slot, group });
                continue;
            }
            let changed = stale.next_if_eq(&place).is_none();
            // The event may have ended or been cancelled meanwhile.
            if matches!(outcome.change, Change::Waits { .. }) {
                self.slots.left(slot);
                continue;
            }
            self.tally.stale += u64::from(!changed);
            self.confirm(outcome, slot, group, changed, now);
        }
        let waits = self.settles.answered(batch.tried, confirmed, set_aside, now);
        self.tally.busy = waits.or(self.tally.busy);
        if settled.reused {
            // Rows that nobody has read may lie below the cursor.
            self.slots.suspect_any_number();
            self.reads.reread_all();
        }
        self.reread_moved();
    }

    fn confirm(
        &mut self,
        outcome: &Outcome,
        slot: Slot,
        group: Option<GroupKey>,
        changed: bool,
        now: Instant,
    ) {
        if outcome.change == Change::Attempt {
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

    /// A delivery from quarantine may begin, unless the engine has stopped or its endpoint has failed meanwhile.
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

    /// The block of a group is in the store; lists begun from the next heartbeat on show it.
    fn note_blocked(&mut self, key: &GroupKey, changed: bool) {
        let heartbeat = self.node.heartbeats;
        if let Some(group) = self.groups.get_mut(key)
            && group.hold == Some(Hold::Blocking(None))
        {
            group.hold = Some(Hold::Blocking(Some(heartbeat)));
        }
        if !changed {
            // Settled before by a call whose answer was lost, or the row is gone: the store's list tells which.
            self.node.groups_epoch = -1;
        }
    }
}
