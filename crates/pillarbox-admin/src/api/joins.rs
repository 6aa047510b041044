//! Lists and shows joins of the queue.

use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::model::{JoinId, JoinRecord, JoinStatus, StepState};
use pillarbox::port::{Joins, ListJoins, Store};
use serde::Serialize;

use crate::call::Call;
use crate::described::described;
use crate::refusal::{Refusal, bad, missing, store_failed};
use crate::state::{AdminState, Place};

/// Default number of joins or members in a response.
const LIMIT: usize = 50;
/// Maximum number of them.
const LIMIT_MAX: usize = 1_000;

described! {
    /// A join.
    #[derive(Serialize)]
    pub(crate) struct JoinView {
        /// Its id.
        id: String,
        /// pending, completed, failed or cancelled.
        status: &'static str,
        /// Its grouping key.
        grouping_key: Option<String>,
        /// Its steps.
        expected: u32,
        /// Attached messages.
        attached: u32,
        /// Completed steps.
        completed: u32,
        /// Failed steps.
        failed: u32,
        /// Whether a continuation is set.
        is_waiting: bool,
        /// The continuation that was enqueued.
        fired: Option<String>,
        /// When it was started.
        created_at: Timestamp,
        /// When it last changed.
        updated_at: Timestamp,
    }
}

described! {
    /// The newest joins.
    #[derive(Serialize)]
    pub(crate) struct JoinPage {
        /// The joins, the newest first.
        joins: Vec<JoinView>,
        /// Whether there are more.
        capped: bool,
    }
}

described! {
    /// A message of a join.
    #[derive(Serialize)]
    pub(crate) struct MemberView {
        /// The id of the message.
        message: String,
        /// pending, completed or failed.
        state: &'static str,
        /// When it was attached.
        attached_at: Timestamp,
    }
}

described! {
    /// One join.
    #[derive(Serialize)]
    pub(crate) struct JoinDetail {
        /// The join.
        join: JoinView,
        /// Its members, by id, up to the limit.
        members: Vec<MemberView>,
    }
}

const fn status_name(status: JoinStatus) -> &'static str {
    match status {
        JoinStatus::Pending => "pending",
        JoinStatus::Completed => "completed",
        JoinStatus::Failed => "failed",
        JoinStatus::Cancelled => "cancelled",
    }
}

const fn step_name(state: StepState) -> &'static str {
    match state {
        StepState::Pending => "pending",
        StepState::Completed => "completed",
        StepState::Failed => "failed",
    }
}

impl From<JoinRecord> for JoinView {
    fn from(join: JoinRecord) -> Self {
        Self {
            id: join.id.to_string(),
            status: status_name(join.status),
            grouping_key: join.grouping_key,
            expected: join.expected,
            attached: join.attached,
            completed: join.completed,
            failed: join.failed,
            is_waiting: join.wait.is_some(),
            fired: join.fired.map(|event| event.to_string()),
            created_at: join.created_at,
            updated_at: join.updated_at,
        }
    }
}

fn joins(place: &Place) -> Result<&dyn Joins, Refusal> {
    let native: Option<&Arc<dyn Store>> = place.table.store.native();
    native.and_then(|store| store.joins()).ok_or_else(|| missing("this table has no joins"))
}

pub(crate) async fn list(state: &AdminState, call: &Call) -> Result<JoinPage, Refusal> {
    let limit = call.limit(LIMIT, LIMIT_MAX)?;
    let status = call.text("status").map(|name| {
        let known = JoinStatus::ALL.into_iter().find(|status| status_name(*status) == name);
        known.ok_or_else(|| bad("`status` is pending, completed, failed or cancelled"))
    });
    let request =
        ListJoins { grouping_key: call.text("grouping_key"), status: status.transpose()?, limit: limit + 1 };
    let place = state.place(call)?;
    match joins(&place)?.list_joins(request).await {
        Ok(mut found) => {
            let capped = found.len() > limit;
            found.truncate(limit);
            Ok(JoinPage { joins: found.into_iter().map(JoinView::from).collect(), capped })
        }
        Err(error) => Err(store_failed(&place.table.store, error).await),
    }
}

pub(crate) async fn show(state: &AdminState, call: &Call) -> Result<JoinDetail, Refusal> {
    let limit = call.limit(LIMIT, LIMIT_MAX)?;
    let id = JoinId::new(call.part("id")).map_err(|invalid| bad(invalid.to_string()))?;
    let place = state.place(call)?;
    match joins(&place)?.show_join(id, limit).await {
        Ok(Some(shown)) => {
            let members = shown.members.into_iter().map(|member| MemberView {
                message: member.message.to_string(),
                state: step_name(member.state),
                attached_at: member.attached_at,
            });
            Ok(JoinDetail { join: shown.join.into(), members: members.collect() })
        }
        Ok(None) => Err(missing("there is no such join")),
        Err(error) => Err(store_failed(&place.table.store, error).await),
    }
}
