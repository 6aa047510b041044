//! Read-only queries for operators: lists, single events, counts, statistics, nodes, the audit log.

use pillarbox::model::{Attempt, EventId, GroupKey, Lane, Record};
use pillarbox::port::{
    AuditEntry, Contents, List, NodeInfo, OpenTransactions, Select, Shown, Stats, TransactionInfo, TypeCount,
};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connection::{Query, Session};
use crate::error::DriverError;
use crate::kind::Kind;
use crate::membership::node_id;
use crate::row::{Values, decoder, read_all};
use crate::sql::Sql;
use crate::time::{Time, until};

/// A selection as parameters 1 to 6 of a statement.
pub(crate) struct Selection<'a> {
    ids: Option<Vec<&'a str>>,
    statuses: Vec<i16>,
    select: &'a Select,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(select: &'a Select) -> Self {
        let ids: Vec<&str> = select.ids.iter().map(EventId::as_str).collect();
        // Code 4 stands for any unknown status.
        let statuses = match select.statuses.as_slice() {
            [] => vec![0, 1, 2, 3, 4],
            named => named.iter().map(|status| i16::from(status.code())).collect(),
        };
        Self { ids: (!ids.is_empty()).then_some(ids), statuses, select }
    }

    pub(crate) fn bind<'q>(self, query: Query<'q>) -> Query<'q>
    where
        'a: 'q,
    {
        query
            .bind(self.ids)
            .bind(self.statuses)
            .bind(self.select.event_type.as_deref())
            .bind(self.select.aggregate_type.as_deref())
            .bind(self.select.group.as_ref().map(GroupKey::as_str))
            .bind(self.select.ended_before.map(Time))
    }
}

pub(crate) async fn list<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    request: &List,
) -> Result<Vec<Record>, DriverError> {
    let statement = request.order.either(&sql.list, &sql.list_newest);
    let query = session.query(statement.of(&request.select));
    let query = K::bind_after(Selection::new(&request.select).bind(query), request);
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let query = query.bind(request.contents == Contents::Whole);
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok(read_all(&rows, K::record))
}

pub(crate) async fn show<K: Kind>(
    session: &mut Session,
    sql: &Sql,
    id: &EventId,
) -> Result<Option<Shown>, DriverError> {
    let query = session.query(&sql.show).bind(id.as_str());
    let Some(row) = query.fetch_optional(&mut session.connection).await? else { return Ok(None) };
    let record = K::record(&decoder(&row), &Values::new(&row));
    let rows = match &sql.attempts {
        Some(text) => session.query(text).bind(id.as_str()).fetch_all(&mut session.connection).await?,
        None => Vec::new(),
    };
    let attempt = |row: &PgRow| {
        Ok::<_, DriverError>(Attempt {
            number: u32::try_from(row.try_get::<i32, _>(0)?).unwrap_or_default(),
            at: row.try_get::<Time, _>(1)?.0,
            by: row.try_get(2)?,
            error: row.try_get(3)?,
        })
    };
    let attempts = rows.iter().map(attempt).collect::<Result<_, _>>()?;
    Ok(Some(Shown { record, attempts }))
}

pub(crate) async fn count(session: &mut Session, sql: &Sql, select: &Select) -> Result<u64, DriverError> {
    let query = Selection::new(select).bind(session.query(sql.count.of(select)));
    number(&query.fetch_one(&mut session.connection).await?, 0)
}

pub(crate) async fn stats(session: &mut Session, sql: &Sql) -> Result<Stats, DriverError> {
    let mut stats = Stats::default();
    let row = session.query(&sql.stats_pending).fetch_one(&mut session.connection).await?;
    (stats.events.new, stats.events.retry) = (number(&row, 0)?, number(&row, 1)?);
    (stats.queue.new, stats.queue.retry) = (number(&row, 2)?, number(&row, 3)?);
    stats.delayed = number(&row, 4)?;
    let now = row.try_get::<Time, _>(6)?.0;
    stats.oldest = row.try_get::<Option<Time>, _>(5)?.map(|written| until(written.0, now));
    let row = session.query(&sql.stats_ended).fetch_one(&mut session.connection).await?;
    (stats.events.done, stats.events.dead) = (number(&row, 0)?, number(&row, 1)?);
    (stats.queue.done, stats.queue.dead) = (number(&row, 2)?, number(&row, 3)?);
    stats.done_last_minute = number(&row, 4)?;
    stats.written_last_minute = number(&row, 5)?;
    // A table of items may exist without the tables beside it.
    let there: bool = session.query(&sql.tables).fetch_one(&mut session.connection).await?.try_get(0)?;
    if there {
        let row = session.query(&sql.stats_beside).fetch_one(&mut session.connection).await?;
        stats.free_slots = number(&row, 0)?;
        stats.blocked_groups = number(&row, 1)?;
        stats.paused_groups = number(&row, 2)?;
        stats.nodes = number(&row, 3)?;
    }
    let rows = session.query(&sql.stats_dead).fetch_all(&mut session.connection).await?;
    let dead =
        |row: &PgRow| Ok::<_, DriverError>(TypeCount { event_type: row.try_get(0)?, count: number(row, 1)? });
    stats.dead_by_type = rows.iter().map(dead).collect::<Result<_, _>>()?;
    Ok(stats)
}

pub(crate) async fn nodes(session: &mut Session, sql: &Sql) -> Result<Vec<NodeInfo>, DriverError> {
    let rows = session.query(&sql.nodes).fetch_all(&mut session.connection).await?;
    let node = |row: &PgRow| {
        let (expires, now) = (row.try_get::<Time, _>(4)?.0, row.try_get::<Time, _>(6)?.0);
        Ok(NodeInfo {
            node: node_id(row.try_get(0)?)?,
            label: row.try_get(1)?,
            lane: Lane(row.try_get(2)?),
            slots: usize::try_from(row.try_get::<i64, _>(5)?).unwrap_or_default(),
            joined_at: row.try_get::<Time, _>(3)?.0,
            expires_in: (expires > now).then(|| until(now, expires)),
            expires_at: expires,
            state: row.try_get(7)?,
        })
    };
    rows.iter().map(node).collect()
}

pub(crate) async fn open_transactions(
    session: &mut Session,
    sql: &Sql,
    request: &OpenTransactions,
) -> Result<Vec<TransactionInfo>, DriverError> {
    let query = session.query(&sql.open_transactions).bind(request.event.as_str());
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    let transaction = |row: &PgRow| {
        Ok(TransactionInfo {
            session: row.try_get(0)?,
            application: row.try_get::<Option<String>, _>(1)?.filter(|name| !name.is_empty()),
            began_at: row.try_get::<Option<Time>, _>(2)?.map(|began| began.0),
            locks_row: row.try_get(3)?,
        })
    };
    rows.iter().map(transaction).collect()
}

pub(crate) async fn audits(
    session: &mut Session,
    sql: &Sql,
    limit: usize,
) -> Result<Vec<AuditEntry>, DriverError> {
    let query = session.query(&sql.audits).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    let entry = |row: &PgRow| {
        Ok(AuditEntry {
            at: row.try_get::<Time, _>(0)?.0,
            by: row.try_get(1)?,
            action: row.try_get(2)?,
            target: row.try_get(3)?,
        })
    };
    rows.iter().map(entry).collect()
}

fn number(row: &PgRow, column: usize) -> Result<u64, DriverError> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
}
