//! What people look at: pages, one event, counts, the state of it all.

use pillarbox::model::{Attempt, COLUMNS, EventId, GLOBAL, GroupKey, Lane, Layout, Record, Status};
use pillarbox::port::{AuditEntry, List, NodeInfo, PageOrder, Select, Shown, Stats, TypeCount};
use sqlx::mysql::{MySql, MySqlArguments, MySqlRow};
use sqlx::query::Query;

use crate::connection::{Session, number as count_of};
use crate::error::Failure;
use crate::flowcatalyst;
use crate::membership::node_id;
use crate::migrate::version;
use crate::row::{Values, decoder, number_of, read_all, text_of, time_of};
use crate::sql::{GROUP_KEY, Sql, fill, list as numbers, listed, places};
use crate::time::{Time, until};

/// A selection as a condition, and what its places stand for.
pub(crate) struct Selection<'a> {
    select: &'a Select,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(select: &'a Select) -> Self {
        Self { select }
    }

    /// The table and the condition; a form that reads few rows, where there is one.
    pub(crate) fn found(&self, sql: &Sql) -> String {
        let select = self.select;
        let statuses = || select.statuses.iter();
        let only = |wanted: fn(&Status) -> bool| !select.statuses.is_empty() && statuses().all(wanted);
        let mut found = if !select.ids.is_empty() {
            format!("{} WHERE event_id IN ({})", sql.event, places(select.ids.len()))
        } else if only(|status| status.is_pending()) {
            format!("{} FORCE INDEX (pending) WHERE pending = 1", sql.event)
        } else if only(|status| *status == Status::Dead) {
            format!("{} FORCE INDEX (agenda) WHERE agenda = 3", sql.event)
        } else {
            format!("{} WHERE TRUE", sql.event)
        };
        if !select.statuses.is_empty() {
            found += &format!(" AND status IN ({})", numbers(statuses().map(|status| status.code())));
        }
        if select.event_type.is_some() {
            found += " AND event_type = ?";
        }
        if select.aggregate_type.is_some() {
            found += &format!(" AND coalesce(aggregate_type, '{GLOBAL}') = ?");
        }
        if select.group.is_some() {
            found += &format!(" AND {GROUP_KEY} = ?");
        }
        if select.ended_before.is_some() {
            found += " AND done_at < ?";
        }
        found
    }

    pub(crate) fn bind<'q>(
        &self,
        mut query: Query<'q, MySql, MySqlArguments>,
    ) -> Query<'q, MySql, MySqlArguments> {
        let select = self.select;
        for id in &select.ids {
            query = query.bind(id.as_str().to_owned());
        }
        let texts = [
            select.event_type.as_deref(),
            select.aggregate_type.as_deref(),
            select.group.as_ref().map(GroupKey::as_str),
        ];
        for text in texts.into_iter().flatten() {
            query = query.bind(text.to_owned());
        }
        match select.ended_before {
            Some(before) => query.bind(Time(before)),
            None => query,
        }
    }
}

pub(crate) async fn list(session: &mut Session, sql: &Sql, request: &List) -> Result<Vec<Record>, Failure> {
    if sql.layout == Layout::Flowcatalyst {
        return flowcatalyst::list(session, sql, request).await;
    }
    let (statement, bound) = match request.order {
        PageOrder::OldestFirst => (&sql.list, i64::MIN),
        PageOrder::NewestFirst => (&sql.list_newest, i64::MAX),
    };
    let selection = Selection::new(&request.select);
    let columns = listed(COLUMNS, request.contents);
    let places = [("{listed_columns}", columns), ("{selected}", selection.found(sql))];
    let query = selection.bind(session.once(fill(statement, &places)));
    let query = query.bind(request.after.map_or(bound, |seq| seq.0));
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok(read_all(&rows, |decoder, values| decoder.record(values)))
}

pub(crate) async fn show(session: &mut Session, sql: &Sql, id: &EventId) -> Result<Option<Shown>, Failure> {
    if sql.layout == Layout::Flowcatalyst {
        return flowcatalyst::show(session, sql, id).await;
    }
    let query = session.query(&*sql.show).bind(id.as_str());
    let Some(row) = query.fetch_optional(&mut session.connection).await? else { return Ok(None) };
    let rows = session.query(&*sql.attempts).bind(id.as_str()).fetch_all(&mut session.connection).await?;
    let attempt = |row: &MySqlRow| Attempt {
        number: number_of(row, 0).and_then(|number| u32::try_from(number).ok()).unwrap_or_default(),
        at: time_of(row, 1).unwrap_or_default(),
        by: owned(row, 2),
        error: owned(row, 3),
    };
    Ok(Some(Shown {
        record: decoder(&row).record(&Values(&row)),
        attempts: rows.iter().map(attempt).collect(),
    }))
}

