//! Claiming rows under a lease.

use pillarbox::model::{OwnerId, Row, Token};
use pillarbox::port::{Claim, ClaimFrom, Reap};
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, numbers};
use crate::error::Failure;
use crate::probe::Locking;
use crate::row::read_claimed;
use crate::sql::{Sql, fill, list, quoted};
use crate::time::{micros, micros_back, now_sql, youngest_sql};

pub(crate) async fn claim(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    locking: Locking,
) -> Result<Vec<Row>, Failure> {
    let parts =
        [("{now}", now_sql(request.now)), ("{youngest}", youngest_sql(request.now, request.skip_recent))];
    session.begin().await?;
    let found = match locking {
        Locking::Skips => skip_locked(session, sql, request, &parts).await?,
        Locking::Waits => mark(session, sql, request, &parts).await?,
    };
    let mut rows: Vec<Row> = found.iter().map(read_claimed).collect();
    if rows.is_empty() {
        return Ok(rows);
    }
    let mut seqs: Vec<i64> = rows.iter().map(|row| row.seq.0).collect();
    seqs.sort_unstable();
    let now = rows_now(&found, request);
    let parts = [
        ("{now}", now),
        ("{seqs}", list(seqs)),
        ("{owner}", quoted(request.owner.as_str())),
        ("{lease_us}", micros(request.lease).to_string()),
    ];
    session.commit_with(&fill(&sql.claim, &parts)).await?;
    for row in &mut rows {
        row.attempts += 1;
        row.token = Token(row.token.0 + 1);
    }
    Ok(rows)
}

/// The time at which the rows were found due.
fn rows_now(found: &[MySqlRow], request: &Claim) -> String {
    let read = found.first().and_then(|row| crate::row::time_of(row, crate::row::NOW));
    now_sql(request.now.or(read))
}

async fn skip_locked(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    parts: &[(&str, String)],
) -> Result<Vec<MySqlRow>, Failure> {
    let statement = match request.from {
        ClaimFrom::Queue => &sql.claim_queue_find,
        ClaimFrom::Events => &sql.claim_find,
    };
    let query = session.query(fill(statement, parts)).bind(limit(request));
    Ok(query.fetch_all(&mut session.connection).await?)
}

/// Without locks that are skipped: the first rows are marked, then found by the mark, which nobody else ever sees.
async fn mark(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    parts: &[(&str, String)],
) -> Result<Vec<MySqlRow>, Failure> {
    let statement = match request.from {
        ClaimFrom::Queue => &sql.claim_queue_mark,
        ClaimFrom::Events => &sql.claim_mark,
    };
    let mark = OwnerId::random();
    let query = session.query(fill(statement, parts)).bind(mark.as_str()).bind(limit(request));
    let marked = query.execute(&mut session.connection).await?.rows_affected();
    if marked == 0 {
        return Ok(Vec::new());
    }
    let order = match request.from {
        ClaimFrom::Queue => "available_at, seq",
        ClaimFrom::Events => "seq",
    };
    let text = fill(&sql.claim_marked, &[parts[0].clone(), ("{order}", order.to_owned())]);
    let query = session.query(text).bind(mark.as_str()).bind(i64::try_from(marked).unwrap_or(i64::MAX));
    Ok(query.fetch_all(&mut session.connection).await?)
}

fn limit(request: &Claim) -> i64 {
    i64::try_from(request.rows).unwrap_or(i64::MAX)
}

/// Gives back what was claimed until too long ago. What is to be given back is looked for without a lock, and then only that
/// is locked.
pub(crate) async fn reap(
    session: &mut Session,
    sql: &Sql,
    request: &Reap,
    locking: Locking,
) -> Result<u64, Failure> {
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{age_us}", micros_back(request.older_than).to_string()),
        ("{limit}", request.rows.to_string()),
        ("{skip_locked}", locking.words()),
    ];
    let found = session.results(fill(&sql.reap_find, &parts)).await?;
    let seqs: Vec<i64> = found.iter().flat_map(|rows| numbers(rows)).collect();
    if seqs.is_empty() {
        return Ok(0);
    }
    let lock = fill(&fill(&sql.reap_lock, &parts), &[("{seqs}", list(seqs))]);
    let locked = session.begin_with(&lock).await?;
    let seqs: Vec<i64> = locked.iter().flat_map(|rows| numbers(rows)).collect();
    if seqs.is_empty() {
        return Ok(0);
    }
    session.commit_with(&fill(&sql.reap, &[("{seqs}", list(&seqs))])).await?;
    Ok(seqs.len() as u64)
}
