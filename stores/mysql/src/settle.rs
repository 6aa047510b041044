//! Settling under a fence in a short transaction: two round trips if nothing failed and no join is affected.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pillarbox::model::{GroupKey, Lane, Status, StepState, held_reason, stored_error};
use pillarbox::port::{Change, Fence, GroupState, OnDone, Outcome, Settle, Settled, Wait};
use sqlx::mysql::{MySqlConnection, MySqlRow};

use crate::connection::{Session, once, prepared};
use crate::done::settle_done;
use crate::error::DriverError;
use crate::groups::show;
use crate::joins::Ended;
use crate::operate::removal;
use crate::pipeline::Pipeline;
use crate::probe::Locking;
use crate::row::{text_number, text_of};
use crate::sql::{Sql, fill, list, places, quoted};
use crate::time::{Time, literal, micros, now_sql};

pub(crate) async fn settle(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    locking: Locking,
) -> Result<Settled, DriverError> {
    let all_done = request.outcomes.iter().all(|outcome| outcome.change == Change::Done);
    match &request.fence {
        Fence::Node(node) if all_done => settle_done(session, sql, request, *node, locking).await,
        _ => {
            let mut pipeline = session.begins();
            let settled = settle_on(&mut pipeline, sql, request, locking).await?;
            let rest = pipeline.rest();
            if settled.held {
                session.commit_with(&rest).await?;
            }
            Ok(settled)
        }
    }
}

/// Settles within an open transaction, the store's own or the user's.
///
/// It decides only on locking reads: a user's transaction may be REPEATABLE READ, where a plain
/// read sees an old snapshot.
pub(crate) async fn settle_on(
    pipeline: &mut Pipeline<'_>,
    sql: &Sql,
    request: &Settle,
    locking: Locking,
) -> Result<Settled, DriverError> {
    let (guard, by) = match &request.fence {
        Fence::Node(node) => {
            let parts = [("{now}", now_sql(request.now)), ("?", format!("'{node}'"))];
            (fill(&sql.node_lock, &parts), node.to_string())
        }
        Fence::Owner(owner) => (sql.alive.to_string(), owner.as_str().to_owned()),
        Fence::Open => (sql.alive.to_string(), "-".to_owned()),
    };
    let seqs: BTreeSet<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
    let since = match request.repeats {
        Some(since) => format!("available_at >= {}", literal(since)),
        None => "false".to_owned(),
    };
    let parts = [("{seqs}", list(&seqs)), ("{since}", since), ("{skip_locked}", locking.words())];
    let find = fill(&sql.settle_find, &parts);
    let (now, sets) = pipeline.ask_at(sql, request.now, &[guard, find]).await?;
    let set = |place: usize| sets.get(place).map_or(&[][..], Vec::as_slice);
    if set(0).is_empty() {
        return Ok(Settled::lost(request.outcomes.len()));
    }
    let mut batch = Batch::new(set(1), request);
    if locking == Locking::Skips {
        batch.find_busy(pipeline, sql, request).await?;
    }
    batch.write(pipeline, sql, now, &by).await?;
    let mut ended = Ended::default();
    ended.messages(pipeline, sql, &batch.steps).await?;
    ended.count(pipeline, sql, now).await?;
    Ok(Settled { held: true, stale: batch.stale, busy: batch.busy, reused: batch.reused })
}

/// Pending rows that SKIP LOCKED skipped because other transactions have locked them.
pub(crate) struct Busy(BTreeSet<(i64, String)>);

impl Busy {
    /// The statement that finds the pending rows among the rows that could not be locked.
    pub(crate) fn sql(sql: &Sql, missing: &BTreeSet<i64>) -> String {
        fill(&sql.settle_busy, &[("{seqs}", list(missing))])
    }

    pub(crate) fn read(sets: &[Vec<MySqlRow>]) -> Self {
        let pair = |row: &MySqlRow| (text_number(row, 0), text_of(row, 1).unwrap_or_default().to_owned());
        Self(sets.iter().flatten().map(pair).collect())
    }

