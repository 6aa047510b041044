//! Joins: a member's state is authoritative, and the join counts each change of a member once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::state::State;
use super::stored::Stored;
use crate::model::{Counted, EventId, JoinId, JoinMember, JoinRecord, JoinStatus, Lane, NewRow, StepState};
use crate::port::{JoinAction, JoinChange, JoinChanged, JoinShown, ListJoins};
use crate::rules::{join_refusal, new_steps, report_refusal, started_join};

/// The tables of joins and their members.
#[derive(Debug, Clone, Default)]
pub(super) struct JoinTables {
    joins: BTreeMap<JoinId, JoinRecord>,
    members: BTreeMap<(JoinId, EventId), JoinMember>,
}

impl JoinTables {
    /// Changes one join. `step` returns the state of a message as a step, or `None` if it
    /// is not in the queue.
    pub(super) fn change(
        &mut self,
        request: &JoinChange,
        now: Timestamp,
        step: impl Fn(&EventId) -> Option<StepState>,
    ) -> (JoinChanged, Option<NewRow>) {
        let id = &request.join;
        if let Some(refused) = join_refusal(self.joins.get(id), &request.action) {
            return (refused, None);
        }
        match &request.action {
            JoinAction::Start { .. } => {
                self.joins.extend(started_join(request, now).map(|join| (id.clone(), join)));
                (JoinChanged::Changed, None)
            }
            JoinAction::Attach { messages } => self.attach(id, messages, now, step),
            JoinAction::Report { message, state } => self.report(id, message, *state, now),
            JoinAction::Wait(wait) => {
                self.update(id, now, |join| join.wait = Some(wait.clone()));
                (JoinChanged::Changed, self.fire(id, now))
            }
            JoinAction::Cancel { .. } => {
                self.update(id, now, |join| join.status = JoinStatus::Cancelled);
                (JoinChanged::Changed, None)
            }
        }
    }

    /// Steps of pending joins.
    pub(super) fn open_steps(&self) -> BTreeSet<EventId> {
        let open =
            |join: &JoinId| self.joins.get(join).is_some_and(|join| join.status == JoinStatus::Pending);
        self.members.keys().filter(|(join, _)| open(join)).map(|(_, step)| step.clone()).collect()
    }

    /// Messages that a change would newly attach.
    fn not_attached(&self, request: &JoinChange) -> Vec<EventId> {
        let JoinAction::Attach { messages } = &request.action else { return Vec::new() };
        let member = |message: &EventId| (request.join.clone(), message.clone());
        messages.iter().filter(|message| !self.members.contains_key(&member(message))).cloned().collect()
    }

    fn attach(
        &mut self,
        id: &JoinId,
        messages: &[EventId],
        now: Timestamp,
        step: impl Fn(&EventId) -> Option<StepState>,
    ) -> (JoinChanged, Option<NewRow>) {
        let is_member = |message: &EventId| self.members.contains_key(&(id.clone(), message.clone()));
        let Some(join) = self.joins.get(id) else { return (JoinChanged::NoSuchJoin, None) };
        let fresh = messages.iter().filter(|message| !is_member(message));
        let steps = match new_steps(join, fresh.map(|message| (message, step(message)))) {
            Ok(steps) => steps,
            Err(refused) => return (refused, None),
        };
        self.update(id, now, |join| join.count(Counted::attaching(steps.values().copied())));
        for (message, state) in steps {
            let member = JoinMember { message: message.clone(), state, attached_at: now };
            self.members.insert((id.clone(), message.clone()), member);
        }
        (JoinChanged::Changed, self.fire(id, now))
    }

    fn report(
        &mut self,
        id: &JoinId,
        message: &EventId,
        state: StepState,
        now: Timestamp,
    ) -> (JoinChanged, Option<NewRow>) {
        let member = self.members.get_mut(&(id.clone(), message.clone()));
        if let Some(refused) = report_refusal(member.as_ref().map(|member| member.state), state) {
            return (refused, None);
        }
        member.into_iter().for_each(|member| member.state = state);
        self.count(id, state, now);
        (JoinChanged::Changed, self.fire(id, now))
    }

