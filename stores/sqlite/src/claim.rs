//! Claiming rows under a lease, and reaping expired claims.

use std::collections::BTreeSet;

use jiff::Timestamp;
use pillarbox::model::{Row, Token, WithClaim};
use pillarbox::port::{Claim, ClaimFrom, DueTopics, Reap};
use pillarbox_store_kit::read_row;
use rusqlite::{Connection, params};

use crate::error::DriverError;
use crate::fetch::row_most;
use crate::row::{Values, decoder, lossy_text};
use crate::sql::Sql;
use crate::time::{earlier, later, now, old_enough};
use crate::transaction::SqliteTransaction;

pub(crate) fn claim(tx: &SqliteTransaction, request: &Claim) -> Result<Vec<Row>, DriverError> {
    let now = now(request.now);
    let now_us = now.as_microsecond();
    let mut rows = match request.from {
        ClaimFrom::Queue if request.topics.is_empty() => found(tx, &tx.sql.claim_queue, request, now)?,
        ClaimFrom::Queue => of_topics(tx, request, now)?,
        ClaimFrom::Events => found(tx, &tx.sql.fetch_due, request, now)?,
    };
    let mut lock = tx.prepare_cached(&tx.sql.claim)?;
    let until = later(now, request.lease);
    for row in &mut rows {
        let loaded = row.event.is_ok();
        let claimed = lock.execute(params![row.seq.0, request.owner.as_str(), now_us, until, loaded])? > 0;
        // A row that is too large to be rewritten is not claimed; all that can become of it is that it is set aside.
        row.token = if claimed { Token(row.token.0 + 1) } else { Token(0) };
        row.attempts = row.attempts.saturating_add(u32::from(!row.lapsed));
    }
    Ok(rows)
}

fn found(
    tx: &SqliteTransaction,
    statement: &str,
    request: &Claim,
    now: Timestamp,
) -> Result<Vec<Row>, DriverError> {
    let (now_us, oldest) = (now.as_microsecond(), old_enough(now, request.skip_recent));
    let mut find = tx.prepare_cached(statement)?;
    let decoder = decoder(&find);
    let mut found = find.query(params![row_most(&request.bytes), now_us, oldest, limit(request.rows)])?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let row = read_row(&decoder, &Values(row), WithClaim::Yes, &request.bytes).into_inner();
        bytes += row.bytes;
        rows.push(row);
        if request.bytes.reached_by(bytes) {
            break;
        }
    }
    Ok(rows)
}

/// Reads the first due messages of all topics. The index finds them for each topic, so messages of other
/// topics are not read; then they are merged by due time.
fn of_topics(tx: &SqliteTransaction, request: &Claim, now: Timestamp) -> Result<Vec<Row>, DriverError> {
    let (now_us, old_enough) = (now.as_microsecond(), old_enough(now, request.skip_recent));
    let topics: BTreeSet<&String> = request.topics.iter().collect();
    let mut first: Vec<(i64, i64)> = Vec::new();
    let mut find = tx.prepare_cached(&tx.sql.claim_topic)?;
    for topic in topics {
        let given = params![now_us, old_enough, limit(request.rows), topic];
        let of_topic = find.query_map(given, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for one in of_topic {
            first.push(one?);
        }
    }
    first.sort_unstable();
    first.truncate(request.rows);
    let mut read = tx.prepare_cached(&tx.sql.claim_row)?;
    let decoder = decoder(&read);
    let (mut rows, mut bytes) = (Vec::with_capacity(first.len()), 0);
    for (_, seq) in first {
        let given = params![row_most(&request.bytes), seq];
        let whole =
            |row: &rusqlite::Row<'_>| read_row(&decoder, &Values(row), WithClaim::Yes, &request.bytes);
        let row = read.query_row(given, |row| Ok(whole(row).into_inner()))?;
        bytes += row.bytes;
        rows.push(row);
        if request.bytes.reached_by(bytes) {
            break;
        }
    }
    Ok(rows)
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Lists topics that have claimable messages.
pub(crate) fn due_topics(
    connection: &Connection,
    sql: &Sql,
    request: &DueTopics,
) -> Result<Vec<String>, DriverError> {
    let except: Vec<&str> = request.except.iter().map(String::as_str).collect();
    let except = serde_json::to_string(&except).unwrap_or_else(|_| "[]".to_owned());
    let mut statement = connection.prepare_cached(&sql.due_topics)?;
    let given = params![now(request.now).as_microsecond(), except, limit(request.limit)];
    let topics = statement.query_map(given, |row| lossy_text(row, 0))?;
    Ok(topics.collect::<Result<_, _>>()?)
}

/// Releases claims that expired too long ago.
pub(crate) fn reap(tx: &SqliteTransaction, request: &Reap) -> Result<u64, DriverError> {
    let before = earlier(now(request.now), request.older_than);
    Ok(tx.prepare_cached(&tx.sql.reap)?.execute(params![before, limit(request.rows)])? as u64)
}
