//! Joins: the member rows are authoritative, and a join counts the members that actually changed.
//!
//! The write lock is held throughout a change.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pillarbox::model::{
    Counted, EventId, FailedSteps, JoinId, JoinRecord, JoinStatus, JoinWait, Status, StepState,
};
use pillarbox::port::{JoinAction, JoinChange, JoinChanged, JoinShown, Joins, ListJoins, StoreFuture};
use pillarbox::rules::{join_refusal, new_steps, report_refusal};
use pillarbox_store_kit::{Refused, read_join, read_member};
use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::error::DriverError;
use crate::insert::insert_row;
use crate::job::Durability;
use crate::row::Values;
use crate::sql::Sql;
use crate::store::SqliteStore;
use crate::time::now;

impl Joins for SqliteStore {
    fn change_join(&self, request: JoinChange) -> StoreFuture<'_, JoinChanged> {
        self.change("change a join", Durability::Full, move |tx| change_join(tx, &tx.sql, &request))
    }

    fn show_join(&self, join: JoinId, members: usize) -> StoreFuture<'_, Option<JoinShown>> {
        self.inspector()
            .read("show a join", move |connection, sql| show_join(connection, sql, &join, members))
    }

    fn list_joins(&self, request: ListJoins) -> StoreFuture<'_, Vec<JoinRecord>> {
        self.inspector().read("list joins", move |connection, sql| list_joins(connection, sql, &request))
    }
}

/// Changes one join within an open transaction, the store's own or the user's.
pub(crate) fn change_join(
    connection: &Connection,
    sql: &Sql,
    request: &JoinChange,
) -> Result<JoinChanged, DriverError> {
    Changing { connection, sql, id: &request.join, now: now(request.now) }.apply(&request.action)
}

/// A change in progress.
struct Changing<'a> {
    connection: &'a Connection,
    sql: &'a Sql,
    id: &'a JoinId,
    now: Timestamp,
}

impl Changing<'_> {
    fn apply(&self, action: &JoinAction) -> Result<JoinChanged, DriverError> {
        let join = find_join(self.connection, self.sql, self.id)?;
        if let Some(refused) = join_refusal(join.as_ref(), action) {
            return Ok(refused);
        }
        match (action, join) {
            (JoinAction::Start { grouping_key, expected, metadata }, _) => {
                self.start(grouping_key.as_deref(), *expected, metadata.as_deref())
            }
            (_, None) => Ok(JoinChanged::NoSuchJoin),
            (JoinAction::Attach { messages }, Some(join)) => self.attach(&join, messages),
            (JoinAction::Report { message, state }, _) => self.report(message, *state),
            (JoinAction::Wait(wait), _) => self.wait(wait),
            (JoinAction::Cancel { by }, Some(join)) => self.cancel(join, by),
        }
    }

    fn start(
        &self,
        grouping_key: Option<&str>,
        expected: u32,
        metadata: Option<&str>,
    ) -> Result<JoinChanged, DriverError> {
        let start = params![self.id.as_str(), grouping_key, expected, metadata, self.now.as_microsecond()];
        self.connection.prepare_cached(&self.sql.join_start)?.execute(start)?;
        Ok(JoinChanged::Changed)
    }

    fn attach(&self, join: &JoinRecord, messages: &[EventId]) -> Result<JoinChanged, DriverError> {
        let mut fresh = Vec::new();
        for message in messages {
            if self.member(message)?.is_none() {
                fresh.push((message, self.step(message)?));
            }
        }
        let steps = match new_steps(join, fresh) {
            Ok(steps) => steps,
            Err(refused) => return Ok(refused),
        };
        for (message, state) in &steps {
            let member = params![self.id.as_str(), message.as_str(), state.code(), self.now.as_microsecond()];
            self.connection.prepare_cached(&self.sql.member_add)?.execute(member)?;
            self.connection.prepare_cached(&self.sql.step_mark)?.execute([message.as_str()])?;
        }
        let mut ended = Ended::default();
        *ended.of(self.id) = Counted::attaching(steps.into_values());
        self.end(ended)
    }

    fn report(&self, message: &EventId, state: StepState) -> Result<JoinChanged, DriverError> {
        if let Some(refused) = report_refusal(self.member(message)?, state) {
            return Ok(refused);
        }
        let report = params![self.id.as_str(), message.as_str(), state.code()];
        self.connection.prepare_cached(&self.sql.member_report)?.execute(report)?;
        let mut ended = Ended::default();
        ended.of(self.id).add(state);
        self.end(ended)
    }

    fn wait(&self, wait: &JoinWait) -> Result<JoinChanged, DriverError> {
        let (complete, fail) = (wait.on_complete.as_ref(), wait.on_fail.as_ref());
        self.connection.prepare_cached(&self.sql.join_wait)?.execute(params![
            self.id.as_str(),
            wait.failed_steps == FailedSteps::Fail,
            complete.map(|next| &next.topic),
            complete.map(|next| &next.payload),
            fail.map(|next| &next.topic),
            fail.map(|next| &next.payload),
            wait.message.as_str(),
            wait.headers,
            self.now.as_microsecond(),
        ])?;
        fire(self.connection, self.sql, self.id, self.now)?;
        Ok(JoinChanged::Changed)
    }

    fn cancel(&self, join: JoinRecord, by: &str) -> Result<JoinChanged, DriverError> {
        let cancelled = JoinRecord { status: JoinStatus::Cancelled, ..join };
        end_join(self.connection, self.sql, &cancelled, self.now)?;
        let audit = params![self.now.as_microsecond(), by, "cancel join", self.id.as_str()];
        self.connection.prepare_cached(&self.sql.audit)?.execute(audit)?;
        Ok(JoinChanged::Changed)
    }

    fn end(&self, ended: Ended) -> Result<JoinChanged, DriverError> {
        ended.count(self.connection, self.sql, self.now)?;
        Ok(JoinChanged::Changed)
    }

    fn member(&self, message: &EventId) -> Result<Option<StepState>, DriverError> {
        let state = self
            .connection
            .prepare_cached(&self.sql.member_show)?
            .query_row([self.id.as_str(), message.as_str()], |row| row.get(0).map(StepState::from_code))
            .optional()?;
        Ok(state)
    }

    /// The state of a message of the queue as a step; none if there is no such message.
    fn step(&self, message: &EventId) -> Result<Option<StepState>, DriverError> {
        let status = self
            .connection
            .prepare_cached(&self.sql.step_show)?
            .query_row([message.as_str()], |row| row.get(0).map(Status::from_code))
            .optional()?;
        Ok(status.map(|status| StepState::of(status.unwrap_or(Status::New))))
    }
}

