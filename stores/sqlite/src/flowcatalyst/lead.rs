//! The leader's work: taking the first rows of each group in turn, and recovering stuck rows.

use std::collections::HashSet;

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{EventId, NodeId, Row};
use pillarbox::port::{ByteLimits, ItemStore, Recover, StoreFuture, Take, Taken};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params};

use super::row::ItemReader;
use super::time::text;
use crate::error::DriverError;
use crate::job::Durability;
use crate::store::SqliteItemStore;
use crate::time::{earlier, now, timestamp};
use crate::transaction::SqliteTransaction;

/// A power cut may lose either change. It also ends the process that held the rows, and
/// they are then taken again.
impl ItemStore for SqliteItemStore {
    fn take(&self, request: Take) -> StoreFuture<'_, Taken> {
        self.change("take", Durability::Relaxed, move |tx| take(tx, &request))
    }

    fn recover(&self, request: Recover) -> StoreFuture<'_, u64> {
        self.change("recover", Durability::Relaxed, move |tx| recover(tx, &request))
    }
}

fn leads(tx: &SqliteTransaction, node: NodeId) -> Result<bool, DriverError> {
    Ok(tx.prepare_cached(&tx.sql.leads)?.query_row([node.to_string()], |row| row.get(0))?)
}

fn take(tx: &SqliteTransaction, request: &Take) -> Result<Taken, DriverError> {
    let now = now(request.now);
    if !leads(tx, request.node)? {
        return Ok(Taken { leads: false, rows: Vec::new() });
    }
    let mut taking = Taking::new(tx, request);
    if request.after.is_none() {
        taking.read(&Value::Null, request.ungrouped)?;
    }
    let mut last = request.after.as_ref().map(|after| Value::Text(after.as_str().to_owned()));
    while request.each > 0 && taking.room() > 0 {
        let Some(group) = next_group(tx, last.as_ref())? else { break };
        taking.read(&group, request.each)?;
        last = Some(group);
    }
    Ok(Taken { leads: true, rows: mark(tx, taking.items, now)? })
}

/// Finds the next group with one step in the index, however many rows the last group has.
fn next_group(tx: &SqliteTransaction, last: Option<&Value>) -> Result<Option<Value>, DriverError> {
    let group = |row: &rusqlite::Row<'_>| row.get(0);
    Ok(match last {
        None => tx.prepare_cached(&tx.sql.group_first)?.query_row([], group).optional()?,
        Some(last) => tx.prepare_cached(&tx.sql.group_next)?.query_row([last], group).optional()?,
    })
}

/// The rows to be taken.
struct Taking<'a> {
    tx: &'a SqliteTransaction,
    except: HashSet<&'a str>,
    rows: usize,
    limits: ByteLimits,
    bytes: usize,
    items: Vec<(i64, Item)>,
}

impl<'a> Taking<'a> {
    fn new(tx: &'a SqliteTransaction, request: &'a Take) -> Self {
        let except = request.except.iter().map(|group| group.as_str()).collect();
        let (rows, limits) = (request.rows.min(Take::MOST), request.bytes);
        Self { tx, except, rows, limits, bytes: 0, items: Vec::new() }
    }

    /// How many more rows can be taken.
    fn room(&self) -> usize {
        if self.is_full() { 0 } else { self.rows.saturating_sub(self.items.len()) }
    }

    fn is_full(&self) -> bool {
        self.limits.reached_by(self.bytes) && !self.items.is_empty()
    }

    /// Whether a group is held, or excluded by the request.
    fn leaves_out(&self, key: Option<&str>) -> Result<bool, DriverError> {
        let Some(key) = key else { return Ok(false) };
        Ok(self.except.contains(key) || self.tx.prepare_cached(&self.tx.sql.group_show)?.exists([key])?)
    }

    /// Adds the first rows of a group, unless the group is left out.
    fn read(&mut self, group: &Value, most: usize) -> Result<(), DriverError> {
        let asked = match group {
            Value::Text(key) => Some(key.as_str()),
            _ => None,
        };
        if self.leaves_out(asked)? {
            return Ok(());
        }
        let limit = i64::try_from(most.min(self.room())).unwrap_or(i64::MAX);
        let mut statement = self.tx.prepare_cached(&self.tx.sql.take)?;
        let mut items = ItemReader::new(self.tx, &self.tx.sql, self.limits)?;
        let mut found = statement.query(params![group, limit])?;
        while !self.is_full()
            && let Some(row) = found.next()?
        {
            let rowid = row.get(0)?;
            let item = items.at(rowid)?;
            // The column's collation may treat different keys as equal.
            let other = item.message_group.as_deref().filter(|key| Some(*key) != asked);
            if !self.leaves_out(other)? {
                self.bytes += item.bytes;
                self.items.push((rowid, item));
            }
        }
        Ok(())
    }
}

/// Marks items as taken, each by its rowid. The time is the token, so it increases
/// each time an item is taken. An item that was not loaded and is too large to be rewritten has no token; all that
/// can become of it is that it is set aside.
fn mark(tx: &SqliteTransaction, items: Vec<(i64, Item)>, now: Timestamp) -> Result<Vec<Row>, DriverError> {
    let mut mark = tx.prepare_cached(&tx.sql.mark_taken)?;
    let mut rows = Vec::with_capacity(items.len());
    for (rowid, mut item) in items {
        let after_last = item.processed_at.map_or(i64::MIN, |last| last.as_microsecond().saturating_add(1));
        let at = now.as_microsecond().max(after_last);
        let marked = mark.execute(params![rowid, text(at), item.wrong.is_none()])? > 0;
        item.status = Some("PROCESSING".to_owned());
        item.processed_at = marked.then(|| timestamp(at));
        rows.push(item.into_row());
    }
    Ok(rows)
}

fn recover(tx: &SqliteTransaction, request: &Recover) -> Result<u64, DriverError> {
    let now = now(request.now);
    if !leads(tx, request.node)? {
        return Ok(0);
    }
    let before = (!request.older_than.is_zero()).then(|| text(earlier(now, request.older_than)));
    let except: Vec<&str> = request.except.iter().map(EventId::as_str).collect();
    let except = serde_json::to_string(&except).unwrap_or_default();
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX);
    Ok(tx.prepare_cached(&tx.sql.recover)?.execute(params![before, except, limit])? as u64)
}
