//! Joins: each change is one statement, which calls a function of the migration if it takes several steps.

use std::sync::Arc;

use pillarbox::model::{EventId, FailedSteps, JoinId, JoinMember, JoinRecord, JoinStatus, StepState};
use pillarbox::port::{
    ErrorKind, JoinAction, JoinChange, JoinChanged, JoinShown, Joins, ListJoins, StoreFuture,
};
use pillarbox_store_kit::{call, read_join};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};

use crate::connection::{Query, Session};
use crate::error::DriverError;
use crate::insert::Prepared;
use crate::row::Values;
use crate::sql::Sql;
use crate::store::PostgresStore;
use crate::time::Time;

/// The position of the first column of members, after those columns.
const MEMBERS: usize = 18;

/// The number of joins that have enqueued their continuation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fired(pub(crate) i32);

impl Joins for PostgresStore {
    fn change_join(&self, request: JoinChange) -> StoreFuture<'_, JoinChanged> {
        let changed = self.on_general("change join", request, |session, sql, request| {
            let prepared = session.prepared();
            Box::pin(change(&mut session.connection, sql, request, prepared))
        });
        Box::pin(async move {
            let (changed, fired) = changed.await?;
            self.tell_of(fired);
            Ok(changed)
        })
    }

    fn show_join(&self, join: JoinId, members: usize) -> StoreFuture<'_, Option<JoinShown>> {
        self.on_general("show join", (join, members), |session, sql, (join, members)| {
            Box::pin(show(session, sql, join, *members))
        })
    }

    fn list_joins(&self, request: ListJoins) -> StoreFuture<'_, Vec<JoinRecord>> {
        self.on_general("list joins", request, call!(list))
    }
}

/// Makes one change. Also used in the user's own transactions.
pub(crate) async fn change(
    connection: &mut PgConnection,
    sql: &Sql,
    request: &JoinChange,
    prepared: Prepared,
) -> Result<(JoinChanged, Fired), DriverError> {
    let statement = statement(sql, &request.action);
    let query = sqlx::query(AssertSqlSafe(Arc::clone(statement))).persistent(prepared == Prepared::Kept);
    let row = bind(query.bind(request.join.as_str()), &request.action).bind(request.now.map(Time));
    let row = row.fetch_one(connection).await?;
    let changed = changed(row.try_get(0)?, row.try_get(1)?)?;
    Ok((changed, Fired(row.try_get(2)?)))
}

/// The statement of an action. Its first parameter is the join; its last one is the
/// time, which only tests set.
pub(crate) fn statement<'a>(sql: &'a Sql, action: &JoinAction) -> &'a Arc<str> {
    match action {
        JoinAction::Start { .. } => &sql.join_start,
        JoinAction::Attach { .. } => &sql.join_attach,
        JoinAction::Report { .. } => &sql.join_report,
        JoinAction::Wait(_) => &sql.join_wait,
        JoinAction::Cancel { .. } => &sql.join_cancel,
    }
}

fn bind<'q>(query: Query<'q>, action: &'q JoinAction) -> Query<'q> {
    match action {
        JoinAction::Start { grouping_key, expected, metadata } => {
            query.bind(grouping_key).bind(steps(*expected)).bind(metadata)
        }
        JoinAction::Attach { messages } => {
            query.bind(messages.iter().map(EventId::as_str).collect::<Vec<_>>())
        }
        JoinAction::Report { message, state } => query.bind(message.as_str()).bind(i32::from(state.code())),
        JoinAction::Wait(wait) => {
            let (complete, fail) = (wait.on_complete.as_ref(), wait.on_fail.as_ref());
            query
                .bind(wait.failed_steps == FailedSteps::Fail)
                .bind(complete.map(|next| &next.topic))
                .bind(complete.map(|next| &next.payload))
                .bind(fail.map(|next| &next.topic))
                .bind(fail.map(|next| &next.payload))
                .bind(wait.message.as_str())
                .bind(wait.headers.as_deref())
        }
        JoinAction::Cancel { by } => query.bind(by),
    }
}

/// A number of steps in the type of its column.
pub(crate) fn steps(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Decodes the answer of a statement that changes a join.
pub(crate) fn changed(answer: i32, detail: Option<String>) -> Result<JoinChanged, DriverError> {
    let number = || detail.as_deref().and_then(|detail| detail.parse::<u32>().ok()).unwrap_or_default();
    Ok(match answer {
        0 => JoinChanged::Changed,
        1 => JoinChanged::Unchanged,
        2 => JoinChanged::NoSuchJoin,
        3 => JoinChanged::Ended(JoinStatus::from_code(i16::try_from(number()).unwrap_or(-1))),
        4 => JoinChanged::Full { expected: number() },
        5 => JoinChanged::NoSuchMessage(EventId::from_row(detail.unwrap_or_default())),
        6 => JoinChanged::NotAMember,
        7 => JoinChanged::AlreadyWaiting,
        _ => {
            let detail = "the functions of joins are not those of this release";
            return Err(DriverError::Refused(ErrorKind::Schema, detail.to_owned()));
        }
    })
}

async fn show(
    session: &mut Session,
    sql: &Sql,
    join: &JoinId,
    members: usize,
) -> Result<Option<JoinShown>, DriverError> {
    let query = session.query(&sql.join_show).bind(join.as_str());
    let query = query.bind(i64::try_from(members).unwrap_or(i64::MAX));
    let Some(row) = query.fetch_optional(&mut session.connection).await? else { return Ok(None) };
    let ids: Vec<String> = row.try_get(MEMBERS)?;
    let states: Vec<i16> = row.try_get(MEMBERS + 1)?;
    let times: Vec<Time> = row.try_get(MEMBERS + 2)?;
    let members = ids.into_iter().zip(states).zip(times).map(|((id, state), at)| JoinMember {
        message: EventId::from_row(id),
        state: StepState::from_code(state),
        attached_at: at.0,
    });
    Ok(Some(JoinShown { join: record(&row)?, members: members.collect() }))
}

async fn list(session: &mut Session, sql: &Sql, request: &ListJoins) -> Result<Vec<JoinRecord>, DriverError> {
    let statement = match request.grouping_key {
        Some(_) => &sql.join_list_grouped,
        None => &sql.join_list,
    };
    let query = session.query(statement).bind(request.status.map(JoinStatus::code));
    let mut query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    if let Some(key) = &request.grouping_key {
        query = query.bind(key);
    }
    query.fetch_all(&mut session.connection).await?.iter().map(record).collect()
}

fn record(row: &PgRow) -> Result<JoinRecord, DriverError> {
    Ok(read_join(&Values::new(row))?)
}