    pub(crate) fn has(&self, outcome: &Outcome) -> bool {
        !self.0.is_empty() && self.0.contains(&(outcome.seq.0, outcome.id.to_string()))
    }

    /// Whether one of these rows has an outcome's sequence number but belongs to another event.
    pub(crate) fn is_reused(&self, request: &Settle) -> bool {
        let is = |(seq, id): &(i64, String)| {
            request.outcomes.iter().any(|outcome| outcome.seq.0 == *seq && outcome.id.as_str() == id)
        };
        !self.0.iter().all(is)
    }
}

/// A count as its column stores it.
pub(crate) fn stored_count(count: u32) -> i64 {
    i32::try_from(count).unwrap_or(i32::MAX).into()
}

/// A pending row as it was read, and its new state.
struct Settling {
    event_id: String,
    status: i64,
    attempts: i64,
    lane: Option<i64>,
    owner: Option<String>,
    token: i64,
    /// Whether the row has a message id. It is then kept when done, to deduplicate later writes.
    named: bool,
    /// Whether the row is marked as a step of joins. It is then kept when done, too.
    joined: bool,
    /// Whether the row became available since the first call, whose answer was lost.
    since: bool,
    delay_us: Option<i64>,
    lease_us: Option<i64>,
    error: Option<String>,
    ended: bool,
    kept: bool,
    touched: bool,
}

impl Settling {
    fn read(row: &MySqlRow) -> Self {
        Self {
            event_id: text_of(row, 1).unwrap_or_default().to_owned(),
            status: text_number(row, 2),
            attempts: text_number(row, 3),
            lane: text_of(row, 4).and_then(|lane| lane.parse().ok()),
            owner: text_of(row, 5).map(str::to_owned),
            token: text_number(row, 6),
            named: text_number(row, 7) != 0,
            joined: text_number(row, 8) != 0,
            since: text_number(row, 9) != 0,
            delay_us: None,
            lease_us: None,
            error: None,
            ended: false,
            kept: false,
            touched: false,
        }
    }

    fn lets_through(&self, fence: &Fence, outcome: &Outcome) -> bool {
        let owned = match fence {
            Fence::Owner(owner) => {
                self.owner.as_deref() == Some(owner.as_str()) && self.token == outcome.token.0
            }
            _ => true,
        };
        let refused = match outcome.change {
            Change::Extend { .. } => self.owner.is_none(),
            Change::Retry { .. } | Change::Dead { .. } => self.since,
            _ => false,
        };
        self.event_id == outcome.id.as_str() && owned && !self.ended && !refused
    }

    fn apply(&mut self, change: &Change) {
        self.touched = true;
        self.kept = matches!(change, Change::Attempt { .. } | Change::Waits { .. } | Change::Extend { .. });
        match change {
            Change::Done => {
                self.status = Status::Done.code().into();
                self.ended = true;
            }
            Change::Retry { delay, error, counts, wait } => {
                self.status = Status::Retry.code().into();
                self.delay_us = Some(micros(*delay));
                self.error = Some(stored_error(error));
                self.attempts = stored_count(counts.attempts());
                if *wait == Wait::Delayed {
                    self.delay();
                }
            }
            Change::Dead { error, counts, .. } => {
                self.status = Status::Dead.code().into();
                self.error = Some(stored_error(error));
                self.attempts = stored_count(counts.attempts());
                self.ended = true;
            }
            Change::Delay => self.delay(),
            Change::Attempt { attempts } | Change::Release { attempts } => {
                self.attempts = stored_count(*attempts);
            }
            Change::Waits { error } => self.error = Some(stored_error(error)),
            Change::Extend { lease } => self.lease_us = Some(micros(*lease)),
        }
        if !self.kept {
            self.owner = None;
        }
    }

