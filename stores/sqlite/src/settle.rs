//! Applying outcomes under a fence: the write lock is held from the check of the node's row until the commit.

use jiff::Timestamp;
use pillarbox::model::{GroupKey, StepState, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled, Wait};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::error::DriverError;
use crate::groups::block_group;
use crate::joins::Ended;
use crate::kind::Kind;
use crate::membership::is_member;
use crate::sql::Sql;
use crate::time::{later, now};

/// Settles within an open transaction, the store's own or the user's.
pub(crate) fn settle<K: Kind>(
    connection: &Connection,
    sql: &Sql,
    request: &Settle,
) -> Result<Settled, DriverError> {
    match request.fence {
        Fence::Node(node) if !is_member(connection, sql, node)? => Ok(Settled::lost(request.outcomes.len())),
        _ => K::apply(connection, sql, request),
    }
}

/// Applies outcomes to rows of the native table.
pub(crate) fn apply(connection: &Connection, sql: &Sql, request: &Settle) -> Result<Settled, DriverError> {
    let now = now(request.now);
    let mut settling = Settling::new(connection, sql, request, now)?;
    let mut stale = Vec::new();
    let mut reused = false;
    for (place, outcome) in request.outcomes.iter().enumerate() {
        if !settling.apply(outcome)? {
            stale.push(place);
            reused = reused || settling.is_anothers_number(outcome)?;
        }
    }
    settling.ended.count(connection, sql, now)?;
    Ok(Settled { reused, ..Settled::all_but(stale) })
}

/// A batch of outcomes in progress.
struct Settling<'a> {
    connection: &'a Connection,
    sql: &'a Sql,
    request: &'a Settle,
    now: Timestamp,
    owner: Option<&'a str>,
    /// In a repeated settle: failures change only rows that were available before this time.
    available_before: Option<i64>,
    done: CachedStatement<'a>,
    delete: CachedStatement<'a>,
    /// Whether any attempt history exists that a deleted row could leave behind.
    remembers: bool,
    /// Whether any join has members, so that an ended row may be one.
    joins: bool,
    ended: Ended,
}

impl<'a> Settling<'a> {
    fn new(
        connection: &'a Connection,
        sql: &'a Sql,
        request: &'a Settle,
        now: Timestamp,
    ) -> Result<Self, DriverError> {
        let owner = match &request.fence {
            Fence::Owner(owner) => Some(owner.as_str()),
            Fence::Node(_) | Fence::Open => None,
        };
        let available_before = request.repeats.map(Timestamp::as_microsecond);
        let remembers = request.on_done == OnDone::Delete && remembers(connection, sql)?;
        let joins = connection.prepare_cached(&sql.joins_here)?.query_row([], |row| row.get(0))?;
        let done = connection.prepare_cached(&sql.done)?;
        let delete = connection.prepare_cached(&sql.done_delete)?;
        let ended = Ended::default();
        Ok(Self {
            connection,
            sql,
            request,
            now,
            owner,
            available_before,
            done,
            delete,
            remembers,
            joins,
            ended,
        })
    }

    /// Applies one outcome. Returns whether the row changed.
    fn apply(&mut self, outcome: &Outcome) -> Result<bool, DriverError> {
        match &outcome.change {
            Change::Done => self.done(outcome),
            Change::Retry { delay, error, counts, wait } => {
                let changed = self.connection.prepare_cached(&self.sql.retry)?.execute(params![
                    outcome.seq.0,
                    later(self.now, *delay),
                    stored_error(error),
                    counts.attempts(),
                    *wait == Wait::Delayed,
                    self.owner,
                    outcome.token.0,
                    outcome.id.as_str(),
                    self.available_before,
                ])?;
                if changed > 0 && counts.is_recorded() {
                    self.remember(outcome, error)?;
                }
                Ok(changed > 0)
            }
            Change::Dead { error, counts, blocks } => self.dead(outcome, error, *counts, blocks.as_ref()),
            Change::Delay => self.keep(&self.sql.delay, outcome),
            Change::Attempt { attempts } => self.count(&self.sql.attempt, outcome, *attempts),
            Change::Waits { error } => {
                let (seq, token, id) = (outcome.seq.0, outcome.token.0, outcome.id.as_str());
                let waits = params![seq, self.owner, token, id, stored_error(error)];
                Ok(self.connection.prepare_cached(&self.sql.waits)?.execute(waits)? > 0)
            }
            Change::Release { attempts } => self.count(&self.sql.release, outcome, *attempts),
            Change::Extend { lease } => {
                let until = later(self.now, *lease);
                let (seq, token, id) = (outcome.seq.0, outcome.token.0, outcome.id.as_str());
                let extend = params![seq, until, self.owner, token, id];
                Ok(self.connection.prepare_cached(&self.sql.extend)?.execute(extend)? > 0)
            }
        }
    }

