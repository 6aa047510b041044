//! Groups that are held back, and letting them go.

use jiff::Timestamp;

use super::state::State;
use crate::model::{EventId, GroupKey, Status};
use crate::port::{GroupAction, GroupChange, GroupState, HeldGroup};

impl State {
    pub(super) fn change_group(&mut self, request: &GroupChange, now: Timestamp) -> bool {
        let held = self.groups.remove(&request.group);
        let event = held.as_ref().and_then(|held| held.event.clone());
        let state = held.as_ref().map(|held| held.state);
        let next = match (request.action, state) {
            (GroupAction::Pause, None | Some(GroupState::Blocked)) => Some(GroupState::Paused),
            (GroupAction::Resume, Some(GroupState::Paused)) => event.as_ref().map(|_| GroupState::Blocked),
            (GroupAction::Unblock | GroupAction::Skip, Some(GroupState::Blocked)) => None,
            _ => {
                self.groups.extend(held.map(|held| (request.group.clone(), held)));
                return false;
            }
        };
        if request.action == GroupAction::Unblock {
            self.revive_in_place(event.as_ref(), now);
        }
        if let Some(state) = next {
            let held = HeldGroup {
                group: request.group.clone(),
                state,
                event,
                reason: request.reason.clone(),
                by: request.by.clone(),
                since: now,
            };
            self.groups.insert(request.group.clone(), held);
        }
        self.epoch += 1;
        self.record(now, &request.by, action_name(request.action), request.group.as_str());
        true
    }

    fn revive_in_place(&mut self, event: Option<&EventId>, now: Timestamp) {
        let Some(seq) = event.and_then(|id| self.find(id)) else { return };
        if self.rows[&seq].status == Status::Dead {
            self.change(seq, |row| row.revive(now));
        }
    }

    /// Lets the group go that stands behind this event; false if none does. A paused one stays paused.
    pub(super) fn free_group_behind(&mut self, event: &EventId) -> bool {
        let behind = |held: &&mut HeldGroup| held.event.as_ref() == Some(event);
        let Some(held) = self.groups.values_mut().find(behind) else { return false };
        held.event = None;
        if held.state == GroupState::Blocked {
            let group: GroupKey = held.group.clone();
            self.groups.remove(&group);
        }
        self.epoch += 1;
        true
    }
}

fn action_name(action: GroupAction) -> &'static str {
    match action {
        GroupAction::Pause => "pause",
        GroupAction::Resume => "resume",
        GroupAction::Unblock => "unblock",
        GroupAction::Skip => "skip",
    }
}