    /// The new state, as one row of the settle statement.
    fn outcome(&self, seq: i64) -> String {
        let number = |number: Option<i64>| number.map_or("NULL".to_owned(), |number| number.to_string());
        format!(
            "SELECT {seq} AS seq, {} AS status, {} AS attempts, {} AS lane, {} AS ended, {} AS delay_us, \
             {} AS lease_us, {} AS kept, {} AS error",
            self.status,
            self.attempts,
            number(self.lane),
            i8::from(self.ended),
            number(self.delay_us),
            number(self.lease_us),
            i8::from(self.kept),
            if self.error.is_some() { "?" } else { "CAST(NULL AS char)" }
        )
    }

    /// Moves the row to the lane of delayed rows. Messages of the queue stay in their lane.
    fn delay(&mut self) {
        if self.lane != Some(i64::from(Lane::QUEUE.0)) {
            self.lane = Some(i64::from(Lane::DELAYED.0));
        }
    }
}

/// A failed attempt for the attempt history.
struct Failed {
    event_id: String,
    number: i64,
    error: String,
}

/// The changes that a batch of outcomes makes to its rows.
struct Batch {
    rows: BTreeMap<i64, Settling>,
    deleted: BTreeSet<i64>,
    failed: Vec<Failed>,
    /// Groups to block, each with the id and the error of its dead event.
    blocks: BTreeMap<String, (String, String)>,
    /// Ended messages that are steps of joins.
    steps: BTreeMap<String, StepState>,
    stale: Vec<usize>,
    busy: Vec<usize>,
    /// Whether an outcome's sequence number belongs to another event now.
    reused: bool,
    /// The owner whose claims end, as an SQL expression.
    owner: String,
}

impl Batch {
    fn new(found: &[MySqlRow], request: &Settle) -> Self {
        let mut batch = Self {
            rows: found.iter().map(|row| (text_number(row, 0), Settling::read(row))).collect(),
            deleted: BTreeSet::new(),
            failed: Vec::new(),
            blocks: BTreeMap::new(),
            steps: BTreeMap::new(),
            stale: Vec::new(),
            busy: Vec::new(),
            reused: false,
            owner: match &request.fence {
                Fence::Owner(owner) => quoted(owner.as_str()),
                Fence::Node(_) | Fence::Open => "NULL".to_owned(),
            },
        };
        for (place, outcome) in request.outcomes.iter().enumerate() {
            batch.apply(place, outcome, request);
        }
        batch
    }

