//! Decoding of items: a read never fails because of a value that somebody wrote.

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{self, RowDecoder};
use pillarbox::port::ByteLimits;
use pillarbox_store_kit::read_item;
use rusqlite::{CachedStatement, Connection, params};

use super::time::stored;
use crate::error::DriverError;
use crate::fetch::row_most;
use crate::row::{Values, decoder};
use crate::sql::Sql;
use crate::time::timestamp;

/// The size of all contents in bytes if some of them were left out as too large, else NULL.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > ?1 OR octet_length(error_message) > ?1 \
    THEN {size} END AS left_out";

/// The values of one item, whose times are text.
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

/// Reads items by rowid.
pub(super) struct ItemReader<'c> {
    statement: CachedStatement<'c>,
    decoder: RowDecoder,
    limits: ByteLimits,
}

impl<'c> ItemReader<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        sql: &Sql,
        limits: ByteLimits,
    ) -> Result<Self, DriverError> {
        let statement = connection.prepare_cached(&sql.item)?;
        Ok(Self { decoder: decoder(&statement), statement, limits })
    }

    /// The item with this rowid. If it is larger than the size limit of a row, its contents are left out.
    pub(super) fn at(&mut self, rowid: i64) -> Result<Item, DriverError> {
        let (decoder, limits) = (&self.decoder, &self.limits);
        let read =
            |row: &rusqlite::Row<'_>| read_item(decoder, &ItemValues(Values(row)), limits).into_inner();
        Ok(self.statement.query_row(params![row_most(limits), rowid], |row| Ok(read(row)))?)
    }
}