    /// Counts ended messages in all joins of which they are pending members.
    ///
    /// Returns the continuations of joins that end by this, in the order of join ids.
    fn ended(&mut self, messages: &[(EventId, StepState)], now: Timestamp) -> Vec<NewRow> {
        let mut joins = BTreeSet::new();
        for (message, state) in messages {
            let pending = |one: &JoinMember| one.message == *message && one.state == StepState::Pending;
            let changed = self.members.iter_mut().filter(|(_, member)| pending(member));
            let changed: Vec<JoinId> = changed
                .map(|((join, _), member)| {
                    member.state = *state;
                    join.clone()
                })
                .collect();
            changed.iter().for_each(|join| self.count(join, *state, now));
            joins.extend(changed);
        }
        joins.iter().filter_map(|id| self.fire(id, now)).collect()
    }

    fn count(&mut self, id: &JoinId, state: StepState, now: Timestamp) {
        let mut counted = Counted::default();
        counted.add(state);
        self.update(id, now, |join| join.count(counted));
    }

    /// Ends a join if its last step has ended and its continuations are set. Returns the message to enqueue.
    fn fire(&mut self, id: &JoinId, now: Timestamp) -> Option<NewRow> {
        let join = self.joins.get_mut(id)?;
        if !join.end() {
            return None;
        }
        join.updated_at = now;
        join.continuation(now)
    }

    fn update(&mut self, id: &JoinId, now: Timestamp, change: impl FnOnce(&mut JoinRecord)) {
        if let Some(join) = self.joins.get_mut(id) {
            change(join);
            join.updated_at = now;
        }
    }

    pub(super) fn show(&self, id: &JoinId, limit: usize) -> Option<JoinShown> {
        let join = self.joins.get(id)?.clone();
        let members = self.members.iter().filter(|((join, _), _)| join == id);
        Some(JoinShown { join, members: members.map(|(_, member)| member.clone()).take(limit).collect() })
    }

    pub(super) fn list(&self, request: &ListJoins) -> Vec<JoinRecord> {
        let wanted = |join: &&JoinRecord| {
            request.grouping_key.as_ref().is_none_or(|key| join.grouping_key.as_ref() == Some(key))
                && request.status.is_none_or(|status| join.status == status)
        };
        let mut joins: Vec<&JoinRecord> = self.joins.values().filter(wanted).collect();
        joins.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        joins.into_iter().take(request.limit).cloned().collect()
    }

    /// Deletes at most `limit` joins that ended before a time, and their members.
    pub(super) fn purge(&mut self, before: Timestamp, limit: usize) {
        let old = |join: &&JoinRecord| join.status != JoinStatus::Pending && join.updated_at < before;
        let old: Vec<JoinId> =
            self.joins.values().filter(old).take(limit).map(|join| join.id.clone()).collect();
        for id in old {
            self.joins.remove(&id);
            self.members.retain(|(join, _), _| *join != id);
        }
    }
}

/// State of a row as a step of a join; `None` if it is not in the queue.
pub(super) fn step_of(row: &Stored) -> Option<StepState> {
    (row.lane == Some(Lane::QUEUE)).then(|| StepState::of(row.status))
}

impl State {
    pub(super) fn change_join(&mut self, request: &JoinChange, now: Timestamp) -> JoinChanged {
        let mut joins = std::mem::take(&mut self.joins);
        let step = |id: &EventId| self.find(id).and_then(|seq| step_of(&self.rows[&seq]));
        let fresh = joins.not_attached(request);
        let (changed, fired) = joins.change(request, now, step);
        self.joins = joins;
        if changed == JoinChanged::Changed {
            for seq in fresh.iter().filter_map(|id| self.find(id)).collect::<Vec<_>>() {
                self.change(seq, |row| row.joined = true);
            }
        }
        self.continue_with(fired, now);
        if let (JoinAction::Cancel { by }, JoinChanged::Changed) = (&request.action, &changed) {
            self.record(now, by, "cancel join", request.join.as_str());
        }
        changed
    }

    /// Updates the joins of messages that ended in one call: done, dead or cancelled.
    pub(super) fn steps_ended(
        &mut self,
        steps: impl IntoIterator<Item = (EventId, StepState)>,
        now: Timestamp,
    ) {
        let steps: Vec<_> = steps.into_iter().collect();
        let fired = self.joins.ended(&steps, now);
        self.continue_with(fired, now);
    }

    /// Adds the continuations of ended joins to the queue. One whose id exists was
    /// added before and is skipped.
    fn continue_with(&mut self, fired: impl IntoIterator<Item = NewRow>, now: Timestamp) {
        for row in fired {
            if self.by_id.contains_key(row.event.id()) {
                continue;
            }
            let seq = self.draw();
            self.add(seq, Box::new(Stored::new(&row, now)));
        }
    }
}
