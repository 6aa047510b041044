//! Held groups: lists, blocks, pauses and releases them.

use std::ops::Bound;

use jiff::Timestamp;

use super::state::State;
use crate::model::{EventId, GroupKey, Status};
use crate::port::{GroupAction, GroupChange, GroupState, HeldGroup, HeldGroups};
use crate::rules::{Head, held_after};

impl State {
    pub(super) fn held_groups(&self, page: &HeldGroups) -> Vec<HeldGroup> {
        let from = page.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let held = self.groups.range((from, Bound::Unbounded)).take(page.limit);
        held.map(|(_, held)| held.clone()).collect()
    }

    pub(super) fn change_group(&mut self, request: &GroupChange, now: Timestamp) -> bool {
        let held = self.groups.remove(&request.group);
        let event = held.as_ref().and_then(|held| held.event.clone());
        let state = held.as_ref().map(|held| held.state);
        let head = if event.is_some() { Head::Dead } else { Head::Sound };
        let Some(next) = held_after(state, head, request.action) else {
            self.groups.extend(held.map(|held| (request.group.clone(), held)));
            return false;
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
        self.record(now, &request.by, request.action.as_str(), request.group.as_str());
        true
    }

    fn revive_in_place(&mut self, event: Option<&EventId>, now: Timestamp) {
        let Some(seq) = event.and_then(|id| self.find(id)) else { return };
        if self.rows[&seq].status == Status::Dead {
            self.change(seq, |row| row.revive(now));
        }
    }

    /// Releases the group that is blocked behind this event. Returns false if there is none.
    /// A paused group stays paused.
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
