//! Joins: the member rows are authoritative, and a join counts the members that actually changed.
//!
//! The write lock is held throughout a change.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pillarbox::model::{
    Continuation, Counted, Event, EventId, FailedSteps, Headers, JoinId, JoinMember, JoinRecord, JoinStatus,
    JoinWait, NewRow, Placement, Status, StepState,
};
use pillarbox::port::{JoinAction, JoinChange, JoinChanged, JoinShown, Joins, ListJoins, StoreFuture};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::DriverError;
use crate::insert::insert_row;
use crate::job::Durability;
use crate::sql::Sql;
use crate::store::SqliteStore;
use crate::time::{now, timestamp};

/// The columns of every read of joins, in the order that [`read_join`] expects.
pub(crate) const COLUMNS: &str = "join_id, grouping_key, expected_steps, attached_steps, completed_steps, \
    failed_steps, status, metadata, fired_id, created_at, updated_at, fail_if_any, on_complete_topic, \
    on_complete_payload, on_fail_topic, on_fail_payload, continuation_id, continuation_headers";

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
        if let JoinAction::Start { grouping_key, expected, metadata } = action {
            return self.start(grouping_key.as_deref(), *expected, metadata.as_deref());
        }
        let Some(join) = find_join(self.connection, self.sql, self.id)? else {
            return Ok(JoinChanged::NoSuchJoin);
        };
        match action {
            JoinAction::Report { message, state } => self.report(message, *state),
            JoinAction::Cancel { .. } if join.status == JoinStatus::Cancelled => Ok(JoinChanged::Unchanged),
            JoinAction::Attach { messages } => self.attach(&join, messages),
            _ if join.status != JoinStatus::Pending => Ok(JoinChanged::Ended(join.status)),
            JoinAction::Wait(_) if join.wait.is_some() => Ok(JoinChanged::AlreadyWaiting),
            JoinAction::Wait(wait) => self.wait(wait),
            JoinAction::Cancel { by } => self.cancel(by),
            JoinAction::Start { .. } => Ok(JoinChanged::Unchanged),
        }
    }

    fn start(
        &self,
        grouping_key: Option<&str>,
        expected: u32,
        metadata: Option<&str>,
    ) -> Result<JoinChanged, DriverError> {
        let started = self.connection.prepare_cached(&self.sql.join_start)?.execute(params![
            self.id.as_str(),
            grouping_key,
            expected,
            metadata,
            self.now.as_microsecond(),
        ])?;
        Ok(if started > 0 { JoinChanged::Changed } else { JoinChanged::Unchanged })
    }

    fn attach(&self, join: &JoinRecord, messages: &[EventId]) -> Result<JoinChanged, DriverError> {
        let mut fresh = BTreeMap::new();
        for message in messages {
            if self.member(message)?.is_some() {
                continue;
            }
            if join.status != JoinStatus::Pending {
                return Ok(JoinChanged::Ended(join.status));
            }
            match self.step(message)? {
                Some(state) => fresh.insert(message, state),
                None => return Ok(JoinChanged::NoSuchMessage(message.clone())),
            };
        }
        if fresh.is_empty() {
            return Ok(JoinChanged::Unchanged);
        }
        if join.attached as usize + fresh.len() > join.expected as usize {
            return Ok(JoinChanged::Full { expected: join.expected });
        }
        let mut ended = Ended::default();
        for (message, state) in fresh {
            let member = params![self.id.as_str(), message.as_str(), state.code(), self.now.as_microsecond()];
            self.connection.prepare_cached(&self.sql.member_add)?.execute(member)?;
            self.connection.prepare_cached(&self.sql.step_mark)?.execute([message.as_str()])?;
            let counted = ended.of(self.id);
            counted.attached += 1;
            counted.add(state);
        }
        self.end(ended)
    }

    fn report(&self, message: &EventId, state: StepState) -> Result<JoinChanged, DriverError> {
        match self.member(message)? {
            None => Ok(JoinChanged::NotAMember),
            Some(StepState::Pending) if state != StepState::Pending => {
                let report = params![self.id.as_str(), message.as_str(), state.code()];
                self.connection.prepare_cached(&self.sql.member_report)?.execute(report)?;
                let mut ended = Ended::default();
                ended.of(self.id).add(state);
                self.end(ended)
            }
            Some(_) => Ok(JoinChanged::Unchanged),
        }
    }

    fn wait(&self, wait: &JoinWait) -> Result<JoinChanged, DriverError> {
        let topic = |message: &Option<Continuation>| message.as_ref().map(|one| one.topic.clone());
        let payload = |message: &Option<Continuation>| message.as_ref().map(|one| one.payload.clone());
        self.connection.prepare_cached(&self.sql.join_wait)?.execute(params![
            self.id.as_str(),
            wait.failed_steps == FailedSteps::Fail,
            topic(&wait.on_complete),
            payload(&wait.on_complete),
            topic(&wait.on_fail),
            payload(&wait.on_fail),
            wait.message.as_str(),
            wait.headers,
            self.now.as_microsecond(),
        ])?;
        fire(self.connection, self.sql, self.id, self.now)?;
        Ok(JoinChanged::Changed)
    }

    fn cancel(&self, by: &str) -> Result<JoinChanged, DriverError> {
        let now_us = self.now.as_microsecond();
        end_join(self.connection, self.sql, self.id, JoinStatus::Cancelled, None, now_us)?;
        let audit = params![now_us, by, "cancel join", self.id.as_str()];
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

/// Ends a join whose last step has ended and for which somebody waits, and enqueues its continuation.
fn fire(connection: &Connection, sql: &Sql, id: &JoinId, now: Timestamp) -> Result<(), DriverError> {
    let Some(join) = find_join(connection, sql, id)? else { return Ok(()) };
    let Some(status) = join.verdict().filter(|_| join.status == JoinStatus::Pending) else { return Ok(()) };
    let Some(JoinWait { on_complete, on_fail, message, headers, .. }) = join.wait else { return Ok(()) };
    let continuation = if status == JoinStatus::Completed { on_complete } else { on_fail };
    let fired = continuation.as_ref().map(|_| &message);
    end_join(connection, sql, id, status, fired, now.as_microsecond())?;
    match continuation {
        Some(continuation) => enqueue(connection, sql, message, continuation, headers.as_deref(), now),
        None => Ok(()),
    }
}

fn end_join(
    connection: &Connection,
    sql: &Sql,
    id: &JoinId,
    status: JoinStatus,
    fired: Option<&EventId>,
    now_us: i64,
) -> Result<(), DriverError> {
    let end = params![id.as_str(), status.code(), fired.map(EventId::as_str), now_us];
    connection.prepare_cached(&sql.join_end)?.execute(end)?;
    Ok(())
}

/// Enqueues the continuation of a join, unless it was enqueued before.
fn enqueue(
    connection: &Connection,
    sql: &Sql,
    message: EventId,
    continuation: Continuation,
    headers: Option<&str>,
    now: Timestamp,
) -> Result<(), DriverError> {
    if connection.prepare_cached(&sql.locate)?.exists([message.as_str()])? {
        return Ok(());
    }
    let headers = Headers::from_stored(headers).unwrap_or_default();
    let event = Event::text(continuation.topic, continuation.payload).headers(headers).occurred_at(now);
    let row = NewRow { event: event.build_from_row(message), placement: Placement::Queue };
    insert_row(connection, sql, &row, now)?;
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
    let members = connection
        .prepare_cached(&sql.members)?
        .query_map(params![id.as_str(), limit], |row| {
            Ok(JoinMember {
                message: EventId::from_row(row.get::<_, String>(0)?),
                state: StepState::from_code(row.get(1)?),
                attached_at: timestamp(row.get(2)?),
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(Some(JoinShown { join, members }))
}

fn list_joins(
    connection: &Connection,
    sql: &Sql,
    request: &ListJoins,
) -> Result<Vec<JoinRecord>, DriverError> {
    let status = request.status.map(JoinStatus::code);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let joins = match &request.grouping_key {
        Some(key) => connection
            .prepare_cached(&sql.joins_grouped)?
            .query_map(params![status, limit, key], read_join)?
            .collect::<Result<_, _>>()?,
        None => connection
            .prepare_cached(&sql.joins)?
            .query_map(params![status, limit], read_join)?
            .collect::<Result<_, _>>()?,
    };
    Ok(joins)
}

fn find_join(connection: &Connection, sql: &Sql, id: &JoinId) -> Result<Option<JoinRecord>, DriverError> {
    Ok(connection.prepare_cached(&sql.join_show)?.query_row([id.as_str()], read_join).optional()?)
}

fn read_join(row: &rusqlite::Row<'_>) -> rusqlite::Result<JoinRecord> {
    Ok(JoinRecord {
        id: JoinId::from_row(row.get::<_, String>(0)?),
        grouping_key: row.get(1)?,
        expected: row.get(2)?,
        attached: row.get(3)?,
        completed: row.get(4)?,
        failed: row.get(5)?,
        status: JoinStatus::from_code(row.get(6)?),
        metadata: row.get(7)?,
        fired: row.get::<_, Option<String>>(8)?.map(EventId::from_row),
        created_at: timestamp(row.get(9)?),
        updated_at: timestamp(row.get(10)?),
        wait: read_wait(row)?,
    })
}

/// What happens when the join ends, if that was set.
fn read_wait(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<JoinWait>> {
    let Some(message) = row.get::<_, Option<String>>(16)? else { return Ok(None) };
    let continuation = |topic: usize| -> rusqlite::Result<_> {
        let (topic, payload): (Option<String>, Option<String>) = (row.get(topic)?, row.get(topic + 1)?);
        Ok(topic.map(|topic| Continuation { topic, payload: payload.unwrap_or_default() }))
    };
    let ignores = row.get::<_, Option<bool>>(11)? == Some(false);
    Ok(Some(JoinWait {
        failed_steps: if ignores { FailedSteps::Ignore } else { FailedSteps::Fail },
        on_complete: continuation(12)?,
        on_fail: continuation(14)?,
        message: EventId::from_row(message),
        headers: row.get(17)?,
    }))
}
