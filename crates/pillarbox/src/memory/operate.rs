//! Operator actions on rows: replay, discard, cancel and purge.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::state::State;
use super::stored::Stored;
use super::time::earlier;
use crate::model::{EventId, Lane, Status, StepState};
use crate::port::{Cancel, Discard, Purge, PurgeStatus, Replay, Select};
use crate::rules::{Move, transition};

impl State {
    pub(super) fn replay(&mut self, request: &Replay, now: Timestamp) -> u64 {
        let dead = self.matching(&request.select, Move::Replay, request.limit);
        for seq in &dead {
            let id = self.rows[seq].id.clone();
            if self.free_group_behind(&id) {
                self.change(*seq, |row| row.revive(now));
            } else {
                self.renumber(*seq, |row| {
                    row.revive(now);
                    row.lane = row.lane.filter(|lane| *lane == Lane::QUEUE);
                });
            }
            self.record(now, &request.by, "replay", id.as_str());
        }
        dead.len() as u64
    }

    pub(super) fn discard(&mut self, request: &Discard, now: Timestamp) -> u64 {
        let dead = self.matching(&request.select, Move::Discard, request.limit);
        for seq in &dead {
            let Some(row) = self.remove(*seq) else { continue };
            self.free_group_behind(&row.id);
            self.record(now, &request.by, "discard", row.id.as_str());
        }
        dead.len() as u64
    }

    pub(super) fn cancel(&mut self, request: &Cancel, now: Timestamp) -> Vec<EventId> {
        let (mut cancelled, mut ended) = (Vec::new(), Vec::new());
        for id in &request.ids {
            if self.may_cancel(id, now) {
                ended.extend(self.cancel_one(id));
                self.record(now, &request.by, "cancel", id.as_str());
                cancelled.push(id.clone());
            }
        }
        self.steps_ended(ended, now);
        cancelled
    }

    /// Whether the event exists, is pending, and is neither under a live claim nor taken by a leader.
    pub(super) fn may_cancel(&self, id: &EventId, now: Timestamp) -> bool {
        let row = self.find(id).map(|seq| &self.rows[&seq]);
        let taken = |row: &Stored| row.is_claimed(now) || (self.has_leader && row.lock.is_some());
        row.is_some_and(|row| transition(row.status, Move::Cancel).is_some() && !taken(row))
    }

    /// Deletes a pending event. If it is a step of a join, the step has failed and is returned.
    pub(super) fn cancel_one(&mut self, id: &EventId) -> Option<(EventId, StepState)> {
        let row = self.find(id).and_then(|seq| self.remove(seq))?;
        row.joined.then(|| (row.id.clone(), StepState::Failed))
    }

    pub(super) fn purge(&mut self, request: &Purge, now: Timestamp) -> u64 {
        let before = earlier(now, request.older_than);
        let old = |row: &Stored| match request.status {
            PurgeStatus::Done => row.status == Status::Done && row.ended_at() < before,
            PurgeStatus::Dead => row.status == Status::Dead && row.ended_at() < before,
            PurgeStatus::Any => row.created_at < before,
        };
        let (heads, steps) = (self.heads(), self.joins.open_steps());
        let kept = |row: &Stored| heads.contains(&row.id) || (row.joined && steps.contains(&row.id));
        let rows = self.rows.iter().filter(|(_, row)| old(row) && !kept(row)).map(|(seq, _)| *seq);
        let rows: Vec<i64> = rows.take(request.limit).collect();
        for seq in &rows {
            self.remove(*seq);
        }
        if request.status == PurgeStatus::Done {
            self.joins.purge(before, request.limit);
        }
        rows.len() as u64
    }

    /// Dead events behind which groups are blocked.
    fn heads(&self) -> BTreeSet<EventId> {
        self.groups.values().filter_map(|held| held.event.clone()).collect()
    }

    fn matching(&self, select: &Select, to: Move, limit: usize) -> Vec<i64> {
        let legal = |row: &Stored| transition(row.status, to).is_some();
        let rows = self.rows.iter().filter(|(_, row)| legal(row) && row.matches(select));
        rows.map(|(seq, _)| *seq).take(limit).collect()
    }
}

impl Stored {
    fn ended_at(&self) -> Timestamp {
        self.done_at.unwrap_or(self.created_at)
    }

    /// Whether the row matches all fields that are set in the selection.
    pub(super) fn matches(&self, select: &Select) -> bool {
        (select.ids.is_empty() || select.ids.contains(&self.id))
            && (select.statuses.is_empty() || select.statuses.contains(&self.status))
            && select.event_type.as_ref().is_none_or(|name| name == self.event_type())
            && select.aggregate_type.as_ref().is_none_or(|name| name == self.aggregate_type())
            && select.group.as_ref().is_none_or(|group| self.group.as_ref() == Some(group))
            && select.ended_before.is_none_or(|before| self.done_at.is_some_and(|at| at < before))
    }
}
