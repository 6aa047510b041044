//! Groups dead events by type and error, and replays or discards them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pillarbox::model::{EventId, GroupKey, Status};
use pillarbox::port::{Contents, Discard, List, PageOrder, Replay, Select};
use pillarbox::redact;
use serde::{Deserialize, Serialize};

use super::events::AT_A_TIME;
use crate::call::Call;
use crate::described::described;
use crate::refusal::{Refusal, bad, store_failed};
use crate::state::AdminState;

/// Events that are looked at for groups, the newest first.
const LOOKED_AT: usize = 500;
/// Groups in an answer.
const GROUPS: usize = 100;
/// Characters of an error that make a group.
const ERROR_MAX: usize = 200;
/// Default number of events that one request changes.
const LIMIT: usize = 1_000;
/// Maximum number of events that one request changes.
const LIMIT_MAX: usize = 10_000;

described! {
    /// Dead events by cause.
    #[derive(Serialize)]
    pub(crate) struct DeadGroups {
        /// The groups, the most frequent first.
        groups: Vec<DeadGroup>,
        /// How many dead events were looked at, the newest of each table first.
        looked_at: u64,
        /// Whether there are more, which the counts leave out.
        capped: bool,
    }
}

described! {
    /// Dead events of one type with one error.
    #[derive(Serialize)]
    pub(crate) struct DeadGroup {
        /// Their source.
        source: String,
        /// Their table.
        table: String,
        /// Their type; null if they can't be decoded.
        r#type: Option<String>,
        /// The first line of their error, with digits and ids made equal.
        error: String,
        /// How many.
        count: u64,
        /// The newest of them.
        newest: String,
        /// When that one died.
        newest_at: Option<Timestamp>,
    }
}

described! {
    /// Which dead events to change.
    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub(crate) struct DeadBody {
        /// These events.
        ids: Vec<String>,
        /// Events of this type.
        r#type: Option<String>,
        /// Events of this aggregate type.
        aggregate_type: Option<String>,
        /// Events of this group.
        group: Option<String>,
        /// All dead events, if nothing else selects any.
        all: bool,
        /// At most this many, the oldest first; 1,000 by default, at most 10,000.
        limit: Option<usize>,
        /// Only count them.
        dry_run: bool,
    }
}

described! {
    /// What was changed.
    #[derive(Serialize)]
    pub(crate) struct DeadChanged {
        /// replay or discard.
        action: &'static str,
        /// Whether nothing was changed, on request.
        dry_run: bool,
        /// How many events matched before; null without dry_run.
        matched: Option<u64>,
        /// How many were changed. If it equals the limit, there may be more.
        changed: u64,
    }
}

/// Source, table, type and error of a group.
type Cause = (String, String, Option<String>, String);

