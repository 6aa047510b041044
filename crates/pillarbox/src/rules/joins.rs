//! What a change of a join does, before and after the store has looked at its members.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::{EventId, JoinRecord, JoinStatus, StepState};
use crate::port::{JoinAction, JoinChange, JoinChanged};

/// The answer to a change that does nothing to this join. `None` if the change applies, or if the join's
/// members decide.
#[must_use]
pub fn join_refusal(join: Option<&JoinRecord>, action: &JoinAction) -> Option<JoinChanged> {
    match (join, action) {
        (None, JoinAction::Start { .. }) => None,
        (None, _) => Some(JoinChanged::NoSuchJoin),
        (Some(_), JoinAction::Start { .. }) => Some(JoinChanged::Unchanged),
        (Some(_), JoinAction::Attach { .. } | JoinAction::Report { .. }) => None,
        (Some(join), JoinAction::Wait(_) | JoinAction::Cancel { .. }) => match (join.status, action) {
            (JoinStatus::Cancelled, JoinAction::Cancel { .. }) => Some(JoinChanged::Unchanged),
            (JoinStatus::Pending, JoinAction::Wait(_)) if join.wait.is_some() => {
                Some(JoinChanged::AlreadyWaiting)
            }
            (JoinStatus::Pending, _) => None,
            (ended, _) => Some(JoinChanged::Ended(ended)),
        },
    }
}

/// The answer to a report that does nothing to a member in this state. `None` if the report applies.
#[must_use]
pub const fn report_refusal(member: Option<StepState>, reported: StepState) -> Option<JoinChanged> {
    match (member, reported) {
        (None, _) => Some(JoinChanged::NotAMember),
        (Some(StepState::Pending), StepState::Completed | StepState::Failed) => None,
        (Some(_), _) => Some(JoinChanged::Unchanged),
    }
}

/// The steps that an attach adds to a join. `fresh` are the messages that are not members yet, in the order
/// of the request, with their states as steps: `None` if a message is not in the queue.
///
/// # Errors
/// The answer to an attach that does nothing.
pub fn new_steps<'a>(
    join: &JoinRecord,
    fresh: impl IntoIterator<Item = (&'a EventId, Option<StepState>)>,
) -> Result<BTreeMap<&'a EventId, StepState>, JoinChanged> {
    let mut fresh = fresh.into_iter().peekable();
    if fresh.peek().is_none() {
        return Err(JoinChanged::Unchanged);
    }
    if join.status != JoinStatus::Pending {
        return Err(JoinChanged::Ended(join.status));
    }
    let known = |(message, state): (&'a EventId, Option<StepState>)| match state {
        Some(state) => Ok((message, state)),
        None => Err(JoinChanged::NoSuchMessage(message.clone())),
    };
    let steps: BTreeMap<_, _> = fresh.map(known).collect::<Result<_, _>>()?;
    if join.attached as usize + steps.len() > join.expected as usize {
        return Err(JoinChanged::Full { expected: join.expected });
    }
    Ok(steps)
}

/// The join that a request starts; `None` if it starts none.
#[must_use]
pub fn started_join(request: &JoinChange, now: Timestamp) -> Option<JoinRecord> {
    let JoinAction::Start { grouping_key, expected, metadata } = &request.action else { return None };
    Some(JoinRecord {
        id: request.join.clone(),
        grouping_key: grouping_key.clone(),
        expected: *expected,
        attached: 0,
        completed: 0,
        failed: 0,
        status: JoinStatus::Pending,
        metadata: metadata.clone(),
        wait: None,
        fired: None,
        created_at: now,
        updated_at: now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FailedSteps, JoinId, JoinWait};

    fn join(status: JoinStatus) -> JoinRecord {
        let action = JoinAction::Start { grouping_key: None, expected: 2, metadata: None };
        let request = JoinChange { join: JoinId::from_row("j"), action, now: None };
        JoinRecord { status, ..started_join(&request, Timestamp::UNIX_EPOCH).unwrap() }
    }

    fn wait() -> JoinWait {
        let message = EventId::from_row("next");
        JoinWait { failed_steps: FailedSteps::Fail, on_complete: None, on_fail: None, message, headers: None }
    }

    /// OBX-083
    #[test]
    fn a_join_that_has_ended_takes_no_wait_and_is_cancelled_once() {
        let cancel = JoinAction::Cancel { by: "me".to_owned() };
        let pending = join(JoinStatus::Pending);
        let waiting = JoinRecord { wait: Some(wait()), ..pending.clone() };
        let (cancelled, completed) = (join(JoinStatus::Cancelled), join(JoinStatus::Completed));
        let ended = |status| Some(JoinChanged::Ended(status));
        for (join, action, expected) in [
            (None, &cancel, Some(JoinChanged::NoSuchJoin)),
            (Some(&pending), &cancel, None),
            (Some(&waiting), &cancel, None),
            (Some(&cancelled), &cancel, Some(JoinChanged::Unchanged)),
            (Some(&completed), &cancel, ended(JoinStatus::Completed)),
            (Some(&pending), &JoinAction::Wait(wait()), None),
            (Some(&waiting), &JoinAction::Wait(wait()), Some(JoinChanged::AlreadyWaiting)),
            (Some(&cancelled), &JoinAction::Wait(wait()), ended(JoinStatus::Cancelled)),
        ] {
            assert_eq!(join_refusal(join, action), expected, "{action:?} of {join:?}");
        }
    }

    /// OBX-089
    #[test]
    fn steps_are_attached_all_or_none() {
        let ids = ["b", "a", "c"].map(EventId::from_row);
        let (pending, done) = (Some(StepState::Pending), Some(StepState::Completed));
        let steps = |status, given: &[(&'static str, Option<StepState>)]| {
            let id = |name: &str| ids.iter().find(|id| id.as_str() == name).unwrap();
            let given: Vec<_> = given.iter().map(|(name, state)| (id(name), *state)).collect();
            let steps = new_steps(&join(status), given)?;
            Ok(steps.into_iter().map(|(id, state)| (id.to_string(), state)).collect::<Vec<_>>())
        };
        let added = vec![("a".to_owned(), StepState::Completed), ("b".to_owned(), StepState::Pending)];
        let twice = [("b", pending), ("a", done), ("b", pending)];
        assert_eq!(steps(JoinStatus::Pending, &twice), Ok(added), "each once");
        for (status, given, expected) in [
            (JoinStatus::Failed, vec![], JoinChanged::Unchanged),
            (JoinStatus::Failed, vec![("a", None)], JoinChanged::Ended(JoinStatus::Failed)),
            (JoinStatus::Pending, vec![("a", done), ("b", None)], JoinChanged::NoSuchMessage(ids[0].clone())),
            (
                JoinStatus::Pending,
                vec![("a", done), ("b", done), ("c", done)],
                JoinChanged::Full { expected: 2 },
            ),
        ] {
            assert_eq!(steps(status, &given), Err(expected), "{given:?}");
        }
    }
}
