//! Settling: applies outcomes to rows under a fence.

use jiff::Timestamp;

use super::state::State;
use super::stored::Stored;
use super::time::{cut, later};
use crate::model::{Attempt, EventId, GroupKey, Status, StepState, held_reason, stored_error};
use crate::port::{Change, Counts, Fence, GroupState, HeldGroup, OnDone, Outcome, Settle, Settled, Wait};
use crate::rules::{Move, transition};

impl State {
    pub(super) fn settle(&mut self, request: &Settle, now: Timestamp) -> Settled {
        if let Fence::Node(node) = &request.fence
            && !self.members.has(*node)
        {
            return Settled::lost(request.outcomes.len());
        }
        let reused = self.reused(request);
        let (mut stale, mut ended) = (Vec::new(), Vec::new());
        for (place, outcome) in request.outcomes.iter().enumerate() {
            if self.may_settle(outcome, &request.fence) && !self.is_repeated(outcome, request) {
                ended.extend(self.apply(outcome, request, now));
            } else {
                stale.push(place);
            }
        }
        self.steps_ended(ended, now);
        Settled { reused, ..Settled::all_but(stale) }
    }

    /// Sequence number of the row. A leader numbers rows itself, so its rows are found by id.
    fn number_of(&self, outcome: &Outcome) -> Option<i64> {
        if self.has_leader { self.find(&outcome.id) } else { Some(outcome.seq.0) }
    }

    pub(super) fn may_settle(&self, outcome: &Outcome, fence: &Fence) -> bool {
        let row = self.number_of(outcome).and_then(|seq| self.rows.get(&seq));
        row.is_some_and(|row| row.id == outcome.id && may_change(row, outcome, fence, self.has_leader))
    }

    /// Whether the first call has settled this row, or an operator has replayed it since.
    fn is_repeated(&self, outcome: &Outcome, request: &Settle) -> bool {
        let fails = matches!(outcome.change, Change::Retry { .. } | Change::Dead { .. });
        let Some(since) = request.repeats.filter(|_| fails && !self.has_leader) else { return false };
        self.rows.get(&outcome.seq.0).is_some_and(|row| row.available_at >= cut(since))
    }

    /// Whether another pending event has the number of one of these outcomes, that is, numbers were reused.
    pub(super) fn reused(&self, request: &Settle) -> bool {
        let another = |outcome: &Outcome| {
            let row = self.rows.get(&outcome.seq.0);
            row.is_some_and(|row| row.id != outcome.id && row.status.is_pending())
        };
        !self.has_leader && request.outcomes.iter().any(another)
    }

    /// Applies an outcome to its row. Returns the join step that ends by this, if any.
    fn apply(&mut self, outcome: &Outcome, request: &Settle, now: Timestamp) -> Option<(EventId, StepState)> {
        let seq = self.number_of(outcome)?;
        match &outcome.change {
            Change::Done if request.on_done == OnDone::Delete && !self.is_kept(seq) => {
                self.remove(seq);
            }
            Change::Done => {
                self.change(seq, |row| row.end_by(Status::Done, &request.fence, now));
                return self.step(seq, StepState::Completed);
            }
            Change::Retry { delay, error, counts, wait } => self.change(seq, |row| {
                row.status = Status::Retry;
                row.available_at = later(now, *delay);
                row.unlock();
                if *wait == Wait::Delayed {
                    row.put_off();
                }
                fail(row, error, *counts);
                if counts.is_recorded() {
                    remember(row, &request.fence, now);
                }
            }),
            Change::Dead { error, counts, blocks } => {
                self.change(seq, |row| {
                    row.end_by(Status::Dead, &request.fence, now);
                    fail(row, error, *counts);
                    if counts.is_recorded() {
                        remember(row, &request.fence, now);
                    }
                });
                if let Some(group) = blocks {
                    self.block(group, outcome, error, now);
                }
                return self.step(seq, StepState::Failed);
            }
            Change::Delay => self.change(seq, |row| {
                row.put_off();
                row.unlock();
            }),
            Change::Attempt { attempts } => self.change(seq, |row| row.attempts = *attempts),
            Change::Waits { error } => self.change(seq, |row| row.last_error = Some(stored_error(error))),
            Change::Release { attempts } => self.change(seq, |row| {
                row.unlock();
                row.attempts = *attempts;
            }),
            Change::Extend { lease } => self.change(seq, |row| {
                if let Some(lock) = &mut row.lock {
                    lock.until = later(now, *lease);
                }
            }),
        }
        None
    }

    fn step(&self, seq: i64, state: StepState) -> Option<(EventId, StepState)> {
        let row = self.rows.get(&seq)?;
        row.joined.then(|| (row.id.clone(), state))
    }

    /// Whether a done row must be kept: for deduplication by message id, or as a step of a join.
    fn is_kept(&self, seq: i64) -> bool {
        let row = &self.rows[&seq];
        row.message_id().is_some() || row.joined
    }

    /// Blocks a group behind its dead event. A paused group stays paused, and is blocked when it is resumed.
    fn block(&mut self, group: &GroupKey, outcome: &Outcome, error: &str, now: Timestamp) {
        match self.groups.get_mut(group) {
            Some(held) if held.event.is_some() => return,
            Some(held) => held.event = Some(outcome.id.clone()),
            None => {
                let held = HeldGroup {
                    group: group.clone(),
                    state: GroupState::Blocked,
                    event: Some(outcome.id.clone()),
                    reason: Some(held_reason(error)),
                    by: "engine".to_owned(),
                    since: now,
                };
                self.groups.insert(group.clone(), held);
            }
        }
        self.epoch += 1;
    }
}

fn may_change(row: &Stored, outcome: &Outcome, fence: &Fence, has_leader: bool) -> bool {
    let legal = transition(row.status, move_of(&outcome.change)).is_some();
    let extends = matches!(outcome.change, Change::Extend { .. });
    legal
        && (!extends || row.lock.is_some())
        && match fence {
            Fence::Owner(owner) => {
                row.token == outcome.token
                    && row.lock.as_ref().is_some_and(|lock| *lock.by == *owner.as_str())
            }
            Fence::Node(_) | Fence::Open if has_leader => row.token == outcome.token && row.lock.is_some(),
            Fence::Node(_) | Fence::Open => true,
        }
}

fn move_of(change: &Change) -> Move {
    match change {
        Change::Done => Move::Done,
        Change::Retry { .. } => Move::Retry,
        Change::Dead { .. } => Move::Dead,
        Change::Delay
        | Change::Attempt { .. }
        | Change::Waits { .. }
        | Change::Release { .. }
        | Change::Extend { .. } => Move::Keep,
    }
}

fn fail(row: &mut Stored, error: &str, counts: Counts) {
    row.last_error = Some(stored_error(error));
    row.attempts = counts.attempts();
}

impl Stored {
    /// Marks the row as done or dead, and stores the owner of the claim.
    fn end_by(&mut self, status: Status, fence: &Fence, now: Timestamp) {
        self.end(status, now);
        if let Fence::Owner(owner) = fence {
            self.processed_by = Some(owner.to_string());
        }
    }
}

fn remember(row: &mut Stored, fence: &Fence, now: Timestamp) {
    let by = match fence {
        Fence::Node(node) => node.to_string(),
        Fence::Owner(owner) => owner.to_string(),
        Fence::Open => "-".to_owned(),
    };
    let error = row.last_error.clone().unwrap_or_default();
    row.history.push(Attempt { number: row.attempts, at: now, by, error });
}
