//! Settles items that still have the time of the caller's claim, one statement per batch.

use std::collections::HashSet;

use pillarbox::model::{GroupKey, held_reason, stored_error};
use pillarbox::port::{Change, Fence, Outcome, Settle, Settled};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connection::{Query, Session};
use crate::error::DriverError;
use crate::settle::stored_count;
use crate::sql::Sql;
use crate::time::{Time, from_micros};

pub(crate) async fn settle(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
) -> Result<Settled, DriverError> {
    let blocks = |outcome: &Outcome| matches!(&outcome.change, Change::Dead { blocks: Some(_), .. });
    let columns = Columns::new(&request.outcomes);
    let statements = sql.items_settle.of(request.on_done);
    // Only outcomes that block a group need the tables beside the items.
    if request.outcomes.iter().any(blocks) {
        return settle_beside(session, sql, request, &columns).await;
    }
    let query = match &request.fence {
        Fence::Node(node) => columns.bind(session.query(&statements.by_node), request).bind(node.to_string()),
        // Items have no owner; the time of a claim alone proves it.
        Fence::Owner(_) | Fence::Open => columns.bind(session.query(&statements.by_any), request),
    };
    columns.settled(&query.fetch_one(&mut session.connection).await?)
}

/// Settles in a transaction that also holds the node's fence and blocks groups.
async fn settle_beside(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    columns: &Columns,
) -> Result<Settled, DriverError> {
    let mut tx = session.begin().await?;
    if let Fence::Node(node) = &request.fence {
        let held = tx.query(&sql.node_share).bind(node.to_string()).fetch_optional(&mut *tx.tx).await?;
        if held.is_none() {
            return Ok(Settled::lost(request.outcomes.len()));
        }
    }
    let statement = &sql.items_settle.of(request.on_done).by_any;
    let row = columns.bind(tx.query(statement), request).fetch_one(&mut *tx.tx).await?;
    let settled = columns.settled(&row)?;
    let unchanged: HashSet<usize> = settled.stale.iter().chain(&settled.busy).copied().collect();
    let (mut groups, mut ids, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (place, outcome) in request.outcomes.iter().enumerate() {
        let Change::Dead { error, blocks: Some(group), .. } = &outcome.change else { continue };
        if !unchanged.contains(&place) {
            groups.push(GroupKey::as_str(group));
            ids.push(outcome.id.as_str());
            errors.push(held_reason(error));
        }
    }
    if !groups.is_empty() {
        let query = tx.query(&sql.group_block).bind(request.now.map(Time));
        query.bind(groups).bind(ids).bind(errors).execute(&mut *tx.tx).await?;
    }
    tx.commit().await?;
    Ok(settled)
}

/// Outcomes as the statement takes them: one array per field.
#[derive(Default)]
struct Columns {
    ids: Vec<String>,
    kinds: Vec<i16>,
    tokens: Vec<Time>,
    errors: Vec<Option<String>>,
    retries: Vec<Option<i32>>,
}

impl Columns {
    fn new(outcomes: &[Outcome]) -> Self {
        let mut columns = Self::default();
        for outcome in outcomes {
            let (kind, error) = match &outcome.change {
                Change::Done => (0, None),
                Change::Retry { error, .. } => (1, Some(stored_error(error))),
                Change::Dead { error, .. } => (2, Some(stored_error(error))),
                Change::Attempt { .. } => (4, None),
                Change::Waits { error } => (7, Some(stored_error(error))),
                // The layout has no column for a due time.
                Change::Delay | Change::Release { .. } => (5, None),
                // A claim of an item has no lease to extend; no outcome for an item is of this kind.
                Change::Extend { .. } => (6, None),
            };
            columns.ids.push(outcome.id.to_string());
            columns.kinds.push(kind);
            columns.tokens.push(Time(from_micros(outcome.token.0)));
            columns.errors.push(error);
            columns.retries.push(outcome.change.retries().map(stored_count));
        }
        columns
    }

    fn bind<'q>(&'q self, query: Query<'q>, request: &Settle) -> Query<'q> {
        query
            .bind(request.now.map(Time))
            .bind(&self.ids)
            .bind(&self.kinds)
            .bind(&self.tokens)
            .bind(&self.errors)
            .bind(&self.retries)
    }

    /// The statement returns positions, counted from one, only if some outcomes changed nothing.
    fn settled(&self, row: &PgRow) -> Result<Settled, DriverError> {
        if !row.try_get::<bool, _>(1)? {
            return Ok(Settled::lost(self.ids.len()));
        }
        let Some(changed) = row.try_get::<Option<Vec<i64>>, _>(0)? else {
            return Ok(Settled::all_but(Vec::new()));
        };
        let changed: HashSet<i64> = changed.into_iter().collect();
        let busy: HashSet<i64> = row.try_get::<Option<Vec<i64>>, _>(2)?.into_iter().flatten().collect();
        let among = |places: &HashSet<i64>, place: usize| places.contains(&(place as i64 + 1));
        let unchanged = (0..self.ids.len()).filter(|place| !among(&changed, *place));
        let (busy, stale) = unchanged.partition(|place| among(&busy, *place));
        Ok(Settled { busy, ..Settled::all_but(stale) })
    }
}
