//! Settlement: outcomes in batches, and what their confirmation frees.

use std::sync::Arc;

use tokio::time::Instant;

use super::core::{Core, Phase, Settler};
use super::groups::Hold;
use crate::model::{GroupKey, Slot};
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
}

impl Core {
    /// A batch if it is full, old enough, or if nothing else is going on.
    pub(crate) fn next_settle(&mut self, now: Instant) -> NextSettle {
        let Some(since) = self.settles_since else {
            self.settler = Settler::Idle;
            return NextSettle::Empty;
        };
        let flush_at = since + self.settings.settle_linger;
        let full = self.settles.len() >= self.settings.settle_rows;
        let waiting = !full && !self.calm() && self.careful.is_empty() && now < flush_at;
        if waiting && self.phase == Phase::Running {
            self.settler = Settler::Lingering;
            return NextSettle::Linger(flush_at);
        }
        self.settler = Settler::Busy;
        let count = self.settles.len().min(self.settings.settle_rows);
        let (outcomes, places): (Vec<_>, Vec<_>) = self
            .settles
            .drain(..count)
            .map(|unsettled| (unsettled.outcome, (unsettled.slot, unsettled.group)))
            .unzip();
        let batch = Batch { outcomes: outcomes.into(), places };
        self.settles_since = if self.settles.is_empty() { None } else { Some(now) };
        self.settling += count;
        NextSettle::Batch { fence: self.fence.clone(), batch, incarnation: self.incarnation }
    }

    /// The store's answer to a batch.
    pub(crate) fn settled(&mut self, batch: Batch, settled: &Settled, incarnation: u64, now: Instant) {
        if incarnation != self.incarnation {
            return;
        }
        self.settling = self.settling.saturating_sub(batch.outcomes.len());
        let mut stale = settled.stale.iter().copied().peekable();
        let outcomes = batch.outcomes.iter().zip(batch.places).enumerate();
        for (place, (outcome, (slot, group))) in outcomes {
            let changed = stale.next_if_eq(&place).is_none();
            self.tally.stale += u64::from(!changed);
            self.confirm(outcome, slot, group, changed, now);
        }
        self.read_moved();
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
                self.careful.written(&outcome.id);
            } else if let Some(item) = self.careful.gone(&outcome.id) {
                let group = item.group.clone();
                self.drop_item(&item);
                self.group_back(group.as_ref(), now);
            }
            return;
        }
        self.known.settled(&outcome.id);
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

    /// The block of a group is in the store; lists begun from the next beat on show it.
    fn note_blocked(&mut self, key: &GroupKey, changed: bool) {
        let beat = self.beats;
        if let Some(group) = self.groups.get_mut(key)
            && group.hold == Some(Hold::Blocking(None))
        {
            group.hold = Some(Hold::Blocking(Some(beat)));
        }
        if !changed {
            // Settled before by a call whose answer was lost, or the row is gone: the store's list tells which.
            self.groups_epoch = -1;
        }
    }
}
