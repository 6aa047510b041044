//! State transitions of held groups by operators' actions.

use crate::port::{GroupAction, GroupState};

/// Whether the first event of a group is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// The first event is not dead.
    Sound,
    /// The first event is dead. It blocks the group unless the group is paused.
    Dead,
}

/// The state after an action: `None` if there is nothing to change, `Some(None)` if the group becomes free.
#[must_use]
pub const fn held_after(
    state: Option<GroupState>,
    head: Head,
    action: GroupAction,
) -> Option<Option<GroupState>> {
    match (action, state) {
        (GroupAction::Pause, None | Some(GroupState::Blocked)) => Some(Some(GroupState::Paused)),
        // Pausing replaced the blocked state, so a dead head must block the group again.
        (GroupAction::Resume, Some(GroupState::Paused)) => match head {
            Head::Dead => Some(Some(GroupState::Blocked)),
            Head::Sound => Some(None),
        },
        (GroupAction::Unblock | GroupAction::Skip, Some(GroupState::Blocked)) => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GroupAction::{Pause, Resume, Skip, Unblock};
    use GroupState::{Blocked, Paused};

    /// PBX-010
    #[test]
    fn only_what_fits_the_state_changes_it() {
        for (state, head, action, after) in [
            (None, Head::Sound, Pause, Some(Some(Paused))),
            (Some(Blocked), Head::Dead, Pause, Some(Some(Paused))),
            (Some(Paused), Head::Dead, Resume, Some(Some(Blocked))),
            (Some(Paused), Head::Sound, Resume, Some(None)),
            (Some(Blocked), Head::Dead, Unblock, Some(None)),
            (Some(Blocked), Head::Dead, Skip, Some(None)),
            (Some(Paused), Head::Dead, Pause, None),
            (Some(Paused), Head::Dead, Skip, None),
            (Some(Blocked), Head::Dead, Resume, None),
            (None, Head::Sound, Unblock, None),
        ] {
            assert_eq!(held_after(state, head, action), after, "{action:?} of {state:?}");
        }
    }
}