    fn done(&mut self, outcome: &Outcome) -> Result<bool, DriverError> {
        let (seq, token, id) = (outcome.seq.0, outcome.token.0, outcome.id.as_str());
        if self.request.on_done == OnDone::Delete
            && self.delete.execute(params![seq, self.owner, token, id])? > 0
        {
            if self.remembers {
                self.connection.prepare_cached(&self.sql.forget)?.execute([id])?;
            }
            return Ok(true);
        }
        let done = self.done.execute(params![seq, self.now.as_microsecond(), self.owner, token, id])? > 0;
        if done {
            self.step_ended(seq, StepState::Completed)?;
        }
        Ok(done)
    }

    /// Ends the row's steps in its joins, if it has any.
    fn step_ended(&mut self, seq: i64, state: StepState) -> Result<(), DriverError> {
        if !self.joins {
            return Ok(());
        }
        let mut joined = self.connection.prepare_cached(&self.sql.joined)?;
        let message: Option<String> = joined.query_row([seq], |row| row.get(0)).optional()?;
        match message {
            Some(message) => self.ended.message(self.connection, self.sql, &message, state),
            None => Ok(()),
        }
    }

    fn dead(
        &mut self,
        outcome: &Outcome,
        error: &str,
        counts: Counts,
        blocks: Option<&GroupKey>,
    ) -> Result<bool, DriverError> {
        let (now, error_text) = (self.now.as_microsecond(), stored_error(error));
        let dead = params![
            outcome.seq.0,
            now,
            error_text,
            counts.attempts(),
            self.owner,
            outcome.token.0,
            outcome.id.as_str(),
            self.available_before,
        ];
        if self.connection.prepare_cached(&self.sql.dead)?.execute(dead)? == 0
            && self.connection.prepare_cached(&self.sql.set_aside)?.execute(dead)? == 0
        {
            return Ok(false);
        }
        if counts.is_recorded() {
            self.remember(outcome, error)?;
        }
        if let Some(group) = blocks {
            block_group(self.connection, self.sql, group, &outcome.id, error, self.now)?;
        }
        self.step_ended(outcome.seq.0, StepState::Failed)?;
        Ok(true)
    }

    fn keep(&self, statement: &str, outcome: &Outcome) -> Result<bool, DriverError> {
        let changed = self.connection.prepare_cached(statement)?.execute(params![
            outcome.seq.0,
            self.owner,
            outcome.token.0,
            outcome.id.as_str(),
        ])?;
        Ok(changed > 0)
    }

    /// Sets the attempts of the row.
    fn count(&self, statement: &str, outcome: &Outcome, attempts: u32) -> Result<bool, DriverError> {
        let (seq, token, id) = (outcome.seq.0, outcome.token.0, outcome.id.as_str());
        let counted = params![seq, self.owner, token, id, attempts];
        Ok(self.connection.prepare_cached(statement)?.execute(counted)? > 0)
    }

    /// Whether the sequence number of an outcome that changed nothing belongs to another pending event.
    fn is_anothers_number(&self, outcome: &Outcome) -> Result<bool, DriverError> {
        let mut reused = self.connection.prepare_cached(&self.sql.reused)?;
        Ok(reused.query_row(params![outcome.seq.0, outcome.id.as_str()], |row| row.get(0))?)
    }

    fn remember(&self, outcome: &Outcome, error: &str) -> Result<(), DriverError> {
        let by = match &self.request.fence {
            Fence::Node(node) => node.to_string(),
            Fence::Owner(owner) => owner.to_string(),
            Fence::Open => "-".to_owned(),
        };
        self.connection.prepare_cached(&self.sql.remember)?.execute(params![
            outcome.seq.0,
            self.now.as_microsecond(),
            by,
            stored_error(error),
        ])?;
        Ok(())
    }
}

/// Whether any failed attempt is recorded.
pub(crate) fn remembers(connection: &Connection, sql: &Sql) -> Result<bool, DriverError> {
    Ok(connection.prepare_cached(&sql.remembers)?.query_row([], |row| row.get(0))?)
}
