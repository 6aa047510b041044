//! Lists who changed what.

use jiff::Timestamp;
use serde::Serialize;

use crate::call::Call;
use crate::described::described;
use crate::refusal::{Refusal, store_failed};
use crate::state::AdminState;

/// Default number of entries.
const LIMIT: usize = 100;
/// Maximum number of entries.
const LIMIT_MAX: usize = 1_000;

described! {
    /// One change.
    #[derive(Serialize)]
    pub(crate) struct AuditView {
        /// When the action was taken.
        at: Timestamp,
        /// Who: after `admin/`, what the caller said.
        by: String,
        /// The action.
        action: String,
        /// The event, group or join.
        target: String,
    }
}

described! {
    /// The newest changes.
    #[derive(Serialize)]
    pub(crate) struct AuditPage {
        /// The entries, the newest first.
        entries: Vec<AuditView>,
    }
}

pub(crate) async fn list(state: &AdminState, call: &Call) -> Result<AuditPage, Refusal> {
    let limit = call.limit(LIMIT, LIMIT_MAX)?;
    let place = state.place(call)?;
    match place.table.store.admin().audit(limit).await {
        Ok(entries) => {
            let entries = entries.into_iter();
            let view = |entry: pillarbox::port::AuditEntry| AuditView {
                at: entry.at,
                by: entry.by,
                action: entry.action,
                target: entry.target,
            };
            Ok(AuditPage { entries: entries.map(view).collect() })
        }
        Err(error) => Err(store_failed(&place.table.store, error).await),
    }
}
