//! Items as SQLite gives them: whatever someone else wrote, a read never fails on it.

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{self, RowDecoder};
use pillarbox::port::ByteLimits;
use pillarbox_store_kit::read_item;
use rusqlite::{CachedStatement, Connection, params};

use super::time::stored;
use crate::error::Failure;
use crate::fetch::row_most;
use crate::row::{Values, decoder};
use crate::sql::Sql;
use crate::time::timestamp;

/// How many bytes the contents have of which some were left out; NULL where none were.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > ?1 OR octet_length(error_message) > ?1 \
    THEN ifnull(octet_length(payload), 0) + ifnull(octet_length(error_message), 0) END AS left_out";

/// The values of one item: its times are texts.
pub(crate) struct ItemValues<'r>(pub(crate) Values<'r>);

impl model::Values for ItemValues<'_> {
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
        self.0.text(position)
    }

    fn bytes(&self, position: usize) -> Option<&[u8]> {
        self.0.bytes(position)
    }

    fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
        Ok(self.0.value(position).as_i64().ok())
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
        Ok(stored(self.0.value(position)).map(timestamp))
    }
}

/// Reads items by where they are.
pub(super) struct ItemReader<'c> {
    statement: CachedStatement<'c>,
    decoder: RowDecoder,
    limits: ByteLimits,
}

impl<'c> ItemReader<'c> {
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
