//! Lists held groups, and holds or frees groups.

use jiff::Timestamp;
use pillarbox::model::{EventId, GroupKey};
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroup, HeldGroups};
use pillarbox::rules::{Head, held_after};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connection::{Query, Session, Tx};
use crate::error::DriverError;
use crate::sql::Sql;
use crate::time::Time;

/// Binds a page to the statement that lists held groups.
pub(crate) fn page_of<'q>(query: Query<'q>, page: &HeldGroups) -> Query<'q> {
    let after = page.after.as_ref().map(|after| after.as_str().to_owned());
    query.bind(after).bind(i64::try_from(page.limit).unwrap_or(i64::MAX))
}

/// A page of the held groups.
pub(crate) async fn groups(
    session: &mut Session,
    sql: &Sql,
    page: &HeldGroups,
) -> Result<Vec<HeldGroup>, DriverError> {
    let query = page_of(session.query(&sql.groups), page);
    held_groups(&query.fetch_all(&mut session.connection).await?)
}

/// The held groups among these.
pub(crate) async fn named(
    session: &mut Session,
    sql: &Sql,
    groups: &[GroupKey],
) -> Result<Vec<HeldGroup>, DriverError> {
    let groups: Vec<&str> = groups.iter().map(GroupKey::as_str).collect();
    let query = session.query(&sql.groups_named).bind(groups);
    held_groups(&query.fetch_all(&mut session.connection).await?)
}

/// Decodes held groups.
pub(crate) fn held_groups(rows: &[PgRow]) -> Result<Vec<HeldGroup>, DriverError> {
    let group = |row: &PgRow| {
        Ok(HeldGroup {
            group: GroupKey::new(row.try_get::<String, _>(0)?),
            state: GroupState::from_stored(row.try_get(1)?),
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
) -> Result<bool, DriverError> {
    let mut tx = session.begin().await?;
    let key = request.group.as_str();
    let now = match request.now {
        Some(now) => now,
        None => tx.query(&sql.clock).fetch_one(&mut *tx.tx).await?.try_get::<Time, _>(0)?.0,
    };
    let held = tx.query(&sql.group_show).bind(key).fetch_optional(&mut *tx.tx).await?;
    let (state, event) = match &held {
        None => (None, None),
        Some(row) => (Some(GroupState::from_stored(row.try_get(0)?)), row.try_get::<Option<String>, _>(1)?),
    };
    let head = if event.is_some() { Head::Dead } else { Head::Sound };
    let Some(next) = held_after(state, head, request.action) else { return Ok(false) };
    // Unblocking retries the dead event that blocks the group, in its old place.
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
) -> Result<(), DriverError> {
    let key = request.group.as_str();
    let query = match next {
        Some(state) => {
            let query = tx.query(&sql.group_hold).bind(key).bind(state.as_str()).bind(event);
            query.bind(request.reason.as_deref()).bind(&request.by).bind(Time(now))
        }
        None => tx.query(&sql.group_free).bind(key),
    };
    query.execute(&mut *tx.tx).await?;
    tx.query(&sql.epoch_grow).execute(&mut *tx.tx).await?;
    let record = tx.query(&sql.audit).bind(Time(now)).bind(&request.by);
    record.bind(request.action.as_str()).bind(key).execute(&mut *tx.tx).await?;
    Ok(())
}
