//! Reporting outcomes under a fence, one statement a batch.

use std::collections::HashSet;
use std::sync::Arc;

use pillarbox::model::{GroupKey, NodeId, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled, Wait};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use crate::connection::Session;
use crate::error::Failure;
use crate::insert::Prepared;
use crate::joins::Fired;
use crate::sql::Sql;
use crate::time::{Time, micros};

pub(crate) async fn settle(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
) -> Result<(Settled, Fired), Failure> {
    let all_done = request.outcomes.iter().all(|outcome| outcome.change == Change::Done);
    match &request.fence {
        // Messages that may be steps of a join are never settled by a node.
        Fence::Node(node) if all_done => {
            Ok((settle_done(session, sql, request, *node).await?, Fired::default()))
        }
        _ => {
            let prepared = session.prepared();
            settle_any(&mut session.connection, sql, request, prepared).await
        }
    }
}

/// Nearly every batch: all done.
async fn settle_done(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    node: NodeId,
) -> Result<Settled, Failure> {
    let numbers: Vec<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
    let ids: Vec<&str> = request.outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    let statement = match request.on_done {
        OnDone::Keep => &sql.done,
        OnDone::Delete => &sql.done_delete,
    };
    let query = session.query(statement).bind(node.to_string()).bind(&numbers).bind(request.now.map(Time));
    let row = query.bind(&ids).fetch_one(&mut session.connection).await?;
    let held: bool = row.try_get(0)?;
    // Numbers and ids come back only if some changed nothing.
    let stale = match row.try_get::<Option<Vec<String>>, _>(1)? {
        None => Vec::new(),
        Some(changed) => {
            let changed: HashSet<String> = changed.into_iter().collect();
            let pairs = numbers.iter().zip(&ids).map(|(seq, id)| format!("{seq} {id}")).enumerate();
            pairs.filter(|(_, pair)| !changed.contains(pair)).map(|(place, _)| place).collect()
        }
    };
    let reused = held && row.try_get::<Option<bool>, _>(2)? == Some(true);
    Ok(Settled { held, stale, reused })
}

/// Outcomes of every kind. Also for transactions of the user's own connection: it waits for the disk as they do.
pub(crate) async fn settle_any(
    connection: &mut PgConnection,
    sql: &Sql,
    request: &Settle,
    prepared: Prepared,
) -> Result<(Settled, Fired), Failure> {
    let columns = Columns::new(request);
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&sql.settle))).persistent(prepared == Prepared::Kept);
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
        .bind(&columns.counted)
        .bind(&columns.delayed)
        .bind(&columns.blocks)
        .bind(columns.deletes)
        .bind(&columns.id)
        .fetch_one(connection)
        .await?;
    let settled = columns.settled(row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
    Ok((settled, Fired(row.try_get::<Option<i32>, _>(2)?.unwrap_or_default())))
}

/// A settle as the statement takes it: a list for each part of the outcomes.
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
    pub(crate) counted: Vec<i32>,
    pub(crate) delayed: Vec<bool>,
    pub(crate) blocks: Vec<Option<&'a str>>,
    pub(crate) deletes: bool,
    pub(crate) id: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(request: &'a Settle) -> Self {
        let (node, owner) = match &request.fence {
            Fence::Node(node) => (Some(node.to_string()), None),
            Fence::Owner(owner) => (None, Some(owner.as_str())),
            Fence::Open => (None, None),
        };
        let deletes = request.on_done == OnDone::Delete;
        let mut columns = Self { now: request.now.map(Time), node, owner, deletes, ..Self::default() };
        for outcome in request.outcomes.iter() {
            columns.push(outcome);
        }
        columns
    }

    /// Who it is that settles, for the history of attempts.
    pub(crate) fn by(&self) -> String {
        self.node.as_deref().or(self.owner).unwrap_or("-").to_owned()
    }

    /// What was done, from the places that changed, counted from one, and whether numbers are another event's now.
    pub(crate) fn settled(&self, held: bool, changed: Vec<i64>, reused: Option<bool>) -> Settled {
        let changed: HashSet<i64> = changed.into_iter().collect();
        let stale = (0..self.seq.len()).filter(|place| !changed.contains(&(*place as i64 + 1))).collect();
        Settled { held, stale, reused: reused == Some(true) }
    }

    fn push(&mut self, outcome: &'a Outcome) {
        self.seq.push(outcome.seq.0);
        self.id.push(outcome.id.as_str());
        self.token.push(outcome.token.0);
        let plain = |kind, counted| Part { kind, counted, ..Part::default() };
        let part = match &outcome.change {
            Change::Done => plain(0, 0),
            Change::Retry { delay, error, counts, wait } => Part {
                kind: 1,
                delay_us: micros(*delay),
                error: Some(stored_error(error)),
                counted: count(*counts),
                delayed: *wait == Wait::Delayed,
                blocks: None,
            },
            Change::Dead { error, counts, blocks } => Part {
                kind: 2,
                error: Some(stored_error(error)),
                counted: count(*counts),
                blocks: blocks.as_ref().map(GroupKey::as_str),
                ..Part::default()
            },
            Change::Delay => plain(3, 0),
            Change::Attempt => plain(4, 1),
            Change::Release => plain(5, 0),
            Change::Untried => plain(5, -1),
            Change::Extend { lease } => Part { kind: 6, delay_us: micros(*lease), ..Part::default() },
        };
        self.kind.push(part.kind);
        self.delay_us.push(part.delay_us);
        self.error.push(part.error);
        self.counted.push(part.counted);
        self.delayed.push(part.delayed);
        self.blocks.push(part.blocks);
    }
}

/// What an outcome says beyond its row.
#[derive(Default)]
struct Part<'a> {
    kind: i16,
    delay_us: i64,
    error: Option<String>,
    counted: i32,
    delayed: bool,
    blocks: Option<&'a str>,
}

const fn count(counts: Counts) -> i32 {
    match counts {
        Counts::One => 1,
        Counts::None => 0,
        Counts::Back => -1,
    }
}