/// The members that one call has changed, counted by join.
#[derive(Default)]
pub(crate) struct Ended(BTreeMap<JoinId, Counted>);

impl Ended {
    fn of(&mut self, join: &JoinId) -> &mut Counted {
        self.0.entry(join.clone()).or_default()
    }

    /// Ends the pending steps of a message that is done, dead or deleted.
    pub(crate) fn message(
        &mut self,
        connection: &Connection,
        sql: &Sql,
        message: &str,
        state: StepState,
    ) -> Result<(), DriverError> {
        let mut end = connection.prepare_cached(&sql.member_end)?;
        let joins = end.query_map(params![message, state.code()], |row| row.get(0))?;
        for join in joins.collect::<Result<Vec<String>, _>>()? {
            self.of(&JoinId::from_row(join)).add(state);
        }
        Ok(())
    }

    /// Adds the counts to the joins, in the order of their ids, and ends the joins whose last step has ended.
    pub(crate) fn count(self, connection: &Connection, sql: &Sql, now: Timestamp) -> Result<(), DriverError> {
        for (join, Counted { attached, completed, failed }) in self.0 {
            let add = params![join.as_str(), attached, completed, failed, now.as_microsecond()];
            connection.prepare_cached(&sql.join_count)?.execute(add)?;
            fire(connection, sql, &join, now)?;
        }
        Ok(())
    }
}

/// Ends a join whose last step has ended and for which somebody waits, and enqueues its continuation, unless
/// it was enqueued before.
fn fire(connection: &Connection, sql: &Sql, id: &JoinId, now: Timestamp) -> Result<(), DriverError> {
    let Some(mut join) = find_join(connection, sql, id)? else { return Ok(()) };
    if !join.end() {
        return Ok(());
    }
    end_join(connection, sql, &join, now)?;
    if let Some(row) = join.continuation(now)
        && !connection.prepare_cached(&sql.locate)?.exists([row.event.id().as_str()])?
    {
        insert_row(connection, sql, &row, now)?;
    }
    Ok(())
}

fn end_join(
    connection: &Connection,
    sql: &Sql,
    join: &JoinRecord,
    now: Timestamp,
) -> Result<(), DriverError> {
    let fired = join.fired.as_ref().map(EventId::as_str);
    let end = params![join.id.as_str(), join.status.code(), fired, now.as_microsecond()];
    connection.prepare_cached(&sql.join_end)?.execute(end)?;
    Ok(())
}

/// Deletes joins that ended before a time, at most `limit`, with their members.
pub(crate) fn purge_joins(
    connection: &Connection,
    sql: &Sql,
    before_us: i64,
    limit: i64,
) -> Result<(), DriverError> {
    let old: Vec<String> = connection
        .prepare_cached(&sql.joins_ended)?
        .query_map(params![before_us, limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for join in old {
        if connection.prepare_cached(&sql.join_purge)?.execute(params![join, before_us])? > 0 {
            connection.prepare_cached(&sql.members_purge)?.execute([join])?;
        }
    }
    Ok(())
}

fn show_join(
    connection: &Connection,
    sql: &Sql,
    id: &JoinId,
    limit: usize,
) -> Result<Option<JoinShown>, DriverError> {
    let Some(join) = find_join(connection, sql, id)? else { return Ok(None) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let members = read_rows(connection, &sql.members, params![id.as_str(), limit], |row| read_member(row))?;
    Ok(Some(JoinShown { join, members }))
}

fn list_joins(
    connection: &Connection,
    sql: &Sql,
    request: &ListJoins,
) -> Result<Vec<JoinRecord>, DriverError> {
    let status = request.status.map(JoinStatus::code);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    match &request.grouping_key {
        Some(key) => {
            read_rows(connection, &sql.joins_grouped, params![status, limit, key], |row| read_join(row))
        }
        None => read_rows(connection, &sql.joins, params![status, limit], |row| read_join(row)),
    }
}

fn find_join(connection: &Connection, sql: &Sql, id: &JoinId) -> Result<Option<JoinRecord>, DriverError> {
    Ok(read_rows(connection, &sql.join_show, [id.as_str()], |row| read_join(row))?.pop())
}

fn read_rows<T>(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    read: fn(&Values<'_>) -> Result<T, Refused>,
) -> Result<Vec<T>, DriverError> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut read_rows = Vec::new();
    while let Some(row) = rows.next()? {
        read_rows.push(read(&Values(row))?);
    }
    Ok(read_rows)
}
