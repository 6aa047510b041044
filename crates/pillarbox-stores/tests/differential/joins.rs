//! Joins in a sequence: their changes in shared names, and how all of them stand.

use jiff::Timestamp;
use pillarbox::model::{Continuation, EventId, FailedSteps, JoinId, JoinWait, StepState};
use pillarbox::port::{JoinAction, JoinChange, Joins, ListJoins, StoreError};

/// What is done to a join.
#[derive(Debug, Clone)]
pub(crate) enum JoinSpec {
    Start { expected: u32, key: Option<&'static str> },
    Attach { messages: Vec<String> },
    Report { message: String, state: StepState },
    Wait { failed_steps: FailedSteps, on_complete: bool, on_fail: bool, message: String },
    Cancel,
}

impl JoinSpec {
    /// What kind of change it is.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start a join",
            Self::Attach { .. } => "attach to a join",
            Self::Report { .. } => "report to a join",
            Self::Wait { .. } => "wait for a join",
            Self::Cancel => "cancel a join",
        }
    }

    fn action(&self) -> JoinAction {
        match self {
            Self::Start { expected, key } => JoinAction::Start {
                grouping_key: key.map(str::to_owned),
                expected: *expected,
                metadata: key.map(|key| format!("{{\"of\":\"{key}\"}}")),
            },
            Self::Attach { messages } => {
                JoinAction::Attach { messages: messages.iter().map(|id| event_id(id)).collect() }
            }
            Self::Report { message, state } => {
                JoinAction::Report { message: event_id(message), state: *state }
            }
            Self::Wait { failed_steps, on_complete, on_fail, message } => JoinAction::Wait(JoinWait {
                failed_steps: *failed_steps,
                on_complete: on_complete.then(|| continuation("completed")),
                on_fail: on_fail.then(|| continuation("failed")),
                message: event_id(message),
                headers: on_fail.then(|| "{\"kept\":\"yes\"}".to_owned()),
            }),
            Self::Cancel => JoinAction::Cancel { by: "ann".to_owned() },
        }
    }
}

fn event_id(id: &str) -> EventId {
    EventId::from_row(id)
}

fn continuation(topic: &str) -> Continuation {
    Continuation { topic: topic.to_owned(), payload: format!("\"{topic}\"") }
}

/// Changes a join and tells what came of it.
pub(crate) async fn change(
    joins: &dyn Joins,
    join: u8,
    spec: &JoinSpec,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    let join = JoinId::from_row(format!("j{join}"));
    let changed = joins.change_join(JoinChange { join, action: spec.action(), now: Some(now) }).await?;
    Ok(vec![format!("{changed:?}")])
}

/// Every join with its members, and those of one key.
pub(crate) async fn everything(joins: &dyn Joins) -> Result<Vec<String>, StoreError> {
    let mut told = Vec::new();
    for join in joins.list_joins(ListJoins { limit: 1_000, ..ListJoins::default() }).await? {
        told.push(format!("{:?}", joins.show_join(join.id, 1_000).await?));
    }
    let of_key = ListJoins { grouping_key: Some("k".to_owned()), limit: 2, ..ListJoins::default() };
    told.extend(joins.list_joins(of_key).await?.iter().map(|join| format!("of k: {}", join.id)));
    Ok(told)
}
