//! Settles: applies outcomes under a fence, one statement per batch.

use std::collections::HashSet;
use std::sync::Arc;

use pillarbox::model::{GroupKey, NodeId, stored_error};
use pillarbox::port::{Change, Fence, Outcome, Settle, Settled, StoreError, StoreFuture, Wait};
use pillarbox_store_kit::Purpose;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use crate::connection::Session;
use crate::error::DriverError;
use crate::insert::Prepared;
use crate::joins::Fired;
use crate::settle_claimed::settle_claimed;
use crate::sql::{Locked, Sql};
use crate::store::PostgresStore;
use crate::time::{Time, micros};

impl PostgresStore {
    /// Applies outcomes. Waits briefly for rows that others have locked, then skips them.
    pub(crate) async fn settle_rows(&self, request: Settle) -> Result<Settled, StoreError> {
        // A lease renewal must not wait behind a long batch, nor use a connection
        // whose runtime may be blocked.
        let renews = request.outcomes.iter().all(|outcome| matches!(outcome.change, Change::Extend { .. }));
        let purpose = if renews { Purpose::Heartbeat } else { Purpose::Settle };
        let settled = match self.settle_once(purpose, request.clone(), Locked::Briefly).await? {
            None => self.settle_once(purpose, request, Locked::Skipped).await?,
            settled => settled,
        };
        let (settled, fired) = settled.unwrap_or_else(|| (Settled::all_but(Vec::new()), Fired::default()));
        self.tell_of(fired);
        Ok(settled)
    }

    /// Settles once. Returns `None` if nothing was changed and the batch must be settled
    /// row by row: see [`settle`].
    fn settle_once(
        &self,
        purpose: Purpose,
        request: Settle,
        locked: Locked,
    ) -> StoreFuture<'_, Option<(Settled, Fired)>> {
        self.on(purpose, "settle", (request, locked), |session, sql, (request, locked)| {
            Box::pin(settle(session, sql, request, *locked))
        })
    }
}

/// Settles. Returns `None`, with nothing changed, if rows stayed locked for longer than it waits, or if the
/// rows of a whole-batch settle are not what it expects.
async fn settle(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    locked: Locked,
) -> Result<Option<(Settled, Fired)>, DriverError> {
    let all_done = request.outcomes.iter().all(|outcome| outcome.change == Change::Done);
    let settled = match &request.fence {
        // No joins to count: messages that may be steps of a join are never settled under a node's fence.
        Fence::Node(node) if all_done && locked == Locked::Briefly => {
            let Some(ids) = Ids::of(request) else { return Ok(None) };
            let settled = settle_whole(session, sql, request, *node, ids).await;
            settled.map(|()| (Settled::all_but(Vec::new()), Fired::default()))
        }
        Fence::Node(node) if all_done => {
            let settled = settle_done(session, sql, request, *node).await;
            settled.map(|settled| (settled, Fired::default()))
        }
        Fence::Owner(owner) => settle_claimed(session, sql, request, owner.as_str(), locked).await,
        Fence::Node(_) | Fence::Open => {
            let prepared = session.prepared();
            settle_any(&mut session.connection, sql, request, prepared, locked).await
        }
    };
    match settled {
        Err(failure) if locked == Locked::Briefly && (failure.is_locked() || failure.is_not_whole()) => {
            // The statement failed, so it changed nothing. The caller settles again and
            // skips locked or different rows.
            session.undo();
            Ok(None)
        }
        settled => settled.map(Some),
    }
}

/// The fast path for nearly every batch: all outcomes are done, and each row is as it was read.
/// Fails if one is not.
async fn settle_whole(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    node: NodeId,
    Ids { numbers, lines }: Ids,
) -> Result<(), DriverError> {
    let query = session.query(sql.done_whole(request.on_done)).bind(node.to_string()).bind(numbers);
    query.bind(request.now.map(Time)).bind(lines).execute(&mut session.connection).await?;
    Ok(())
}

/// The rows of a batch in the order of their sequence numbers, with their ids joined by line breaks.
struct Ids {
    numbers: Vec<i64>,
    lines: String,
}

