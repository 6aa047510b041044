//! Joins: a member's state is authoritative, and the join counts each change of a member once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::state::State;
use super::stored::Stored;
use crate::model::{
    Continuation, Event, EventId, Headers, JoinId, JoinMember, JoinRecord, JoinStatus, JoinWait, Lane,
    NewRow, Placement, StepState,
};
use crate::port::{JoinAction, JoinChange, JoinChanged, JoinShown, ListJoins};

/// The tables of joins and their members.
#[derive(Debug, Clone, Default)]
pub(super) struct JoinTables {
    joins: BTreeMap<JoinId, JoinRecord>,
    members: BTreeMap<(JoinId, EventId), JoinMember>,
}

/// The continuation of an ended join, to be added to the queue.
#[derive(Debug)]
pub(super) struct Fired {
    message: EventId,
    continuation: Continuation,
    headers: Option<String>,
}

impl JoinTables {
    /// Changes one join. `step` returns the state of a message as a step, or `None` if it
    /// is not in the queue.
    pub(super) fn change(
        &mut self,
        request: &JoinChange,
        now: Timestamp,
        step: impl Fn(&EventId) -> Option<StepState>,
    ) -> (JoinChanged, Option<Fired>) {
        let id = &request.join;
        if let JoinAction::Start { grouping_key, expected, metadata } = &request.action {
            return (self.start(id, grouping_key.as_ref(), *expected, metadata.as_ref(), now), None);
        }
        let Some(join) = self.joins.get(id) else {
            return (JoinChanged::NoSuchJoin, None);
        };
        match &request.action {
            JoinAction::Report { message, state } => self.report(id, message, *state, now),
            JoinAction::Cancel { .. } if join.status == JoinStatus::Cancelled => {
                (JoinChanged::Unchanged, None)
            }
            JoinAction::Attach { messages } => self.attach(id, messages, now, step),
            _ if join.status != JoinStatus::Pending => (JoinChanged::Ended(join.status), None),
            JoinAction::Wait(_) if join.wait.is_some() => (JoinChanged::AlreadyWaiting, None),
            JoinAction::Wait(wait) => {
                self.update(id, now, |join| join.wait = Some(wait.clone()));
                (JoinChanged::Changed, self.fire(id, now))
            }
            JoinAction::Start { .. } | JoinAction::Cancel { .. } => {
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

    fn start(
        &mut self,
        id: &JoinId,
        grouping_key: Option<&String>,
        expected: u32,
        metadata: Option<&String>,
        now: Timestamp,
    ) -> JoinChanged {
        if self.joins.contains_key(id) {
            return JoinChanged::Unchanged;
        }
        let join = JoinRecord {
            id: id.clone(),
            grouping_key: grouping_key.cloned(),
            expected,
            attached: 0,
            completed: 0,
            failed: 0,
            status: JoinStatus::Pending,
            metadata: metadata.cloned(),
            wait: None,
            fired: None,
            created_at: now,
            updated_at: now,
        };
        self.joins.insert(id.clone(), join);
        JoinChanged::Changed
    }

    fn attach(
        &mut self,
        id: &JoinId,
        messages: &[EventId],
        now: Timestamp,
        step: impl Fn(&EventId) -> Option<StepState>,
    ) -> (JoinChanged, Option<Fired>) {
        let is_member = |message: &&EventId| self.members.contains_key(&(id.clone(), (*message).clone()));
        if messages.iter().all(|message| is_member(&message)) {
            return (JoinChanged::Unchanged, None);
        }
        let JoinRecord { status, expected, .. } = self.joins[id];
        if status != JoinStatus::Pending {
            return (JoinChanged::Ended(status), None);
        }
        let mut fresh = BTreeMap::new();
        for message in messages.iter().filter(|message| !is_member(message)) {
            match step(message) {
                Some(state) => fresh.insert(message.clone(), state),
                None => return (JoinChanged::NoSuchMessage(message.clone()), None),
            };
        }
        if self.joins[id].attached as usize + fresh.len() > expected as usize {
            return (JoinChanged::Full { expected }, None);
        }
        for (message, state) in fresh {
            let member = JoinMember { message: message.clone(), state, attached_at: now };
            self.members.insert((id.clone(), message), member);
            self.update(id, now, |join| join.attached += 1);
            self.count(id, state, now);
        }
        (JoinChanged::Changed, self.fire(id, now))
    }

    fn report(
        &mut self,
        id: &JoinId,
        message: &EventId,
        state: StepState,
        now: Timestamp,
    ) -> (JoinChanged, Option<Fired>) {
        let Some(member) = self.members.get_mut(&(id.clone(), message.clone())) else {
            return (JoinChanged::NotAMember, None);
        };
        if member.state != StepState::Pending || state == StepState::Pending {
            return (JoinChanged::Unchanged, None);
        }
        member.state = state;
        self.count(id, state, now);
        (JoinChanged::Changed, self.fire(id, now))
    }

    /// Counts ended messages in all joins of which they are pending members.
    ///
    /// Returns the continuations of joins that end by this, in the order of join ids.
    fn ended(&mut self, messages: &[(EventId, StepState)], now: Timestamp) -> Vec<Fired> {
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
        self.update(id, now, |join| match state {
            StepState::Pending => {}
            StepState::Completed => join.completed += 1,
            StepState::Failed => join.failed += 1,
        });
    }

    /// Ends a join if its last step has ended and its continuations are set.
    /// Returns the continuation, if any.
    fn fire(&mut self, id: &JoinId, now: Timestamp) -> Option<Fired> {
        let join = self.joins.get(id).filter(|join| join.status == JoinStatus::Pending)?;
        let status = join.verdict()?;
        let JoinWait { on_complete, on_fail, message, headers, .. } = join.wait.clone()?;
        let continuation = if status == JoinStatus::Completed { on_complete } else { on_fail };
        let fired = continuation.map(|continuation| Fired { message, continuation, headers });
        self.update(id, now, |join| {
            join.status = status;
            join.fired = fired.as_ref().map(|fired| fired.message.clone());
        });
        fired
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
    fn continue_with(&mut self, fired: impl IntoIterator<Item = Fired>, now: Timestamp) {
        for Fired { message, continuation, headers } in fired {
            if self.by_id.contains_key(&message) {
                continue;
            }
            let headers = headers.and_then(|json| Headers::from_stored(Some(&json)).ok()).unwrap_or_default();
            let event = Event::text(continuation.topic, continuation.payload);
            let event = event.headers(headers).occurred_at(now).build_from_row(message);
            let row = Stored::new(&NewRow { event, placement: Placement::Queue }, now);
            let seq = self.draw();
            self.add(seq, Box::new(row));
        }
    }
}
