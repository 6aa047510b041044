//! Held groups: listing them, and pausing, resuming, unblocking and skipping.

use jiff::Timestamp;
use pillarbox::model::{EventId, GroupKey};
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroup, HeldGroups};
use pillarbox::rules::{Head, held_after};
use sqlx::mysql::{MySqlConnection, MySqlRow};

use crate::connection::{Session, prepared};
use crate::error::DriverError;
use crate::fetch::clock;
use crate::row::{text_of, time_of};
use crate::sql::{Sql, fill, places, quoted, quoted_list};
use crate::time::{Time, literal};

/// Decodes rows of the group table.
pub(crate) fn held_groups(rows: &[MySqlRow]) -> Vec<HeldGroup> {
    let group = |row: &MySqlRow| HeldGroup {
        group: GroupKey::new(text_of(row, 0).unwrap_or_default()),
        state: GroupState::from_stored(text_of(row, 1).unwrap_or_default()),
        event: text_of(row, 2).map(EventId::from_row),
        reason: text_of(row, 3).map(str::to_owned),
        by: text_of(row, 4).unwrap_or_default().to_owned(),
        since: time_of(row, 5).unwrap_or_default(),
    };
    rows.iter().map(group).collect()
}

/// A page of the held groups, ordered by key.
pub(crate) async fn groups(
    session: &mut Session,
    sql: &Sql,
    page: &HeldGroups,
) -> Result<Vec<HeldGroup>, DriverError> {
    let from = quoted(page.after.as_ref().map_or("", GroupKey::as_str));
    let after = page.after.as_ref().map_or("true".to_owned(), |_| format!("group_key > {from}"));
    let parts = [("{from}", from), ("{after}", after), ("{limit}", page.limit.to_string())];
    read(session, fill(&sql.groups, &parts)).await
}

/// The held groups among these, ordered by key.
pub(crate) async fn held_of(
    session: &mut Session,
    sql: &Sql,
    groups: &[GroupKey],
) -> Result<Vec<HeldGroup>, DriverError> {
    let groups = quoted_list(groups.iter().map(GroupKey::as_str));
    read(session, fill(&sql.groups_named, &[("{groups}", groups)])).await
}

async fn read(session: &mut Session, text: String) -> Result<Vec<HeldGroup>, DriverError> {
    Ok(held_groups(&session.once(text).fetch_all(&mut session.connection).await?))
}

pub(crate) async fn change_group(
    session: &mut Session,
    sql: &Sql,
    request: &GroupChange,
) -> Result<bool, DriverError> {
    session.begin().await?;
    let key = request.group.as_str();
    let now = match request.now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let (state, event) = match show(&mut session.connection, sql, key).await? {
        None => (None, None),
        Some((state, event)) => (Some(state), event),
    };
    let head = if event.is_some() { Head::Dead } else { Head::Sound };
    let Some(next) = held_after(state, head, request.action) else { return Ok(false) };
    if let (GroupAction::Unblock, Some(event)) = (request.action, &event) {
        let text = fill(&sql.revive, &[("{ids}", places(1)), ("{now}", literal(now))]);
        session.query(text).bind(event).execute(&mut session.connection).await?;
    }
    apply(session, sql, request, next, event, now).await?;
    session.commit().await?;
    Ok(true)
}

/// The state of a held group and its dead event, if it has one; locks the group's row.
pub(crate) async fn show(
    connection: &mut MySqlConnection,
    sql: &Sql,
    key: &str,
) -> Result<Option<(GroupState, Option<String>)>, DriverError> {
    let row = prepared(&*sql.group_show).bind(key).fetch_optional(connection).await?;
    Ok(row.map(|row| {
        let state = GroupState::from_stored(text_of(&row, 0).unwrap_or_default());
        (state, text_of(&row, 1).map(str::to_owned))
    }))
}

async fn apply(
    session: &mut Session,
    sql: &Sql,
    request: &GroupChange,
    next: Option<GroupState>,
    event: Option<String>,
    now: Timestamp,
) -> Result<(), DriverError> {
    let key = request.group.as_str();
    let query = match next {
        Some(state) => {
            let query = session.query(&*sql.group_hold).bind(key).bind(state.as_str()).bind(event);
            query.bind(request.reason.as_deref()).bind(&request.by).bind(Time(now))
        }
        None => session.query(&*sql.group_free).bind(key),
    };
    query.execute(&mut session.connection).await?;
    session.query(&*sql.epoch_grow).bind(1_i64).execute(&mut session.connection).await?;
    record(session, sql, now, &request.by, request.action.as_str(), &[key]).await
}

/// Writes one audit entry for each target.
pub(crate) async fn record(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
    by: &str,
    action: &str,
    targets: &[&str],
) -> Result<(), DriverError> {
    let rows = vec!["(?, ?, ?, ?)"; targets.len()].join(", ");
    let mut query = session.query(fill(&sql.audit, &[("{rows}", rows)]));
    for target in targets {
        query = query.bind(Time(now)).bind(by).bind(action).bind(*target);
    }
    query.execute(&mut session.connection).await?;
    Ok(())
}
