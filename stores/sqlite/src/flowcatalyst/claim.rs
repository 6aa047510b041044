//! Claiming items: the time of the claim is its token, so it is later with each claim.

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{Row, RowDecoder};
use pillarbox::port::{ByteLimits, Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Reap, Scope};
use pillarbox_store_kit::read_item;
use rusqlite::{CachedStatement, Connection, params};

use super::row::ItemValues;
use super::time::text;
use crate::error::Failure;
use crate::fetch::row_most;
use crate::row::{Values, decoder};
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
    let mut read = Items::new(tx, &tx.sql, request.bytes)?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let rowid = row.get(0)?;
        let item = read.at(rowid)?;
        bytes += item.bytes;
        items.push((rowid, item));
        if request.bytes.reached_by(bytes) {
            break;
        }
    }
    mark(tx, items, now)
}

/// Reads items by where they are.
pub(super) struct Items<'c> {
    statement: CachedStatement<'c>,
    decoder: RowDecoder,
    limits: ByteLimits,
}

impl<'c> Items<'c> {
    pub(super) fn new(connection: &'c Connection, sql: &Sql, limits: ByteLimits) -> Result<Self, Failure> {
        let statement = connection.prepare_cached(&sql.item)?;
        Ok(Self { decoder: decoder(&statement), statement, limits })
    }

    /// The item at a place. One that has more bytes than a row may have comes without its contents.
    pub(super) fn at(&mut self, rowid: i64) -> Result<Item, Failure> {
        let (decoder, limits) = (&self.decoder, &self.limits);
        let read =
            |row: &rusqlite::Row<'_>| read_item(decoder, &ItemValues(Values(row)), limits).into_inner();
        Ok(self.statement.query_row(params![row_most(limits), rowid], |row| Ok(read(row)))?)
    }
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
    let mut read = Items::new(connection, sql, request.bytes)?;
    let (mut fetched, mut bytes) = (nothing, 0_usize);
    while let Some(row) = found.next()? {
        if fetched.rows.len() >= request.rows || (request.bytes.reached_by(bytes) && !fetched.rows.is_empty())
        {
            fetched.more = true;
            break;
        }
        let item = read.at(row.get(0)?)?;
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
