//! Claims rows under a lease, and reaps claims that have run out.

use pillarbox::model::Row;
use pillarbox::port::{ByteLimits, Claim, ClaimFrom, DueTopics, Reap};
use sqlx::Row as _;

use crate::connection::Session;
use crate::error::Failure;
use crate::row::{read_all, read_claimed};
use crate::sql::Sql;
use crate::time::{Time, micros, skipped};

pub(crate) async fn claim(session: &mut Session, sql: &Sql, request: &Claim) -> Result<Vec<Row>, Failure> {
    let of_topics = request.from == ClaimFrom::Queue && !request.topics.is_empty();
    let mut query = session
        .query(match request.from {
            ClaimFrom::Queue if of_topics => &sql.claim_topics,
            ClaimFrom::Queue => &sql.claim_queue,
            ClaimFrom::Events => &sql.claim,
        })
        .bind(request.now.map(Time))
        .bind(skipped(request.skip_recent))
        .bind(i64::try_from(request.rows).unwrap_or(i64::MAX))
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(row_most(&request.bytes))
        .bind(total(&request.bytes));
    if of_topics {
        query = query.bind(&*request.topics);
    }
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok(read_all(&rows, |decoder, values| read_claimed(decoder, values, request.bytes.row)))
}

/// The size of the largest row that is loaded, in the integer type in which statements add up sizes.
pub(crate) fn row_most(limits: &ByteLimits) -> i64 {
    i32::try_from(limits.row).unwrap_or(i32::MAX).into()
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
) -> Result<Vec<String>, Failure> {
    let query = session.query(&sql.due_topics).bind(request.now.map(Time)).bind(&*request.except);
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut session.connection).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// Clears claims whose lease ran out at least `older_than` ago. Returns how many.
pub(crate) async fn reap(session: &mut Session, sql: &Sql, request: &Reap) -> Result<u64, Failure> {
    let query = session.query(&sql.reap).bind(request.now.map(Time)).bind(micros(request.older_than));
    let query = query.bind(i64::try_from(request.rows).unwrap_or(i64::MAX));
    let row = query.fetch_one(&mut session.connection).await?;
    Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())
}
