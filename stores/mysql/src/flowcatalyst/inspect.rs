//! What people look at: pages, one item, counts.

use pillarbox::model::{EventId, GLOBAL, GroupKey, ITEM_COLUMNS, Record, Status};
use pillarbox::port::{List, PageOrder, Select, Shown};
use sqlx::mysql::{MySql, MySqlArguments};
use sqlx::query::Query;

use crate::connection::{Session, number};
use crate::error::Failure;
use crate::row::{Values, decoder, read_all};
use crate::sql::{Sql, fill, listed, places};
use crate::time::Time;

/// A selection as a table and a condition. A status that nobody knows is in no list but that of all.
pub(super) fn found(select: &Select, sql: &Sql) -> String {
    let mut found = if select.ids.is_empty() {
        format!("{} WHERE TRUE", sql.event)
    } else {
        format!("{} WHERE id IN ({})", sql.event, places(select.ids.len()))
    };
    if !select.statuses.is_empty() {
        let of = |status: &Status| match status {
            Status::New => "(status IN ('PENDING', 'PROCESSING') AND retry_count <= 0)",
            Status::Retry => "(status IN ('PENDING', 'PROCESSING') AND retry_count > 0)",
            Status::Done => "status = 'COMPLETED'",
            Status::Dead => "status = 'FAILED'",
        };
        let any: Vec<&str> = select.statuses.iter().map(of).collect();
        found += &format!(" AND ({})", any.join(" OR "));
    }
    if select.event_type.is_some() {
        found += " AND type = ?";
    }
    if select.aggregate_type.as_deref().is_some_and(|name| name != GLOBAL) {
        found += " AND FALSE";
    }
    if select.group.is_some() {
        found += " AND message_group = ?";
    }
    if select.ended_before.is_some() {
        found += " AND status IN ('COMPLETED', 'FAILED') AND processed_at < ?";
    }
    found
}

pub(super) fn bind<'q>(
    select: &Select,
    mut query: Query<'q, MySql, MySqlArguments>,
) -> Query<'q, MySql, MySqlArguments> {
    for id in &select.ids {
        query = query.bind(id.to_string());
    }
    let texts =
        [select.event_type.clone(), select.group.as_ref().map(|group| GroupKey::as_str(group).to_owned())];
    for text in texts.into_iter().flatten() {
        query = query.bind(text);
    }
    match select.ended_before {
        Some(before) => query.bind(Time(before)),
        None => query,
    }
}

pub(crate) async fn list(session: &mut Session, sql: &Sql, request: &List) -> Result<Vec<Record>, Failure> {
    let statement = match request.order {
        PageOrder::OldestFirst => &sql.items_list,
        PageOrder::NewestFirst => &sql.items_list_newest,
    };
    let columns = listed(ITEM_COLUMNS, request.contents);
    let text = fill(statement, &[("{listed_columns}", columns), ("{selected}", found(&request.select, sql))]);
    let after = request.after_id.as_ref().map(ToString::to_string);
    let query = bind(&request.select, session.once(text)).bind(after.clone()).bind(after);
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok(read_all(&rows, |decoder, values| decoder.item(values).into_record()))
}

pub(crate) async fn show(session: &mut Session, sql: &Sql, id: &EventId) -> Result<Option<Shown>, Failure> {
    let query = session.query(&*sql.items_show).bind(id.to_string());
    let row = query.fetch_optional(&mut session.connection).await?;
    let record = row.map(|row| decoder(&row).item(&Values(&row)).into_record());
    Ok(record.map(|record| Shown { record, attempts: Vec::new() }))
}

pub(crate) async fn count(session: &mut Session, sql: &Sql, select: &Select) -> Result<u64, Failure> {
    let query = bind(select, session.once(fill(&sql.count, &[("{selected}", found(select, sql))])));
    let row = query.fetch_one(&mut session.connection).await?;
    Ok(u64::try_from(number(&row, 0)?).unwrap_or_default())
}
