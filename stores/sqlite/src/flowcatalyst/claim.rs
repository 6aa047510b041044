//! Claiming items: the time of the claim is its token, so it is later with each claim.

use jiff::Timestamp;
use pillarbox::model::Row;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::port::{ByteLimits, Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Reap, Scope};
use rusqlite::{Connection, params};

use super::row::read_within;
use super::time::text;
use crate::error::Failure;
use crate::fetch::row_most;
use crate::sql::Sql;
use crate::time::{earlier, old_enough};
use crate::transaction::SqliteTransaction;

pub(crate) fn claim(tx: &SqliteTransaction, request: &Claim, now: Timestamp) -> Result<Vec<Row>, Failure> {
    if request.from == ClaimFrom::Queue {
        return Err(unsupported("there is no queue in the layout flowcatalyst"));
    }
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX);
    let mut find = tx.prepare_cached(&tx.sql.fetch_due)?;
    let mut found = find.query(params![text(old_enough(now, request.skip_recent)), limit])?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let rowid = row.get(0)?;
        let item = item_at(tx, &tx.sql, rowid, &request.bytes)?;
        bytes += item.bytes;
        items.push((rowid, item));
        if request.bytes.reached_by(bytes) {
            break;
        }
    }
    mark(tx, items, now)
}

/// The item at a place, within limits.
pub(super) fn item_at(
    connection: &Connection,
    sql: &Sql,
    rowid: i64,
    limits: &ByteLimits,
) -> Result<Item, Failure> {
    let mut statement = connection.prepare_cached(&sql.item)?;
    Ok(statement.query_row(params![row_most(limits), rowid], |row| Ok(read_within(row, limits)))?)
}

/// Marks items as claimed, each by where it is.
pub(super) fn mark(
    tx: &SqliteTransaction,
    items: Vec<(i64, Item)>,
    now: Timestamp,
) -> Result<Vec<Row>, Failure> {
    let mut lock = tx.prepare_cached(&tx.sql.claim)?;
    let mut rows = Vec::with_capacity(items.len());
    for (rowid, mut item) in items {
        let after_last = item.processed_at.map_or(i64::MIN, |last| last.as_microsecond().saturating_add(1));
        let at = now.as_microsecond().max(after_last);
        lock.execute(params![rowid, text(at)])?;
        item.status = Some("PROCESSING".to_owned());
        item.processed_at = Some(crate::time::timestamp(at));
        rows.push(item.into_row());
    }
    Ok(rows)
}

/// Reads without claiming: what waits, in the order of claims.
pub(crate) fn fetch(
    connection: &Connection,
    sql: &Sql,
    request: &Fetch,
    now: Timestamp,
) -> Result<Fetched, Failure> {
    let nothing = Fetched { rows: Vec::new(), cursor: Cursor::default(), more: false, now };
    match &request.scope {
        Scope::Due => {}
        Scope::Slots { slots, .. } if slots.is_empty() => return Ok(nothing),
        _ => return Err(unsupported("rows of the layout flowcatalyst have no numbers to be read by")),
    }
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = connection.prepare_cached(&sql.fetch_due)?;
    let mut found = statement.query(params![text(old_enough(now, request.skip_recent)), limit])?;
    let (mut fetched, mut bytes) = (nothing, 0_usize);
    while let Some(row) = found.next()? {
        if fetched.rows.len() >= request.rows || (request.bytes.reached_by(bytes) && !fetched.rows.is_empty())
        {
            fetched.more = true;
            break;
        }
        let item = item_at(connection, sql, row.get(0)?, &request.bytes)?;
        bytes = bytes.saturating_add(item.bytes);
        let row = Row { token: pillarbox::model::Token::default(), ..item.into_row() };
        fetched.rows.push(row);
    }
    Ok(fetched)
}

/// Gives back what was claimed too long ago; its time stays, so that the next claim has a later one.
pub(crate) fn reap(tx: &SqliteTransaction, request: &Reap, now: Timestamp) -> Result<u64, Failure> {
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX);
    let before = text(earlier(now, request.older_than));
    Ok(tx.prepare_cached(&tx.sql.reap)?.execute(params![before, limit])? as u64)
}

fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
