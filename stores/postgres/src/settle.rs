//! Reporting outcomes under a fence, one statement a batch.

use std::collections::HashSet;

use pillarbox::model::{GroupKey, NodeId, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled, Wait};
use sqlx::Row;

use crate::connection::Session;
use crate::error::Failure;
use crate::sql::Sql;
use crate::time::{Time, micros};

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
    let numbers: Vec<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
    let statement = match request.on_done {
        OnDone::Keep => &sql.done,
        OnDone::Delete => &sql.done_delete,
    };
    let query = session.query(statement).bind(node.to_string()).bind(&numbers).bind(request.now.map(Time));
    let row = query.fetch_one(&mut session.connection).await?;
    let held: bool = row.try_get(0)?;
    // Numbers come back only if some changed nothing.
    let stale = match row.try_get::<Option<Vec<i64>>, _>(1)? {
        None => Vec::new(),
        Some(changed) => {
            let changed: HashSet<i64> = changed.into_iter().collect();
            let places = numbers.iter().enumerate();
            places.filter(|(_, seq)| !changed.contains(seq)).map(|(place, _)| place).collect()
        }
    };
    Ok(Settled { held, stale })
}

async fn settle_any(session: &mut Session, sql: &Sql, request: &Settle) -> Result<Settled, Failure> {
    let (node, owner) = match &request.fence {
        Fence::Node(node) => (Some(node.to_string()), None),
        Fence::Owner(owner) => (None, Some(owner.as_str())),
        Fence::Open => (None, None),
    };
    let by = node.as_deref().or(owner).unwrap_or("-").to_owned();
    let columns = Columns::new(&request.outcomes);
    let query = session.query(&sql.settle);
    let row = query
        .bind(request.now.map(Time))
        .bind(node)
        .bind(owner)
        .bind(by)
        .bind(&columns.seq)
        .bind(&columns.kind)
        .bind(&columns.token)
        .bind(&columns.delay_us)
        .bind(&columns.error)
        .bind(&columns.counted)
        .bind(&columns.delayed)
        .bind(&columns.blocks)
        .bind(request.on_done == OnDone::Delete)
        .fetch_one(&mut session.connection)
        .await?;
    let changed: HashSet<i64> = row.try_get::<Vec<i64>, _>(1)?.into_iter().collect();
    let stale = (0..request.outcomes.len()).filter(|place| !changed.contains(&(*place as i64 + 1))).collect();
    Ok(Settled { held: row.try_get(0)?, stale })
}

/// Outcomes as the statement takes them: a list for each part.
#[derive(Default)]
struct Columns<'a> {
    seq: Vec<i64>,
    kind: Vec<i16>,
    token: Vec<i64>,
    delay_us: Vec<i64>,
    error: Vec<Option<String>>,
    counted: Vec<i32>,
    delayed: Vec<bool>,
    blocks: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn new(outcomes: &'a [Outcome]) -> Self {
        let mut columns = Self::default();
        for outcome in outcomes {
            columns.push(outcome);
        }
        columns
    }

    fn push(&mut self, outcome: &'a Outcome) {
        self.seq.push(outcome.seq.0);
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
