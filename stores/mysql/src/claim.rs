//! Claiming rows under a lease, and reaping expired claims.

use std::collections::{BTreeSet, HashMap};

use pillarbox::model::{OwnerId, Row, RowDecoder, Token, WithClaim};
use pillarbox::port::{Claim, ClaimFrom, DueTopics, Reap};
use pillarbox_store_kit::{Light, put_in_place, read_row};
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, numbers};
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::probe::Locking;
use crate::row::{Values, number_of, read_all, text_of, told_now};
use crate::sql::{Sql, fill, list, quoted, quoted_list};
use crate::time::{micros, micros_back, now_sql, youngest_sql};

/// The most messages that one claim by topic takes: one statement lists their sequence numbers.
const MOST: usize = 10_000;
/// A claim by topic looks at this many times the wanted messages, because other claims lock some of
/// them meanwhile.
const MORE: usize = 4;

pub(crate) async fn claim(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    locking: Locking,
) -> Result<Vec<Row>, DriverError> {
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{youngest}", youngest_sql(request.now, request.skip_recent)),
        ("{most}", request.bytes.at_once(request.rows).to_string()),
    ];
    session.begin().await?;
    let (found, marked) = match locking {
        _ if request.from == ClaimFrom::Queue && !request.topics.is_empty() => {
            (of_topics(session, sql, request, &parts, locking).await?, Marked::No)
        }
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

/// Whether the found rows carry a temporary mark of this transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marked {
    No,
    Yes,
}

/// The first of the found rows that fit the byte limit, with all their contents, and the sequence numbers of
/// the remaining rows.
async fn loaded(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    found: &[MySqlRow],
) -> Result<(Vec<Row>, Vec<i64>), DriverError> {
    let limits = &request.bytes;
    let read = |decoder: &RowDecoder, values: &Values<'_>| read_row(decoder, values, WithClaim::Yes, limits);
    let light = read_all(found, read);
    let fitting = limits.fitting(light.iter().map(|light| light.get().bytes));
    let left = light[fitting..].iter().map(|light| light.get().seq.0).collect();
    let (mut rows, mut large) = (Vec::with_capacity(fitting), Vec::new());
    for light in light.into_iter().take(fitting) {
        if let Light::Large(row) = &light {
            large.push(row.seq.0);
        }
        rows.push(light.into_inner());
    }
    if !large.is_empty() {
        let parts =
            [("{now}", now_sql(request.now)), ("{most}", limits.row.to_string()), ("{seqs}", list(&large))];
        let found = session.once(fill(&sql.claim_large, &parts)).fetch_all(&mut session.connection).await?;
        put_in_place(&mut rows, &large, read_all(&found, read).into_iter().map(Light::into_inner));
    }
    Ok((rows, left))
}

/// Locks the first due messages of all topics.
///
/// The index finds the candidates of each topic without locks, and the union merges them by due time. They
/// are then locked by sequence number, in portions: later candidates replace messages that other claims
/// have locked in between.
async fn of_topics(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    parts: &[(&str, String)],
    locking: Locking,
) -> Result<Vec<MySqlRow>, DriverError> {
    let wanted = request.rows.min(MOST);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let topics: BTreeSet<&str> = request.topics.iter().map(String::as_str).collect();
    let limit = (wanted * MORE).to_string();
    let find = fill(&fill(&sql.claim_topic_find, parts), &[("{limit}", limit.clone())]);
    let finds: Vec<String> = topics.iter().map(|topic| fill(&find, &[("{topic}", quoted(topic))])).collect();
    let union = format!("{} ORDER BY available_at, seq LIMIT {limit}", finds.join(" UNION ALL "));
    let near = session.once(union).fetch_all(&mut session.connection).await?;
    let near: Vec<i64> = near.iter().filter_map(|row| number_of(row, 1)).collect();
    let lock = fill(&fill(&sql.claim_topic_lock, parts), &[("{skip_locked}", locking.words())]);
    let mut found = HashMap::new();
    for portion in near.chunks(wanted) {
        let portion = &portion[..portion.len().min(wanted - found.len())];
        let text = fill(&lock, &[("{seqs}", list(portion))]);
        let locked = session.once(text).fetch_all(&mut session.connection).await?;
        found.extend(locked.into_iter().filter_map(|row| Some((number_of(&row, 0)?, row))));
        if found.len() >= wanted {
            break;
        }
    }
    Ok(near.iter().filter_map(|seq| found.remove(seq)).collect())
}

/// Lists topics that have claimable messages.
pub(crate) async fn due_topics(
    session: &mut Session,
    sql: &Sql,
    request: &DueTopics,
) -> Result<Vec<String>, DriverError> {
    // SQL allows no empty list, and no topic has an empty name.
    let except = request.except.iter().map(String::as_str).chain([""]);
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{topics}", quoted_list(except)),
        ("{limit}", request.limit.to_string()),
    ];
    let text = match session.server.dialect {
        Dialect::Mysql => &sql.due_topics,
        Dialect::Tidb => &sql.due_topics_scan,
    };
    let found = session.once(fill(text, &parts)).fetch_all(&mut session.connection).await?;
    Ok(found.iter().filter_map(|row| text_of(row, 0)).map(str::to_owned).collect())
}

/// The time at which the rows were found to be due.
fn rows_now(found: &[MySqlRow], request: &Claim) -> String {
    now_sql(request.now.or_else(|| told_now(found)))
}

async fn skip_locked(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    parts: &[(&str, String)],
) -> Result<Vec<MySqlRow>, DriverError> {
    let statement = request.from.either(&sql.claim_queue_find, &sql.claim_find);
    let query = session.query(fill(statement, parts)).bind(limit(request));
    Ok(query.fetch_all(&mut session.connection).await?)
}

/// Finds rows on a server without SKIP LOCKED: an update marks the first due rows with a random
/// owner, and a read finds them by that mark. No other transaction sees the mark, because it is
/// replaced before the commit.
async fn mark(
    session: &mut Session,
    sql: &Sql,
    request: &Claim,
    parts: &[(&str, String)],
) -> Result<Vec<MySqlRow>, DriverError> {
    let statement = request.from.either(&sql.claim_queue_mark, &sql.claim_mark);
    let mark = OwnerId::random();
    let query = session.query(fill(statement, parts)).bind(mark.as_str()).bind(limit(request));
    let marked = query.execute(&mut session.connection).await?.rows_affected();
    if marked == 0 {
        return Ok(Vec::new());
    }
    let order = request.from.either("available_at, seq", "seq");
    let text = fill(&fill(&sql.claim_marked, parts), &[("{order}", order.to_owned())]);
    let query = session.query(text).bind(mark.as_str()).bind(i64::try_from(marked).unwrap_or(i64::MAX));
    Ok(query.fetch_all(&mut session.connection).await?)
}

fn limit(request: &Claim) -> i64 {
    i64::try_from(request.rows).unwrap_or(i64::MAX)
}

/// Releases claims that expired too long ago.
///
/// The search takes no lock; only the rows it finds are locked, and checked again under the lock.
pub(crate) async fn reap(
    session: &mut Session,
    sql: &Sql,
    request: &Reap,
    locking: Locking,
) -> Result<u64, DriverError> {
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