impl Ids {
    /// Returns `None` if an id contains a line break. Otherwise two joined texts of equally many rows are
    /// equal only if every id is equal.
    fn of(request: &Settle) -> Option<Self> {
        let mut outcomes: Vec<&Outcome> = request.outcomes.iter().collect();
        outcomes.sort_unstable_by_key(|outcome| outcome.seq);
        let numbers = outcomes.iter().map(|outcome| outcome.seq.0).collect();
        let ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
        ids.iter().all(|id| !id.contains('\n')).then(|| Self { numbers, lines: ids.join("\n") })
    }
}

/// Settles done rows one by one, where rows may be locked, gone, or belong to another event.
async fn settle_done(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    node: NodeId,
) -> Result<Settled, DriverError> {
    let numbers: Vec<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
    let ids: Vec<&str> = request.outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    let statement = sql.done(request.on_done);
    let query = session.query(statement).bind(node.to_string()).bind(&numbers).bind(request.now.map(Time));
    let row = query.bind(&ids).fetch_one(&mut session.connection).await?;
    if !row.try_get::<bool, _>(0)? {
        return Ok(Settled::lost(numbers.len()));
    }
    // The statement returns the changed rows only if some rows did not change.
    let (busy, stale) = match row.try_get::<Option<Vec<String>>, _>(1)? {
        None => Default::default(),
        Some(changed) => {
            let (changed, busy) = (Pairs::new(Some(changed)), Pairs::new(row.try_get(3)?));
            let pairs = numbers.iter().copied().zip(ids.iter().copied()).enumerate();
            let unchanged = pairs.filter(|(_, (seq, id))| !changed.has(*seq, id));
            let (busy, stale): (Vec<_>, Vec<_>) = unchanged.partition(|(_, (seq, id))| busy.has(*seq, id));
            let places = |these: Vec<(usize, _)>| these.into_iter().map(|(place, _)| place).collect();
            (places(busy), places(stale))
        }
    };
    let reused = row.try_get::<Option<bool>, _>(2)? == Some(true);
    Ok(Settled { held: true, stale, busy, reused })
}

/// Rows by sequence number and id, in the text form that statements return.
pub(crate) struct Pairs(HashSet<String>);

impl Pairs {
    pub(crate) fn new(told: Option<Vec<String>>) -> Self {
        Self(told.into_iter().flatten().collect())
    }

    pub(crate) fn has(&self, seq: i64, id: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&format!("{seq} {id}"))
    }
}

/// Applies outcomes of every kind. Also used in the user's own transactions, where it waits for locks and for
/// the disk as they do.
pub(crate) async fn settle_any(
    connection: &mut PgConnection,
    sql: &Sql,
    request: &Settle,
    prepared: Prepared,
    locked: Locked,
) -> Result<(Settled, Fired), DriverError> {
    let columns = Columns::new(request);
    let statement = Arc::clone(sql.settle.of(request.on_done).of(locked));
    let query = sqlx::query(AssertSqlSafe(statement)).persistent(prepared == Prepared::Kept);
    let row = query
        .bind(columns.now)
        .bind(&columns.node)
        .bind(columns.owner)
        .bind(columns.by())
        .bind(&columns.seq)
        .bind(&columns.kind)
        .bind(&columns.token)
        .bind(&columns.delay_us)
        .bind(&columns.error)
        .bind(&columns.attempts)
        .bind(&columns.delayed)
        .bind(&columns.blocks)
        .bind(&columns.id)
        .bind(&columns.recorded)
        .bind(columns.repeats)
        .fetch_one(connection)
        .await?;
    let settled = columns.settled(row.try_get(0)?, row.try_get(1)?, row.try_get(3)?, row.try_get(4)?);
    Ok((settled, Fired(row.try_get::<Option<i32>, _>(2)?.unwrap_or_default())))
}

