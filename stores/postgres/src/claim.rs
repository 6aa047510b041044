//! Claims rows under a lease, and reaps claims that have run out.

use pillarbox::model::Row;
use pillarbox::port::{ByteLimits, Claim, ClaimFrom, DueTopics, Reap};
use sqlx::Row as _;

use crate::connection::Session;
use crate::error::DriverError;
use crate::row::{read_all, read_claimed};
use crate::sql::Sql;
use crate::time::{Time, micros, skipped};

pub(crate) async fn claim(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
) -> Result<Vec<Row>, DriverError> {
    let statement = match (request.from, &*request.topics) {
        (ClaimFrom::Events, _) => &sql.claim,
        (ClaimFrom::Queue, []) => &sql.claim_queue.all,
        (ClaimFrom::Queue, [_]) => &sql.claim_queue.one,
        (ClaimFrom::Queue, _) => &sql.claim_queue.several,
    };
    let mut query = session
        .query(statement)
        .bind(request.now.map(Time))
        .bind(skipped(request.skip_recent))
        .bind(i64::try_from(request.rows).unwrap_or(i64::MAX))
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(row_most(&request.bytes))
        .bind(total(&request.bytes));
    if request.from == ClaimFrom::Queue {
        query = match &*request.topics {
            [] => query,
            [topic] => query.bind(topic),
            topics => query.bind(topics),
        };
    }
    let rows = query.fetch_all(&mut session.connection).await?;
    let mut rows = read_all(&rows, |decoder, values| read_claimed(decoder, values, request.bytes.row));
    if request.from == ClaimFrom::Queue {
        rows.sort_by_key(|row| (row.available_at, row.seq));
    }
    Ok(rows)
}

/// The size of the largest row that is loaded, in the integer type in which statements add up sizes. Its largest value
/// stands for all sizes beyond it.
pub(crate) fn row_most(limits: &ByteLimits) -> i64 {
    i32::try_from(limits.row).unwrap_or(i32::MAX).min(i32::MAX - 1).into()
}

/// How many bytes may be loaded in total; at least one, so that the first row always fits.
pub(crate) fn total(limits: &ByteLimits) -> i64 {
    i64::try_from(limits.total).unwrap_or(i64::MAX).max(1)
}

/// Topics that have claimable messages.
pub(crate) async fn due_topics(
    session: &mut Session,
    sql: &Sql,
    request: &DueTopics,
) -> Result<Vec<String>, DriverError> {
    let query = session.query(&sql.due_topics).bind(request.now.map(Time)).bind(&*request.except);
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// Clears claims whose lease ran out at least `older_than` ago. Returns how many.
pub(crate) async fn reap(session: &mut Session, sql: &Sql, request: &Reap) -> Result<u64, DriverError> {
    let query = session.query(&sql.reap).bind(request.now.map(Time)).bind(micros(request.older_than));
    let query = query.bind(i64::try_from(request.rows).unwrap_or(i64::MAX));
    let row = query.fetch_one(&mut session.connection).await?;
    Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())
}
