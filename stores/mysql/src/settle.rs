//! Reporting outcomes under a fence, in a short transaction: two round trips where all are done.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pillarbox::model::{GroupKey, Lane, NodeId, Status, stored_error};
use pillarbox::port::{Change, Counts, ErrorKind, Fence, GroupState, OnDone, Outcome, Settle, Settled, Wait};
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, number};
use crate::error::Failure;
use crate::fetch::clock;
use crate::groups::show;
use crate::row::{number_of, text_number, text_of, time_of};
use crate::sql::{Sql, fill, list, locked_rows, places};
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
    let Some(ended) = Ended::lock(session, sql, request, node).await? else {
        return Ok(Settled { held: false, stale: (0..request.outcomes.len()).collect() });
    };
    if !ended.rows.is_empty() {
        ended.write(session, sql, request).await?;
    }
    let places = request.outcomes.iter().enumerate();
    let stale = places.filter(|(_, outcome)| !ended.rows.contains_key(&outcome.seq.0));
    Ok(Settled { held: true, stale: stale.map(|(place, _)| place).collect() })
}

/// What becomes of a row that is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Kept,
    Deleted,
}

/// Pending rows that are done, locked under the node's fence.
struct Ended {
    rows: BTreeMap<i64, Done>,
    /// Those of the deleted that may have attempts on record.
    tried: Vec<String>,
}

impl Ended {
    /// None where the node is not there.
    async fn lock(
        session: &mut Session,
        sql: &Sql,
        request: &Settle,
        node: NodeId,
    ) -> Result<Option<Self>, Failure> {
        let ordered: BTreeSet<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
        let parts = [("{seqs}", list(&ordered)), ("{node_id}", node.to_string())];
        let sets = session.begin_with(&fill(&sql.done_lock, &parts)).await?;
        let set = |place: usize| sets.get(place).map_or(&[][..], Vec::as_slice);
        if set(0).is_empty() {
            return Ok(None);
        }
        let mut ended = Self { rows: BTreeMap::new(), tried: Vec::new() };
        for row in set(1) {
            let deleted = request.on_done == OnDone::Delete && text_number(row, 1) == 0;
            ended.rows.insert(text_number(row, 0), if deleted { Done::Deleted } else { Done::Kept });
            ended.tried.extend(text_of(row, 2).filter(|_| deleted).map(str::to_owned));
        }
        Ok(Some(ended))
    }

    fn those(&self, wanted: Done) -> Vec<i64> {
        self.rows.iter().filter(|(_, done)| **done == wanted).map(|(seq, _)| *seq).collect()
    }

    /// The statements that are needed, the last of them with the commit.
    async fn write(&self, session: &mut Session, sql: &Sql, request: &Settle) -> Result<(), Failure> {
        if !self.tried.is_empty() {
            forget_attempts(session, sql, self.tried.iter().map(String::as_str)).await?;
        }
        let mut texts = Vec::new();
        for (done, statement) in [(Done::Kept, &sql.done), (Done::Deleted, &sql.delete)] {
            let seqs = self.those(done);
            if !seqs.is_empty() {
                let parts = [("{rows}", locked_rows(seqs)), ("{now}", now_sql(request.now))];
                texts.push(fill(statement, &parts));
            }
        }
        session.commit_with(&texts.join("; ")).await
    }
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
    forget_attempts(session, sql, ids.iter().copied()).await?;
    session
        .once(fill(&sql.delete, &[("{rows}", locked_rows(seqs))]))
        .execute(&mut session.connection)
        .await?;
    Ok(())
}

async fn forget_attempts(
    session: &mut Session,
    sql: &Sql,
    ids: impl ExactSizeIterator<Item = &str>,
) -> Result<(), Failure> {
    let forget = session.once(fill(&sql.attempts_forget, &[("{ids}", places(ids.len()))]));
    ids.fold(forget, |query, id| query.bind(id)).execute(&mut session.connection).await?;
    Ok(())
}
