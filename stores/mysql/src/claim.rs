//! Claiming rows under a lease.

use pillarbox::model::{OwnerId, Row, Token};
use pillarbox::port::{Claim, ClaimFrom, Reap};
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, numbers};
use crate::error::Failure;
use crate::fetch::{put_in_place, set_aside};
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
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{youngest}", youngest_sql(request.now, request.skip_recent)),
        ("{most}", request.bytes.at_once(request.rows).to_string()),
    ];
    session.begin().await?;
    let (found, marked) = match locking {
        Locking::Skips => (skip_locked(session, sql, request, &parts).await?, Marked::No),
        Locking::Waits => (mark(session, sql, request, &parts).await?, Marked::Yes),
    };
    let now = rows_now(&found, request);
    let (mut rows, left) = loaded(session, sql, request, &found).await?;
    if rows.is_empty() {
        return Ok(rows);
    }
    let mut seqs: Vec<i64> = rows.iter().map(|row| row.seq.0).collect();
    seqs.sort_unstable();
    let parts = [
        ("{now}", now),
        ("{seqs}", list(seqs)),
        ("{owner}", quoted(request.owner.as_str())),
        ("{lease_us}", micros(request.lease).to_string()),
    ];
    let mut text = fill(&sql.claim, &parts);
    if marked == Marked::Yes && !left.is_empty() {
        text = format!("{text}; {}", fill(&sql.claim_unmark, &[("{seqs}", list(left))]));
    }
    session.commit_with(&text).await?;
    for row in &mut rows {
        row.attempts += u32::from(!row.lapsed);
        row.token = Token(row.token.0 + 1);
    }
    Ok(rows)
}

/// Whether rows that were found bear a mark of this transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marked {
    No,
    Yes,
}

/// The first of the rows that were found, up to the limit in bytes, with all their contents; and the numbers of the others.
async fn loaded(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    found: &[MySqlRow],
) -> Result<(Vec<Row>, Vec<i64>), Failure> {
    let limits = &request.bytes;
    let read: Vec<(Row, Option<usize>)> = found.iter().map(read_claimed).collect();
    let fitting = limits.fitting(read.iter().map(|(row, left_out)| left_out.unwrap_or(row.bytes)));
    let left = read[fitting..].iter().map(|(row, _)| row.seq.0).collect();
    let (mut rows, mut large) = (Vec::with_capacity(fitting), Vec::new());
    for (row, left_out) in read.into_iter().take(fitting) {
        rows.push(match left_out {
            Some(size) if size > limits.row => set_aside(row, size, limits),
            Some(_) => {
                large.push(row.seq.0);
                row
            }
            None => row,
        });
    }
    if !large.is_empty() {
        let parts =
            [("{now}", now_sql(request.now)), ("{most}", limits.row.to_string()), ("{seqs}", list(&large))];
        let found = session.once(fill(&sql.claim_large, &parts)).fetch_all(&mut session.connection).await?;
        put_in_place(&mut rows, &large, found.iter().map(read_claimed), limits);
    }
    Ok((rows, left))
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
    let text = fill(&fill(&sql.claim_marked, parts), &[("{order}", order.to_owned())]);
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