    /// Separates rows that are locked by others (busy) from rows that are gone or ended (stale).
    async fn find_busy(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        sql: &Sql,
        request: &Settle,
    ) -> Result<(), DriverError> {
        let stale = self.stale.iter().map(|place| request.outcomes[*place].seq.0);
        let missing: BTreeSet<i64> = stale.filter(|seq| !self.rows.contains_key(seq)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let busy = Busy::read(&pipeline.ask(&[Busy::sql(sql, &missing)]).await?);
        self.reused |= busy.is_reused(request);
        let stale = std::mem::take(&mut self.stale);
        (self.busy, self.stale) = stale.into_iter().partition(|place| {
            let outcome = &request.outcomes[*place];
            missing.contains(&outcome.seq.0) && busy.has(outcome)
        });
        Ok(())
    }

    fn apply(&mut self, place: usize, outcome: &Outcome, request: &Settle) {
        let row = self.rows.get_mut(&outcome.seq.0);
        self.reused |= row.as_ref().is_some_and(|row| row.event_id != outcome.id.as_str());
        let Some(row) = row.filter(|row| row.lets_through(&request.fence, outcome)) else {
            self.stale.push(place);
            return;
        };
        row.apply(&outcome.change);
        let remembered = match &outcome.change {
            Change::Retry { counts, .. } | Change::Dead { counts, .. } => counts.is_recorded(),
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
        let state = match &outcome.change {
            Change::Done => StepState::Completed,
            Change::Dead { .. } => StepState::Failed,
            _ => return,
        };
        if row.joined {
            self.steps.insert(row.event_id.clone(), state);
        } else if state == StepState::Completed && request.on_done == OnDone::Delete && !row.named {
            self.deleted.insert(outcome.seq.0);
        }
    }

    async fn write(
        &self,
        pipeline: &mut Pipeline<'_>,
        sql: &Sql,
        now: Timestamp,
        by: &str,
    ) -> Result<(), DriverError> {
        self.change(pipeline, sql, now).await?;
        self.delete(pipeline, sql);
        self.remember(pipeline, sql, now, by).await?;
        if self.blocks.is_empty() {
            return Ok(());
        }
        block_groups(pipeline.connection().await?, sql, &self.blocks, now).await
    }

    /// Updates the rows that stay. Error texts come from outside, so they are bound as parameters and appear
    /// in no statement log.
    async fn change(
        &self,
        pipeline: &mut Pipeline<'_>,
        sql: &Sql,
        now: Timestamp,
    ) -> Result<(), DriverError> {
        let changed = self.rows.iter().filter(|(seq, row)| row.touched && !self.deleted.contains(*seq));
        let changed: Vec<(&i64, &Settling)> = changed.collect();
        if changed.is_empty() {
            return Ok(());
        }
        let outcomes: Vec<String> = changed.iter().map(|(seq, row)| row.outcome(**seq)).collect();
        let parts = [
            ("{outcomes}", outcomes.join(" UNION ALL ")),
            ("{now}", literal(now)),
            ("{owner}", self.owner.clone()),
        ];
        let statement = fill(&sql.settle, &parts);
        let errors: Vec<&str> = changed.iter().filter_map(|(_, row)| row.error.as_deref()).collect();
        if errors.is_empty() {
            pipeline.push(statement);
            return Ok(());
        }
        pipeline.run(errors.into_iter().fold(once(statement), |query, error| query.bind(error))).await
    }

    fn delete(&self, pipeline: &mut Pipeline<'_>, sql: &Sql) {
        if self.deleted.is_empty() {
            return;
        }
        let rows = self.rows.iter().filter(|(seq, _)| self.deleted.contains(*seq));
        let ids: Vec<&str> = rows.map(|(_, row)| row.event_id.as_str()).collect();
        pipeline.push(removal(sql, self.deleted.iter().copied(), &ids));
    }

    async fn remember(
        &self,
        pipeline: &mut Pipeline<'_>,
        sql: &Sql,
        now: Timestamp,
        by: &str,
    ) -> Result<(), DriverError> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let rows = vec!["(?, ?, ?, ?, ?)"; self.failed.len()].join(", ");
        let mut query = once(fill(&sql.attempts_add, &[("{rows}", rows)]));
        for failed in &self.failed {
            query =
                query.bind(&failed.event_id).bind(failed.number).bind(Time(now)).bind(by).bind(&failed.error);
        }
        pipeline.run(query).await
    }
}

/// Blocks groups behind their dead events. A paused group stays paused and remembers the event.
pub(crate) async fn block_groups(
    connection: &mut MySqlConnection,
    sql: &Sql,
    blocks: &BTreeMap<String, (String, String)>,
    now: Timestamp,
) -> Result<(), DriverError> {
    let mut grown = 0_i64;
    for (key, (event, error)) in blocks {
        let query = match show(connection, sql, key).await? {
            Some((_, Some(_))) => continue,
            Some((_, None)) => prepared(&*sql.group_head).bind(event).bind(key),
            None => {
                let query = prepared(&*sql.group_hold).bind(key).bind(GroupState::Blocked.as_str());
                query.bind(event).bind(held_reason(error)).bind("engine").bind(Time(now))
            }
        };
        query.execute(&mut *connection).await?;
        grown += 1;
    }
    if grown > 0 {
        prepared(&*sql.epoch_grow).bind(grown).execute(&mut *connection).await?;
    }
    Ok(())
}

pub(crate) async fn forget_attempts(
    session: &mut Session,
    sql: &Sql,
    ids: impl ExactSizeIterator<Item = &str>,
) -> Result<(), DriverError> {
    let forget = session.once(fill(&sql.attempts_forget, &[("{ids}", places(ids.len()))]));
    ids.fold(forget, |query, id| query.bind(id)).execute(&mut session.connection).await?;
    Ok(())
}
