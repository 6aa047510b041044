//! Reporting outcomes under a fence: one round trip where all are done, else a short transaction.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use pillarbox::model::{GroupKey, Lane, NodeId, Status, stored_error};
use pillarbox::port::{Change, Counts, ErrorKind, Fence, GroupState, OnDone, Outcome, Settle, Settled, Wait};
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, number, numbers};
use crate::error::Failure;
use crate::fetch::clock;
use crate::groups::show;
use crate::row::{number_of, text_of, time_of};
use crate::sql::{Sql, fill, list, places};
use crate::time::{Time, literal, micros, now_sql};

pub(crate) async fn settle(session: &mut Session, sql: &Sql, request: &Settle) -> Result<Settled, Failure> {
    let all_done = request.outcomes.iter().all(|outcome| outcome.change == Change::Done);
    match &request.fence {
        Fence::Node(node) if all_done => settle_done(session, sql, request, *node).await,
        _ => settle_any(session, sql, request).await,
    }
}

/// Nearly every batch: all done.
async fn settle_done(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    node: NodeId,
) -> Result<Settled, Failure> {
    let ordered: BTreeSet<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
    let statement = match request.on_done {
        OnDone::Keep => &sql.done,
        OnDone::Delete => &sql.done_delete,
    };
    let parts =
        [("{seqs}", list(&ordered)), ("{node_id}", node.to_string()), ("{now}", now_sql(request.now))];
    let sets = session.results(fill(statement, &parts)).await?;
    let changed: HashSet<i64> = sets.iter().flat_map(|set| numbers(set)).collect();
    let held = !changed.is_empty() || is_there(session, sql, node).await?;
    let outcomes = request.outcomes.iter().enumerate();
    let stale = outcomes.filter(|(_, outcome)| !changed.contains(&outcome.seq.0)).map(|(place, _)| place);
    Ok(Settled { held, stale: stale.collect() })
}

async fn is_there(session: &mut Session, sql: &Sql, node: NodeId) -> Result<bool, Failure> {
    let query = session.query(&*sql.node_there).bind(node.to_string());
    Ok(number(&query.fetch_one(&mut session.connection).await?, 0)? > 0)
}

async fn settle_any(session: &mut Session, sql: &Sql, request: &Settle) -> Result<Settled, Failure> {
    let every = || (0..request.outcomes.len()).collect();
    session.begin().await?;
    let (now, by) = match &request.fence {
        Fence::Node(node) => {
            let text = fill(&sql.node_lock, &[("{now}", now_sql(request.now))]);
            let query = session.query(text).bind(node.to_string());
            let Some(row) = query.fetch_optional(&mut session.connection).await? else {
                return Ok(Settled { held: false, stale: every() });
            };
            (request.now.or(time_of(&row, 0)).unwrap_or_default(), node.to_string())
        }
        Fence::Owner(owner) => (time(session, sql, request.now).await?, owner.as_str().to_owned()),
        Fence::Open => (time(session, sql, request.now).await?, "-".to_owned()),
    };
    let batch = Batch::read(session, sql, request).await?;
    batch.write(session, sql, now, &by).await?;
    session.commit().await?;
    Ok(Settled { held: true, stale: batch.stale })
}

async fn time(session: &mut Session, sql: &Sql, given: Option<Timestamp>) -> Result<Timestamp, Failure> {
    match given {
        Some(now) => Ok(now),
        None => clock(session, sql).await,
    }
}

/// A pending row as it is, and what it becomes.
struct Settling {
    event_id: String,
    status: i64,
    attempts: i64,
    lane: Option<i64>,
    owner: Option<String>,
    token: i64,
    /// A message id keeps a row that is done.
    named: bool,
    delay_us: Option<i64>,
    error: Option<String>,
    ended: bool,
    kept: bool,
    touched: bool,
}

impl Settling {
    fn read(row: &MySqlRow) -> Result<Self, Failure> {
        Ok(Self {
            event_id: text_of(row, 1).unwrap_or_default().to_owned(),
            status: number(row, 2)?,
            attempts: number(row, 3)?,
            lane: number_of(row, 4),
            owner: text_of(row, 5).map(str::to_owned),
            token: number_of(row, 6).unwrap_or_default(),
            named: number(row, 7)? != 0,
            delay_us: None,
            error: None,
            ended: false,
            kept: false,
            touched: false,
        })
    }

