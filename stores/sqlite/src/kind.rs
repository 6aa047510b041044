//! The differences between the native table and a table of items.

use jiff::Timestamp;
use pillarbox::model::{Column, Lane, Malformed, NewRow, Record, RowDecoder, Written};
use pillarbox::port::{
    ErrorKind, Items, JoinChange, JoinChanged, List, Migrated, Native, Settle, Settled, TableKind,
};
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

use crate::error::DriverError;
use crate::flowcatalyst::{self, ItemValues};
use crate::promote::{draw, renumber};
use crate::row::Values;
use crate::sql::Sql;
use crate::transaction::SqliteTransaction;
use crate::{insert, joins, migrate, settle};

/// A kind of table. A method with a default has no counterpart in a table of items.
pub(crate) trait Kind: TableKind {
    /// A time as a parameter of statements on rows.
    fn time(us: i64) -> Value;

    /// A time as stored in a row, in microseconds.
    fn stored_time(value: ValueRef<'_>) -> Option<i64>;

    /// Decodes all columns of a row, for people.
    fn record(decoder: &RowDecoder, row: &rusqlite::Row<'_>) -> Record;

    /// The position after which a page begins, as a statement parameter.
    fn page_after(page: &List) -> Value;

    /// The statements that create the tables.
    fn tables(sql: &Sql) -> String;

    /// Creates or upgrades the tables within the open transaction.
    fn migrate(tx: &SqliteTransaction) -> Result<Migrated, DriverError>;

    /// Refuses tables that are missing or whose version this release cannot use.
    fn check(connection: &Connection, sql: &Sql) -> Result<(), DriverError>;

    /// Inserts rows; the caller rolls all of them back if one fails.
    fn insert(
        connection: &Connection,
        sql: &Sql,
        rows: &[NewRow],
        now: Timestamp,
    ) -> Result<Vec<Written>, DriverError>;

    /// Applies outcomes after the fence was checked.
    fn apply(connection: &Connection, sql: &Sql, request: &Settle) -> Result<Settled, DriverError>;

    /// Changes one join.
    fn change_join(
        _connection: &Connection,
        _sql: &Sql,
        _request: &JoinChange,
    ) -> Result<JoinChanged, DriverError> {
        let detail = "there are no joins in the layout flowcatalyst".to_owned();
        Err(DriverError::Refused(ErrorKind::Unsupported, detail))
    }

    /// Deletes joins that ended before a time.
    fn purge_joins(_tx: &SqliteTransaction, _before_us: i64, _limit: i64) -> Result<(), DriverError> {
        Ok(())
    }

    /// Moves a replayed row to the end of the order. A message stays in the queue.
    fn move_to_end(_tx: &SqliteTransaction, _seq: i64, _lane: Option<i16>) -> Result<(), DriverError> {
        Ok(())
    }
}

/// A record that says so if its contents were left out because of their size.
fn without_left_out(decoder: &RowDecoder, row: &rusqlite::Row<'_>, record: Record) -> Record {
    match decoder.number(&Values(row), Column::LeftOut) {
        Some(_) => Record { event: Err(Malformed::left_out()), ..record },
        None => record,
    }
}

impl Kind for Native {
    fn time(us: i64) -> Value {
        Value::Integer(us)
    }

    fn stored_time(value: ValueRef<'_>) -> Option<i64> {
        value.as_i64().ok()
    }

    fn record(decoder: &RowDecoder, row: &rusqlite::Row<'_>) -> Record {
        without_left_out(decoder, row, decoder.record(&Values(row)))
    }

    fn page_after(page: &List) -> Value {
        Value::Integer(page.start())
    }

    fn tables(sql: &Sql) -> String {
        sql.migrations.join("\n")
    }

    fn migrate(tx: &SqliteTransaction) -> Result<Migrated, DriverError> {
        migrate::migrate(tx)
    }

    fn check(connection: &Connection, sql: &Sql) -> Result<(), DriverError> {
        migrate::check(connection, sql)
    }

    fn insert(
        connection: &Connection,
        sql: &Sql,
        rows: &[NewRow],
        now: Timestamp,
    ) -> Result<Vec<Written>, DriverError> {
        rows.iter().map(|row| insert::insert_row(connection, sql, row, now)).collect()
    }

    fn apply(connection: &Connection, sql: &Sql, request: &Settle) -> Result<Settled, DriverError> {
        settle::apply(connection, sql, request)
    }

    fn change_join(
        connection: &Connection,
        sql: &Sql,
        request: &JoinChange,
    ) -> Result<JoinChanged, DriverError> {
        joins::change_join(connection, sql, request)
    }

    fn purge_joins(tx: &SqliteTransaction, before_us: i64, limit: i64) -> Result<(), DriverError> {
        joins::purge_joins(tx, &tx.sql, before_us, limit)
    }

    fn move_to_end(tx: &SqliteTransaction, seq: i64, lane: Option<i16>) -> Result<(), DriverError> {
        let number = *draw(tx, 1)?.end();
        renumber(tx, seq, number, lane.filter(|lane| *lane == Lane::QUEUE.0))
    }
}

impl Kind for Items {
    fn time(us: i64) -> Value {
        Value::Text(flowcatalyst::text(us))
    }

    fn stored_time(value: ValueRef<'_>) -> Option<i64> {
        flowcatalyst::stored(value)
    }

    fn record(decoder: &RowDecoder, row: &rusqlite::Row<'_>) -> Record {
        without_left_out(decoder, row, decoder.item(&ItemValues(Values(row))).into_record())
    }

    fn page_after(page: &List) -> Value {
        page.after_id.as_ref().map_or(Value::Null, |id| Value::Text(id.to_string()))
    }

    fn tables(sql: &Sql) -> String {
        format!("{}\n{}", sql.create_items, sql.create_beside)
    }

    fn migrate(tx: &SqliteTransaction) -> Result<Migrated, DriverError> {
        flowcatalyst::migrate(tx)
    }

    fn check(connection: &Connection, sql: &Sql) -> Result<(), DriverError> {
        flowcatalyst::check(connection, sql)
    }

    fn insert(
        connection: &Connection,
        sql: &Sql,
        rows: &[NewRow],
        now: Timestamp,
    ) -> Result<Vec<Written>, DriverError> {
        flowcatalyst::insert(connection, sql, rows, now)
    }

    fn apply(connection: &Connection, sql: &Sql, request: &Settle) -> Result<Settled, DriverError> {
        flowcatalyst::apply(connection, sql, request)
    }
}
