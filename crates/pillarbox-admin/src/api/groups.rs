//! Lists held groups, and pauses, resumes, unblocks or skips one.

use pillarbox::model::GroupKey;
use pillarbox::port::{GroupAction, GroupChange, HeldGroup, HeldGroups};
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::described::described;
use crate::refusal::{Refusal, bad, missing, store_failed};
use crate::sources::AdminTable;
use crate::state::AdminState;

/// Default number of groups in a response.
const LIMIT: usize = 100;
/// Maximum number of groups in a response.
const LIMIT_MAX: usize = 1_000;

described! {
    /// A held group.
    #[derive(Serialize)]
    pub(crate) struct GroupView {
        /// Its table.
        table: String,
        /// Its name.
        group: String,
        /// blocked or paused.
        state: &'static str,
        /// The dead event that blocks it.
        event: Option<String>,
        /// The reason.
        reason: Option<String>,
        /// Who holds it.
        by: String,
        /// Since when.
        since: jiff::Timestamp,
    }
}

described! {
    /// Where the next page begins.
    #[derive(Serialize)]
    pub(crate) struct GroupNext {
        /// `table` of the next page.
        table: String,
        /// `after` of the next page.
        after: String,
    }
}

described! {
    /// A page of groups.
    #[derive(Serialize)]
    pub(crate) struct GroupPage {
        /// The groups, by name.
        groups: Vec<GroupView>,
        /// The query of the next page; null on the last page.
        next: Option<GroupNext>,
    }
}

described! {
    /// Why and where to act on a group.
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct GroupActionBody {
        /// The reason, shown with the group.
        reason: Option<String>,
        /// Acts only on this table; by default on every table of the source.
        table: Option<String>,
    }
}

described! {
    /// What was changed.
    #[derive(Serialize)]
    pub(crate) struct GroupChanged {
        /// The action.
        action: &'static str,
        /// The group.
        group: String,
        /// The tables in which the action changed the group.
        changed: Vec<String>,
    }
}

impl GroupView {
    fn of(table: &AdminTable, held: HeldGroup) -> Self {
        Self {
            table: table.name.clone(),
            group: held.group.to_string(),
            state: held.state.as_str(),
            event: held.event.map(|event| event.to_string()),
            reason: held.reason,
            by: held.by,
            since: held.since,
        }
    }
}

pub(crate) async fn list(state: &AdminState, call: &Call) -> Result<GroupPage, Refusal> {
    let limit = call.limit(LIMIT, LIMIT_MAX)?;
    let source = state.source(call.part("source"))?;
    let first = match call.text("table") {
        None => Some(0),
        Some(name) => source.tables.iter().position(|table| table.name == name),
    };
    let first = first.ok_or_else(|| bad("`table` is none of the source's tables"))?;
    let mut after = call.group("after");
    let mut shown: Vec<GroupView> = Vec::new();
    for table in source.tables.iter().skip(first) {
        // Reads one group more than it shows, to know whether there is a next page.
        let page = HeldGroups { after: after.take(), limit: limit + 1 - shown.len() };
        match table.store.admin().groups(page).await {
            Ok(held) => shown.extend(held.into_iter().map(|held| GroupView::of(table, held))),
            Err(error) => return Err(store_failed(&table.store, error).await),
        }
        if shown.len() > limit {
            break;
        }
    }
    let more = shown.len() > limit;
    shown.truncate(limit);
    let last = shown.last().filter(|_| more);
    let next = last.map(|last| GroupNext { table: last.table.clone(), after: last.group.clone() });
    Ok(GroupPage { groups: shown, next })
}

pub(crate) async fn change(
    state: &AdminState,
    call: &Call,
    body: GroupActionBody,
) -> Result<GroupChanged, Refusal> {
    let (group, action) = (call.part("group"), call.part("action"));
    let all = [GroupAction::Pause, GroupAction::Resume, GroupAction::Unblock, GroupAction::Skip];
    let action = all.into_iter().find(|known| known.as_str() == action);
    let action = action.ok_or_else(|| missing("an action is pause, resume, unblock or skip"))?;
    let key = GroupKey::named(group);
    let key = key.map_err(|invalid| bad(format!("no event can have this group: {invalid}")))?;
    let source = state.source(call.part("source"))?;
    if body.reason.as_ref().is_some_and(|reason| reason.contains('\0')) {
        return Err(bad("`reason` has a NUL character in it"));
    }
    let wanted = |table: &&AdminTable| body.table.as_ref().is_none_or(|name| table.name == *name);
    let mut changed = Vec::new();
    for table in source.tables.iter().filter(wanted) {
        let (reason, by) = (body.reason.clone(), call.actor.clone());
        let change = GroupChange { group: key.clone(), action, reason, by, now: None };
        match table.store.admin().change_group(change).await {
            Ok(true) => {
                table.refresh.iter().for_each(|refresh| refresh());
                changed.push(table.name.clone());
            }
            Ok(false) => {}
            Err(error) => return Err(store_failed(&table.store, error).await),
        }
    }
    Ok(GroupChanged { action: action.as_str(), group: group.to_owned(), changed })
}