/// A settle as the statement takes it: one array per field of the outcomes.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    pub(crate) now: Option<Time>,
    pub(crate) node: Option<String>,
    pub(crate) owner: Option<&'a str>,
    pub(crate) seq: Vec<i64>,
    pub(crate) kind: Vec<i16>,
    pub(crate) token: Vec<i64>,
    pub(crate) delay_us: Vec<i64>,
    pub(crate) error: Vec<Option<String>>,
    pub(crate) attempts: Vec<Option<i32>>,
    pub(crate) recorded: Vec<bool>,
    /// A time before the first call, if this one repeats it.
    pub(crate) repeats: Option<Time>,
    pub(crate) delayed: Vec<bool>,
    pub(crate) blocks: Vec<Option<&'a str>>,
    pub(crate) id: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(request: &'a Settle) -> Self {
        let (node, owner) = match &request.fence {
            Fence::Node(node) => (Some(node.to_string()), None),
            Fence::Owner(owner) => (None, Some(owner.as_str())),
            Fence::Open => (None, None),
        };
        let (now, repeats) = (request.now.map(Time), request.repeats.map(Time));
        let mut columns = Self { now, repeats, node, owner, ..Self::default() };
        for outcome in request.outcomes.iter() {
            columns.push(outcome);
        }
        columns
    }

    /// The node or owner that settles, for the history of attempts.
    pub(crate) fn by(&self) -> String {
        self.node.as_deref().or(self.owner).unwrap_or("-").to_owned()
    }

    /// The result, from the positions that changed (counted from one), whether a sequence number now belongs
    /// to another event, and the rows that others have locked.
    pub(crate) fn settled(
        &self,
        held: bool,
        changed: Vec<i64>,
        reused: Option<bool>,
        busy: Option<Vec<String>>,
    ) -> Settled {
        if !held {
            return Settled::lost(self.seq.len());
        }
        let (changed, busy) = (changed.into_iter().collect::<HashSet<i64>>(), Pairs::new(busy));
        let unchanged = (0..self.seq.len()).filter(|place| !changed.contains(&(*place as i64 + 1)));
        let (busy, stale) = unchanged.partition(|place| busy.has(self.seq[*place], self.id[*place]));
        Settled { held, stale, busy, reused: reused == Some(true) }
    }

    fn push(&mut self, outcome: &'a Outcome) {
        self.seq.push(outcome.seq.0);
        self.id.push(outcome.id.as_str());
        self.token.push(outcome.token.0);
        let plain = |kind, attempts: Option<u32>| {
            let attempts = attempts.map(stored_count);
            ChangeColumns { kind, attempts, ..ChangeColumns::default() }
        };
        let part = match &outcome.change {
            Change::Done => plain(0, None),
            Change::Retry { delay, error, counts, wait } => ChangeColumns {
                kind: 1,
                delay_us: micros(*delay),
                error: Some(stored_error(error)),
                attempts: Some(stored_count(counts.attempts())),
                recorded: counts.is_recorded(),
                delayed: *wait == Wait::Delayed,
                blocks: None,
            },
            Change::Dead { error, counts, blocks } => ChangeColumns {
                kind: 2,
                error: Some(stored_error(error)),
                attempts: Some(stored_count(counts.attempts())),
                recorded: counts.is_recorded(),
                blocks: blocks.as_ref().map(GroupKey::as_str),
                ..ChangeColumns::default()
            },
            Change::Delay => plain(3, None),
            Change::Attempt { attempts } => plain(4, Some(*attempts)),
            Change::Release { attempts } => plain(5, Some(*attempts)),
            Change::Waits { error } => {
                ChangeColumns { kind: 7, error: Some(stored_error(error)), ..ChangeColumns::default() }
            }
            Change::Extend { lease } => {
                ChangeColumns { kind: 6, delay_us: micros(*lease), ..ChangeColumns::default() }
            }
        };
        self.kind.push(part.kind);
        self.delay_us.push(part.delay_us);
        self.error.push(part.error);
        self.attempts.push(part.attempts);
        self.recorded.push(part.recorded);
        self.delayed.push(part.delayed);
        self.blocks.push(part.blocks);
    }
}

/// The fields of an outcome other than its row.
#[derive(Default)]
struct ChangeColumns<'a> {
    kind: i16,
    delay_us: i64,
    error: Option<String>,
    attempts: Option<i32>,
    recorded: bool,
    delayed: bool,
    blocks: Option<&'a str>,
}

/// A count as its column stores it.
pub(crate) fn stored_count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