pub(crate) async fn count(session: &mut Session, sql: &Sql, select: &Select) -> Result<u64, Failure> {
    if sql.layout == Layout::Flowcatalyst {
        return flowcatalyst::count(session, sql, select).await;
    }
    let selection = Selection::new(select);
    let query = selection.bind(session.once(fill(&sql.count, &[("{selected}", selection.found(sql))])));
    number(&query.fetch_one(&mut session.connection).await?, 0)
}

pub(crate) async fn stats(session: &mut Session, sql: &Sql) -> Result<Stats, Failure> {
    let mut stats = Stats::default();
    let row = session.query(&*sql.stats_pending).fetch_one(&mut session.connection).await?;
    stats.by_status[0] = number(&row, 0)?;
    stats.by_status[2] = number(&row, 1)?;
    stats.delayed = number(&row, 2)?;
    stats.queued = number(&row, 3)?;
    let now = time_of(&row, 5).unwrap_or_default();
    stats.oldest = time_of(&row, 4).map(|written| until(written, now));
    let row = session.query(&*sql.stats_ended).fetch_one(&mut session.connection).await?;
    stats.by_status[1] = number(&row, 0)?;
    stats.by_status[3] = number(&row, 1)?;
    stats.done_last_minute = number(&row, 2)?;
    let row = session.query(&*sql.stats_written).fetch_one(&mut session.connection).await?;
    stats.written_last_minute = number(&row, 0)?;
    // A table of items may stand without those beside it.
    if sql.layout == Layout::Native || version(session, sql).await? > 0 {
        let row = session.query(&*sql.stats_beside).fetch_one(&mut session.connection).await?;
        stats.free_slots = number(&row, 0)?;
        stats.blocked_groups = number(&row, 1)?;
        stats.paused_groups = number(&row, 2)?;
        stats.nodes = number(&row, 3)?;
    }
    let rows = session.query(&*sql.stats_dead).fetch_all(&mut session.connection).await?;
    let dead =
        |row: &MySqlRow| Ok::<_, Failure>(TypeCount { event_type: owned(row, 0), count: number(row, 1)? });
    stats.dead_by_type = rows.iter().map(dead).collect::<Result<_, _>>()?;
    Ok(stats)
}

/// Where the state of a node stands; tables of an earlier release end before it.
const STATE: usize = 12;

pub(crate) async fn nodes(session: &mut Session, sql: &Sql) -> Result<Vec<NodeInfo>, Failure> {
    let rows = session.query(&*sql.nodes).fetch_all(&mut session.connection).await?;
    let node = |row: &MySqlRow| {
        let (expires, now) = (time_of(row, 4).unwrap_or_default(), time_of(row, 6).unwrap_or_default());
        Ok(NodeInfo {
            node: node_id(&owned(row, 0))?,
            label: owned(row, 1),
            lane: Lane(i16::try_from(count_of(row, 2)?).unwrap_or_default()),
            slots: usize::try_from(number(row, 5)?).unwrap_or_default(),
            joined_at: time_of(row, 3).unwrap_or_default(),
            expires_in: (expires > now).then(|| until(now, expires)),
            state: text_of(row, STATE).map(str::to_owned),
        })
    };
    rows.iter().map(node).collect()
}

pub(crate) async fn audits(
    session: &mut Session,
    sql: &Sql,
    limit: usize,
) -> Result<Vec<AuditEntry>, Failure> {
    let query = session.query(&*sql.audits).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    let entry = |row: &MySqlRow| AuditEntry {
        at: time_of(row, 0).unwrap_or_default(),
        by: owned(row, 1),
        action: owned(row, 2),
        target: owned(row, 3),
    };
    Ok(rows.iter().map(entry).collect())
}

fn owned(row: &MySqlRow, column: usize) -> String {
    text_of(row, column).unwrap_or_default().to_owned()
}

fn number(row: &MySqlRow, column: usize) -> Result<u64, Failure> {
    Ok(u64::try_from(count_of(row, column)?).unwrap_or_default())
}
