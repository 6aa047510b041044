//! Lists held groups, and pauses, resumes, unblocks or skips one.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use pillarbox::model::GroupKey;
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroup, HeldGroups};
use serde::{Deserialize, Serialize};

use super::refusal::refusal;
use super::routes::{AdminState, store_failed};
use crate::source::DrainedTable;

/// Default number of groups in a response.
const LIMIT: usize = 100;
/// Maximum number of groups in a response.
const LIMIT_MAX: usize = 1_000;
const NOT_TEXT: &str = "the path has bytes that are no text";
/// The request header that names the caller for the audit entry.
const ACTOR: &str = "x-pillarbox-actor";

#[derive(Serialize)]
struct ShownGroup {
    table: String,
    group: String,
    state: GroupState,
    event: Option<String>,
    reason: Option<String>,
    by: String,
    since: String,
}

impl ShownGroup {
    fn of(drained: &DrainedTable, held: HeldGroup) -> Self {
        Self {
            table: drained.table.clone(),
            group: held.group.to_string(),
            state: held.state,
            event: held.event.map(|event| event.to_string()),
            reason: held.reason,
            by: held.by,
            since: held.since.to_string(),
        }
    }
}

/// Query parameters of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    limit: Option<usize>,
    /// The table that the page begins in; by default the first of the source.
    table: Option<String>,
    /// The last group of the previous page, in that table.
    after: Option<String>,
}

/// A page of groups.
#[derive(Serialize)]
struct Page {
    groups: Vec<ShownGroup>,
    /// The query of the next page; none on the last page.
    next: Option<Next>,
}

#[derive(Serialize)]
struct Next {
    table: String,
    after: String,
}

impl Wanted {
    /// The limit, or the reason why it is invalid.
    fn limit(&self) -> Result<usize, String> {
        match self.limit.unwrap_or(LIMIT) {
            limit @ 1..=LIMIT_MAX => Ok(limit),
            _ => Err(format!("`limit` is from 1 to {LIMIT_MAX}")),
        }
    }
}

pub(super) async fn groups(
    State(state): State<Arc<AdminState>>,
    name: Result<Path<String>, PathRejection>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let Ok(Path(name)) = name else { return bad(NOT_TEXT) };
    let Ok(Query(wanted)) = wanted else {
        return bad("a query has `limit`, `table` and `after`, and no more");
    };
    let limit = match wanted.limit() {
        Ok(limit) => limit,
        Err(why) => return bad(why),
    };
    if wanted.after.as_ref().is_some_and(|after| after.contains('\0')) {
        return bad("`after` is the name of a group");
    }
    let source = match state.source(&name) {
        Ok(source) => source,
        Err(refused) => return refused.into_response(),
    };
    let drained_tables = source.drained_tables();
    let first = match &wanted.table {
        None => Some(0),
        Some(table) => drained_tables.iter().position(|drained| drained.table == *table),
    };
    let Some(first) = first else { return bad("`table` is none of the source's tables") };
    let mut after = wanted.after.map(GroupKey::new);
    let mut shown: Vec<ShownGroup> = Vec::new();
    for drained in drained_tables.iter().skip(first) {
        // Reads one group more than it shows, to know whether there is a next page.
        let page = HeldGroups { after: after.take(), limit: limit + 1 - shown.len() };
        match drained.store.admin().groups(page).await {
            Ok(held) => shown.extend(held.into_iter().map(|held| ShownGroup::of(drained, held))),
            Err(error) => return store_failed(&error),
        }
        if shown.len() > limit {
            break;
        }
    }
    let more = shown.len() > limit;
    shown.truncate(limit);
    let last = shown.last().filter(|_| more);
    let next = last.map(|last| Next { table: last.table.clone(), after: last.group.clone() });
    Json(Page { groups: shown, next }).into_response()
}

fn bad(why: impl Into<Cow<'static, str>>) -> Response {
    refusal(StatusCode::BAD_REQUEST, why).into_response()
}

/// The JSON body of an action; an empty body is valid too.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupActionBody {
    /// The reason, shown with the group.
    reason: Option<String>,
    /// Acts only on this table; by default on every table of the source.
    table: Option<String>,
}

#[derive(Serialize)]
struct Changed {
    action: &'static str,
    group: String,
    /// The tables in which the action changed the group.
    changed: Vec<String>,
}

pub(super) async fn change(
    State(state): State<Arc<AdminState>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(Path((name, group, action))) = path else { return bad(NOT_TEXT) };
    let Ok(body) = body else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 16 KiB, or broke off")
            .into_response();
    };
    let Some(action) = action_named(&action) else {
        return refusal(StatusCode::NOT_FOUND, "an action is pause, resume, unblock or skip").into_response();
    };
    let key = match GroupKey::named(&group) {
        Ok(key) => key,
        Err(invalid) => return bad(format!("no event can have this group: {invalid}")),
    };
    let source = match state.source(&name) {
        Ok(source) => source,
        Err(refused) => return refused.into_response(),
    };
    let Ok(wish) = (if body.is_empty() {
        Ok(GroupActionBody::default())
    } else {
        serde_json::from_slice::<GroupActionBody>(&body)
    }) else {
        return bad("a body has `reason` and `table`, and no more");
    };
    if wish.reason.as_ref().is_some_and(|reason| reason.contains('\0')) {
        return bad("`reason` has a NUL character in it");
    }
    let drained_tables = source.drained_tables();
    let wanted =
        |drained: &&Arc<DrainedTable>| wish.table.as_ref().is_none_or(|table| drained.table == *table);
    let mut changed = Vec::new();
    for drained in drained_tables.iter().filter(wanted) {
        let reason = wish.reason.clone();
        let change = GroupChange { group: key.clone(), action, reason, by: actor(&headers), now: None };
        match drained.store.admin().change_group(change).await {
            Ok(true) => {
                drained.refresh_groups();
                changed.push(drained.table.clone());
            }
            Ok(false) => {}
            Err(error) => return store_failed(&error),
        }
    }
    Json(Changed { action: action.as_str(), group, changed }).into_response()
}

fn action_named(name: &str) -> Option<GroupAction> {
    let all = [GroupAction::Pause, GroupAction::Resume, GroupAction::Unblock, GroupAction::Skip];
    all.into_iter().find(|action| action.as_str() == name)
}

/// The author of an audit entry: `admin`, or `admin/NAME` if the header has at most 64 visible ASCII
/// characters.
fn actor(headers: &HeaderMap) -> String {
    let plain =
        |name: &&str| !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_graphic());
    match headers.get(ACTOR).and_then(|name| name.to_str().ok()).filter(plain) {
        Some(name) => format!("admin/{name}"),
        None => "admin".to_owned(),
    }
}