pub(crate) async fn grouped(state: &AdminState, call: &Call) -> Result<DeadGroups, Refusal> {
    let mut groups: BTreeMap<Cause, (u64, String, Option<Timestamp>)> = BTreeMap::new();
    let (mut looked_at, mut capped) = (0, false);
    for place in state.places(call)? {
        let mut list = List {
            select: Select {
                statuses: vec![Status::Dead],
                event_type: call.text("type"),
                aggregate_type: call.text("aggregate_type"),
                ..Select::default()
            },
            order: PageOrder::NewestFirst,
            limit: AT_A_TIME,
            contents: Contents::Whole,
            ..List::default()
        };
        let mut seen = 0;
        loop {
            let page = match place.table.store.admin().list(list.clone()).await {
                Ok(page) => page,
                Err(error) => return Err(store_failed(&place.table.store, error).await),
            };
            for record in &page {
                let kind = record.event.as_ref().ok().map(|event| event.event_type().to_owned());
                let cause = cause(record.last_error.as_deref().unwrap_or_default());
                let key = (place.source.clone(), place.table.name.clone(), kind, cause);
                let group = groups.entry(key);
                group.or_insert_with(|| (0, record.id.to_string(), record.done_at)).0 += 1;
            }
            seen += page.len();
            let Some(last) = page.last().filter(|_| page.len() == AT_A_TIME) else { break };
            (list.after, list.after_id) = (Some(last.seq), Some(last.id.clone()));
            if seen >= LOOKED_AT {
                capped = true;
                break;
            }
        }
        looked_at += seen as u64;
    }
    let groups = groups.into_iter().map(|((source, table, kind, error), (count, newest, newest_at))| {
        DeadGroup { source, table, r#type: kind, error, count, newest, newest_at }
    });
    let mut groups: Vec<DeadGroup> = groups.collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    capped |= groups.len() > GROUPS;
    groups.truncate(GROUPS);
    Ok(DeadGroups { groups, looked_at, capped })
}

/// The first line of an error, in which words with digits are equal: ids, times and numbers differ from event
/// to event. A status, of three digits, stays.
fn cause(error: &str) -> String {
    let line = redact::first_line(error);
    let words = line.split(' ').map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_status = bare.len() == 3 && bare.bytes().all(|byte| byte.is_ascii_digit());
        if !is_status && bare.bytes().any(|byte| byte.is_ascii_digit()) { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ").chars().take(ERROR_MAX).collect()
}

pub(crate) async fn replay(state: &AdminState, call: &Call, body: DeadBody) -> Result<DeadChanged, Refusal> {
    change(state, call, body, "replay").await
}

pub(crate) async fn discard(state: &AdminState, call: &Call, body: DeadBody) -> Result<DeadChanged, Refusal> {
    change(state, call, body, "discard").await
}

async fn change(
    state: &AdminState,
    call: &Call,
    body: DeadBody,
    action: &'static str,
) -> Result<DeadChanged, Refusal> {
    let (limit, dry_run) = (body.limit.unwrap_or(LIMIT), body.dry_run);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(bad(format!("`limit` is from 1 to {LIMIT_MAX}")));
    }
    let select = body.select()?;
    let place = state.place(call)?;
    let admin = place.table.store.admin();
    let by = call.actor.clone();
    let (matched, changed) = if dry_run {
        (admin.count(select).await.map(Some), Ok(0))
    } else if action == "replay" {
        (Ok(None), admin.replay(Replay { select, limit, by, now: None }).await)
    } else {
        (Ok(None), admin.discard(Discard { select, limit, by, now: None }).await)
    };
    match (matched, changed) {
        (Ok(matched), Ok(changed)) => {
            if let Some(refresh) = place.table.refresh.as_ref().filter(|_| changed > 0) {
                refresh();
            }
            Ok(DeadChanged { action, dry_run, matched, changed })
        }
        (Err(error), _) | (_, Err(error)) => Err(store_failed(&place.table.store, error).await),
    }
}

impl DeadBody {
    fn select(self) -> Result<Select, Refusal> {
        let Self { ids, r#type, aggregate_type, group, all, .. } = self;
        let texts = [&r#type, &aggregate_type, &group];
        if ids.iter().chain(texts.into_iter().flatten()).any(|text| text.contains('\0')) {
            return Err(bad("a text has a NUL character in it"));
        }
        let is_all = ids.is_empty() && r#type.is_none() && aggregate_type.is_none() && group.is_none();
        if is_all != all {
            return Err(bad("say which: ids, type, aggregate_type or group; or all, and nothing else"));
        }
        Ok(Select {
            ids: ids.into_iter().map(EventId::from_row).collect(),
            statuses: vec![Status::Dead],
            event_type: r#type,
            aggregate_type,
            group: group.map(GroupKey::new),
            ..Select::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::cause;

    /// PBX-204
    #[test]
    fn errors_that_differ_in_ids_and_numbers_have_one_cause() {
        assert_eq!(cause("the endpoint answered 400\nbody"), "the endpoint answered 400");
        assert_eq!(cause("no order 4711 of c-9f3"), cause("no order 12 of c-77a"));
        assert_ne!(cause("the endpoint answered 400"), cause("the endpoint answered 422"));
    }
}