    fn lets_through(&self, fence: &Fence, outcome: &Outcome) -> bool {
        let owned = match fence {
            Fence::Owner(owner) => {
                self.owner.as_deref() == Some(owner.as_str()) && self.token == outcome.token.0
            }
            _ => true,
        };
        owned && !self.ended
    }

    fn apply(&mut self, change: &Change) {
        self.touched = true;
        self.kept = matches!(change, Change::Attempt | Change::Extend { .. });
        match change {
            Change::Done => {
                self.status = Status::Done.code().into();
                self.ended = true;
            }
            Change::Retry { delay, error, counts, wait } => {
                self.status = Status::Retry.code().into();
                self.delay_us = Some(micros(*delay));
                self.error = Some(stored_error(error));
                self.attempts += count(*counts);
                if *wait == Wait::Delayed {
                    self.delay();
                }
            }
            Change::Dead { error, counts, .. } => {
                self.status = Status::Dead.code().into();
                self.error = Some(stored_error(error));
                self.attempts += count(*counts);
                self.ended = true;
            }
            Change::Delay => self.delay(),
            Change::Attempt => self.attempts += 1,
            Change::Release => {
                self.attempts -= i64::from(self.owner.is_some() && self.attempts > 0);
            }
            Change::Extend { .. } => {}
        }
        if !self.kept {
            self.owner = None;
        }
    }

    /// Rows of the queue stay in it.
    fn delay(&mut self) {
        if self.lane != Some(i64::from(Lane::QUEUE.0)) {
            self.lane = Some(i64::from(Lane::DELAYED.0));
        }
    }
}

const fn count(counts: Counts) -> i64 {
    match counts {
        Counts::One => 1,
        Counts::None => 0,
        Counts::Back => -1,
    }
}

/// A failed attempt to remember.
struct Failed {
    event_id: String,
    number: i64,
    error: String,
}

/// What a batch of outcomes makes of its rows.
struct Batch {
    rows: BTreeMap<i64, Settling>,
    deleted: BTreeSet<i64>,
    failed: Vec<Failed>,
    /// Groups to block, by the event that died and why.
    blocks: BTreeMap<String, (String, String)>,
    stale: Vec<usize>,
}

impl Batch {
    async fn read(session: &mut Session, sql: &Sql, request: &Settle) -> Result<Self, Failure> {
        let seqs: BTreeSet<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
        let query = session.once(fill(&sql.settle_find, &[("{seqs}", list(&seqs))]));
        let found = query.fetch_all(&mut session.connection).await?;
        let rows = found.iter().map(|row| Ok((number(row, 0)?, Settling::read(row)?)));
        let mut batch = Self {
            rows: rows.collect::<Result<_, Failure>>()?,
            deleted: BTreeSet::new(),
            failed: Vec::new(),
            blocks: BTreeMap::new(),
            stale: Vec::new(),
        };
        for (place, outcome) in request.outcomes.iter().enumerate() {
            batch.apply(place, outcome, request);
        }
        Ok(batch)
    }

    fn apply(&mut self, place: usize, outcome: &Outcome, request: &Settle) {
        let row = self.rows.get_mut(&outcome.seq.0).filter(|row| row.lets_through(&request.fence, outcome));
        let Some(row) = row else {
            self.stale.push(place);
            return;
        };
        row.apply(&outcome.change);
        let remembered = match &outcome.change {
            Change::Retry { .. } => true,
            Change::Dead { counts, .. } => *counts == Counts::One,
            _ => false,
        };
        if let (true, Some(error)) = (remembered, &row.error) {
            let failed =
                Failed { event_id: row.event_id.clone(), number: row.attempts, error: error.clone() };
            self.failed.push(failed);
        }
        if let Change::Dead { blocks: Some(group), .. } = &outcome.change {
            let blocked = (row.event_id.clone(), row.error.clone().unwrap_or_default());
            self.blocks.entry(GroupKey::as_str(group).to_owned()).or_insert(blocked);
        }
        if outcome.change == Change::Done && request.on_done == OnDone::Delete && !row.named {
            self.deleted.insert(outcome.seq.0);
        }
    }

