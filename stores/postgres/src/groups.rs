//! Groups that are held back, and letting them go.

use jiff::Timestamp;
use pillarbox::model::{EventId, GroupKey};
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroup};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connection::{Session, Tx};
use crate::error::Failure;
use crate::sql::Sql;
use crate::time::Time;

/// Groups as they were read.
pub(crate) fn held_groups(rows: &[PgRow]) -> Result<Vec<HeldGroup>, Failure> {
    let group = |row: &PgRow| {
        Ok(HeldGroup {
            group: GroupKey::new(row.try_get::<String, _>(0)?),
            state: state_of(row.try_get(1)?),
            event: row.try_get::<Option<String>, _>(2)?.map(EventId::from_row),
            reason: row.try_get(3)?,
            by: row.try_get(4)?,
            since: row.try_get::<Time, _>(5)?.0,
        })
    };
    rows.iter().map(group).collect()
}

pub(crate) async fn change_group(
    session: &mut Session,
    sql: &Sql,
    request: &GroupChange,
) -> Result<bool, Failure> {
    let mut tx = session.begin().await?;
    let key = request.group.as_str();
    let now = match request.now {
        Some(now) => now,
        None => tx.query(&sql.clock).fetch_one(&mut *tx.tx).await?.try_get::<Time, _>(0)?.0,
    };
    let held = tx.query(&sql.group_show).bind(key).fetch_optional(&mut *tx.tx).await?;
    let (state, event) = match &held {
        None => (None, None),
        Some(row) => (Some(state_of(row.try_get(0)?)), row.try_get::<Option<String>, _>(1)?),
    };
    let next = match (request.action, state) {
        (GroupAction::Pause, None | Some(GroupState::Blocked)) => Some(GroupState::Paused),
        (GroupAction::Resume, Some(GroupState::Paused)) => event.as_ref().map(|_| GroupState::Blocked),
        (GroupAction::Unblock | GroupAction::Skip, Some(GroupState::Blocked)) => None,
        _ => return Ok(false),
    };
    if let (GroupAction::Unblock, Some(event)) = (request.action, &event) {
        tx.query(&sql.revive).bind(event).bind(Time(now)).execute(&mut *tx.tx).await?;
    }
    apply(&mut tx, sql, request, next, event, now).await?;
    tx.commit().await?;
    Ok(true)
}

async fn apply(
    tx: &mut Tx<'_>,
    sql: &Sql,
    request: &GroupChange,
    next: Option<GroupState>,
    event: Option<String>,
    now: Timestamp,
) -> Result<(), Failure> {
    let key = request.group.as_str();
    let query = match next {
        Some(state) => {
            let query = tx.query(&sql.group_hold).bind(key).bind(name_of(state)).bind(event);
            query.bind(request.reason.as_deref()).bind(&request.by).bind(Time(now))
        }
        None => tx.query(&sql.group_free).bind(key),
    };
    query.execute(&mut *tx.tx).await?;
    tx.query(&sql.epoch_grow).execute(&mut *tx.tx).await?;
    let record = tx.query(&sql.audit).bind(Time(now)).bind(&request.by);
    record.bind(action_name(request.action)).bind(key).execute(&mut *tx.tx).await?;
    Ok(())
}

fn state_of(name: &str) -> GroupState {
    if name == name_of(GroupState::Paused) { GroupState::Paused } else { GroupState::Blocked }
}

const fn name_of(state: GroupState) -> &'static str {
    match state {
        GroupState::Blocked => "blocked",
        GroupState::Paused => "paused",
    }
}

const fn action_name(action: GroupAction) -> &'static str {
    match action {
        GroupAction::Pause => "pause",
        GroupAction::Resume => "resume",
        GroupAction::Unblock => "unblock",
        GroupAction::Skip => "skip",
    }
}
