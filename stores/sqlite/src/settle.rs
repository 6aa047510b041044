//! Applying outcomes, fenced: the write lock is held from looking at the node's row to the commit.

use jiff::Timestamp;
use pillarbox::model::{GroupKey, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled, Wait};
use rusqlite::{CachedStatement, params};

use crate::error::Failure;
use crate::time::later;
use crate::transaction::SqliteTransaction;

pub(crate) fn settle(tx: &SqliteTransaction, request: &Settle, now: Timestamp) -> Result<Settled, Failure> {
    if let Fence::Node(node) = &request.fence {
        let here: bool =
            tx.prepare_cached(&tx.sql.node_here)?.query_row([node.to_string()], |row| row.get(0))?;
        if !here {
            return Ok(Settled { held: false, stale: (0..request.outcomes.len()).collect() });
        }
    }
    let mut settling = Settling::new(tx, request, now)?;
    let mut stale = Vec::new();
    for (place, outcome) in request.outcomes.iter().enumerate() {
        if !settling.apply(outcome)? {
            stale.push(place);
        }
    }
    Ok(Settled { held: true, stale })
}

/// A batch under way.
struct Settling<'a> {
    tx: &'a SqliteTransaction,
    request: &'a Settle,
    now: Timestamp,
    owner: Option<&'a str>,
    done: CachedStatement<'a>,
    delete: CachedStatement<'a>,
    /// Whether there are attempts that a deleted row may leave behind.
    remembers: bool,
}

impl<'a> Settling<'a> {
    fn new(tx: &'a SqliteTransaction, request: &'a Settle, now: Timestamp) -> Result<Self, Failure> {
        let owner = match &request.fence {
            Fence::Owner(owner) => Some(owner.as_str()),
            Fence::Node(_) | Fence::Open => None,
        };
        let remembers = request.on_done == OnDone::Delete && remembers(tx)?;
        let (done, delete) = (tx.prepare_cached(&tx.sql.done)?, tx.prepare_cached(&tx.sql.done_delete)?);
        Ok(Self { tx, request, now, owner, done, delete, remembers })
    }

    /// Whether the row changed.
    fn apply(&mut self, outcome: &Outcome) -> Result<bool, Failure> {
        match &outcome.change {
            Change::Done => self.done(outcome),
            Change::Retry { delay, error, counts, wait } => {
                let changed = self.tx.prepare_cached(&self.tx.sql.retry)?.execute(params![
                    outcome.seq.0,
                    later(self.now, *delay),
                    stored_error(error),
                    counted(*counts),
                    *wait == Wait::Delayed,
                    self.owner,
                    outcome.token.0,
                ])?;
                if changed > 0 {
                    self.remember(outcome, error)?;
                }
                Ok(changed > 0)
            }
            Change::Dead { error, counts, blocks } => self.dead(outcome, error, *counts, blocks.as_ref()),
            Change::Delay => self.keep(&self.tx.sql.delay, outcome),
            Change::Attempt => self.keep(&self.tx.sql.attempt, outcome),
            Change::Release => self.keep(&self.tx.sql.release, outcome),
            Change::Extend { .. } => Ok(false),
        }
    }

    fn done(&mut self, outcome: &Outcome) -> Result<bool, Failure> {
        let (seq, token) = (outcome.seq.0, outcome.token.0);
        if self.request.on_done == OnDone::Delete && self.delete.execute(params![seq, self.owner, token])? > 0
        {
            if self.remembers {
                self.tx.prepare_cached(&self.tx.sql.forget)?.execute([outcome.id.as_str()])?;
            }
            return Ok(true);
        }
        Ok(self.done.execute(params![seq, self.now.as_microsecond(), self.owner, token])? > 0)
    }

    fn dead(
        &self,
        outcome: &Outcome,
        error: &str,
        counts: Counts,
        blocks: Option<&GroupKey>,
    ) -> Result<bool, Failure> {
        let now_us = self.now.as_microsecond();
        let stored = stored_error(error);
        let changed = self.tx.prepare_cached(&self.tx.sql.dead)?.execute(params![
            outcome.seq.0,
            now_us,
            stored,
            counted(counts),
            self.owner,
            outcome.token.0,
        ])?;
        if changed == 0 {
            return Ok(false);
        }
        if counts == Counts::One {
            self.remember(outcome, error)?;
        }
        if let Some(group) = blocks {
            let blocked = self.tx.prepare_cached(&self.tx.sql.group_block)?.execute(params![
                group.as_str(),
                outcome.id.as_str(),
                stored,
                now_us,
            ])?;
            if blocked > 0 {
                self.tx.prepare_cached(&self.tx.sql.epoch_grow)?.execute([])?;
            }
        }
        Ok(true)
    }

    fn keep(&self, statement: &str, outcome: &Outcome) -> Result<bool, Failure> {
        let changed = self.tx.prepare_cached(statement)?.execute(params![
            outcome.seq.0,
            self.owner,
            outcome.token.0
        ])?;
        Ok(changed > 0)
    }

    fn remember(&self, outcome: &Outcome, error: &str) -> Result<(), Failure> {
        let by = match &self.request.fence {
            Fence::Node(node) => node.to_string(),
            Fence::Owner(owner) => owner.to_string(),
            Fence::Open => "-".to_owned(),
        };
        self.tx.prepare_cached(&self.tx.sql.remember)?.execute(params![
            outcome.seq.0,
            self.now.as_microsecond(),
            by,
            stored_error(error),
        ])?;
        Ok(())
    }
}

/// Whether there are failed attempts at all.
pub(crate) fn remembers(tx: &SqliteTransaction) -> Result<bool, Failure> {
    Ok(tx.prepare_cached(&tx.sql.remembers)?.query_row([], |row| row.get(0))?)
}

const fn counted(counts: Counts) -> i64 {
    match counts {
        Counts::One => 1,
        Counts::None => 0,
        Counts::Back => -1,
    }
}