    async fn write(&self, session: &mut Session, sql: &Sql, now: Timestamp, by: &str) -> Result<(), Failure> {
        self.change(session, sql, now).await?;
        self.delete(session, sql).await?;
        self.remember(session, sql, now, by).await?;
        block_groups(session, sql, &self.blocks, now).await
    }

    async fn change(&self, session: &mut Session, sql: &Sql, now: Timestamp) -> Result<(), Failure> {
        let changed = || self.rows.iter().filter(|(seq, row)| row.touched && !self.deleted.contains(*seq));
        if changed().next().is_none() {
            return Ok(());
        }
        let number = |number: Option<i64>| number.map_or("NULL".to_owned(), |number| number.to_string());
        let outcomes: Vec<String> = changed()
            .map(|(seq, row)| {
                format!(
                    "SELECT {seq} AS seq, {} AS status, {} AS attempts, {} AS lane, {} AS ended, {} AS delay_us, \
                     {} AS kept, ? AS error",
                    row.status,
                    row.attempts,
                    number(row.lane),
                    i8::from(row.ended),
                    number(row.delay_us),
                    i8::from(row.kept)
                )
            })
            .collect();
        let parts = [("{outcomes}", outcomes.join(" UNION ALL ")), ("{now}", literal(now))];
        let mut query = session.once(fill(&sql.settle, &parts));
        for (_, row) in changed() {
            query = query.bind(row.error.as_deref());
        }
        query.execute(&mut session.connection).await?;
        Ok(())
    }

    async fn delete(&self, session: &mut Session, sql: &Sql) -> Result<(), Failure> {
        if self.deleted.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = self
            .rows
            .iter()
            .filter(|(seq, _)| self.deleted.contains(*seq))
            .map(|(_, row)| row.event_id.as_str())
            .collect();
        delete_rows(session, sql, self.deleted.iter().copied(), &ids).await
    }

    async fn remember(
        &self,
        session: &mut Session,
        sql: &Sql,
        now: Timestamp,
        by: &str,
    ) -> Result<(), Failure> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let rows = vec!["(?, ?, ?, ?, ?)"; self.failed.len()].join(", ");
        let mut query = session.once(fill(&sql.attempts_add, &[("{rows}", rows)]));
        for failed in &self.failed {
            query =
                query.bind(&failed.event_id).bind(failed.number).bind(Time(now)).bind(by).bind(&failed.error);
        }
        query.execute(&mut session.connection).await?;
        Ok(())
    }
}

/// Puts groups behind their dead heads; one that is paused remembers the event.
pub(crate) async fn block_groups(
    session: &mut Session,
    sql: &Sql,
    blocks: &BTreeMap<String, (String, String)>,
    now: Timestamp,
) -> Result<(), Failure> {
    let mut grown = 0_i64;
    for (key, (event, error)) in blocks {
        let query = match show(session, sql, key).await? {
            Some((_, Some(_))) => continue,
            Some((_, None)) => session.query(&*sql.group_head).bind(event).bind(key),
            None => {
                let query = session.query(&*sql.group_hold).bind(key).bind(GroupState::Blocked.as_str());
                query.bind(event).bind(error).bind("engine").bind(Time(now))
            }
        };
        query.execute(&mut session.connection).await?;
        grown += 1;
    }
    if grown > 0 {
        session.query(&*sql.epoch_grow).bind(grown).execute(&mut session.connection).await?;
    }
    Ok(())
}

/// Deletes rows that this transaction has locked, and their attempts.
pub(crate) async fn delete_rows(
    session: &mut Session,
    sql: &Sql,
    seqs: impl IntoIterator<Item = i64>,
    ids: &[&str],
) -> Result<(), Failure> {
    if ids.is_empty() {
        return Err(Failure::Refused(ErrorKind::Unexpected, "no rows to delete".to_owned()));
    }
    let forget = session.once(fill(&sql.attempts_forget, &[("{ids}", places(ids.len()))]));
    let forget = ids.iter().fold(forget, |query, id| query.bind(*id));
    forget.execute(&mut session.connection).await?;
    session.once(fill(&sql.delete, &[("{seqs}", list(seqs))])).execute(&mut session.connection).await?;
    Ok(())
}
