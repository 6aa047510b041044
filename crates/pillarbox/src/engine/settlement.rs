//! Settlement: outcomes in batches, and what their confirmation frees.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::breaker::Outlook;
use super::busy::Tried;
use super::core::{Core, Phase, Settler, Unsettled};
use super::groups::Hold;
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
    fn new(taken: Vec<Unsettled>, tried: Tried) -> Self {
        let (outcomes, places): (Vec<_>, Vec<_>) =
            taken.into_iter().map(|unsettled| (unsettled.outcome, (unsettled.slot, unsettled.group))).unzip();
        Self { outcomes: outcomes.into(), places, tried }
    }
}

/// Takes out what comes behind an attempt at the same row: a store may settle the outcomes of one batch in any order.
fn each_row_once(taken: Vec<Unsettled>) -> (Vec<Unsettled>, Vec<Unsettled>) {
    if taken.iter().all(|one| one.outcome.change != Change::Attempt) {
        return (taken, Vec::new());
    }
    let mut named: HashSet<EventId> = HashSet::new();
    taken.into_iter().partition(|one| named.insert(one.outcome.id.clone()))
}

impl Core {
    /// When the outcomes that are there are to be settled, whether more have come or not; `None`: now.
    ///
    /// While jobs run, they wait for company. With nothing else going on they wait for nothing, unless a batch has
    /// just gone: then done marks, which nothing waits for, make up the next one, or a stream of lone events would be
    /// settled one by one.
    pub(super) fn settle_at(&self) -> Option<Instant> {
        let since = self.settles_since?;
        let full = self.settles.len() >= self.settings.settle_rows;
        if full || self.careful.writing().is_some() || self.phase != Phase::Running {
            return None;
        }
        let from = if self.calm() { self.settles_taken.filter(|_| !self.settles_press)? } else { since };
        Some(from + self.settings.settle_linger)
    }

    /// A batch if it is time for one.
    pub(crate) fn next_settle(&mut self, now: Instant) -> NextSettle {
        let again = self.busy.due(self.settings.settle_rows, now);
        if !again.is_empty() {
            return self.batch(again, Tried::Again);
        }
        if !self.notes.is_empty() {
            let notes = self.notes.take(self.settings.settle_rows);
            self.settling += notes.len();
            return self.batch(notes, Tried::First);
        }
        if self.settles_since.is_none() || self.settle_at().is_some_and(|until| now < until) {
            let Some(until) = self.settle_at().into_iter().chain(self.busy.at()).min() else {
                self.settler = Settler::Idle;
                return NextSettle::Empty;
            };
            self.settler = Settler::Lingering(until);
            return NextSettle::Linger(until);
        }
        let count = self.settles.len().min(self.settings.settle_rows);
        let (taken, behind) = each_row_once(self.settles.drain(..count).collect());
        let count = taken.len();
        behind.into_iter().rev().for_each(|unsettled| self.settles.push_front(unsettled));
        let taken = self.busy.keep_back(taken);
        self.settles_since = if self.settles.is_empty() { None } else { Some(now) };
        self.settles_press &= !self.settles.is_empty();
        self.settles_taken = Some(now);
        self.settling += count;
        self.batch(taken, Tried::First)
    }

    fn batch(&mut self, mut taken: Vec<Unsettled>, tried: Tried) -> NextSettle {
        self.settler = Settler::Busy;
        if matches!(self.fence, Fence::Owner(_)) {
            // Renewals go on beside it: both lock their rows in one order.
            taken.sort_by_key(|unsettled| unsettled.outcome.seq);
        }
        let batch = Batch::new(taken, tried);
        NextSettle::Batch { fence: self.fence.clone(), batch, incarnation: self.incarnation }
    }

    /// The store's answer to a batch.
    pub(crate) fn settled(&mut self, batch: Batch, settled: &Settled, incarnation: u64, now: Instant) {
        if incarnation != self.incarnation {
            return;
        }
        let ended = batch.outcomes.len().saturating_sub(settled.busy.len());
        self.settling = self.settling.saturating_sub(ended);
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
        self.busy.put(set_aside);
        let waits = self.busy.answered(batch.tried, ended, settled.busy.len(), now);
        self.tally.busy = waits.or(self.tally.busy);
        if settled.reused {
            // Rows that nobody has read may lie below the cursor.
            self.slots.suspect_any_number();
            self.read_all_again();
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
                return self.attempt_written(&outcome.id, now);
            }
            self.claims.end(&outcome.id, outcome.token);
            if let Some(item) = self.careful.gone(&outcome.id) {
                let group = item.group.clone();
                self.forget_item(&item);
                self.group_back(group.as_ref(), now);
            }
            return;
        }
        self.known.settled(&outcome.id);
        self.claims.end(&outcome.id, outcome.token);
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

    /// A careful delivery may begin, unless it is not to begin any more or its endpoint has failed meanwhile.
    fn attempt_written(&mut self, id: &EventId, now: Instant) {
        self.careful.written(id);
        self.claims.attempt_written(id);
        if self.phase == Phase::Stopped {
            for item in self.careful.give_back() {
                self.return_item(item, now);
            }
        } else if matches!(self.breaker.outlook(now), Outlook::Paused(_)) {
            self.set_all_aside(now);
        }
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
