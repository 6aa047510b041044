//! Creating and upgrading the tables, and checking their version.

use pillarbox::port::Migrated;
use pillarbox_store_kit::{KNOWN, SchemaVersion, migrations, refuse_newer};
use rusqlite::{Connection, OptionalExtension};

use crate::error::DriverError;
use crate::kind::Kind;
use crate::sql::Sql;
use crate::transaction::SqliteTransaction;

migrations!("0001_outbox", "0002_queue", "0003_topics", "0004_quarantine", "0005_inserts", "0006_oversized");

/// All statements that create the tables, to run them by hand.
pub(crate) fn script<K: Kind>(sql: &Sql) -> String {
    format!("BEGIN IMMEDIATE;\n\n{}\nCOMMIT;\n", K::tables(sql))
}

/// Creates or upgrades the tables within the open transaction, so concurrent migrations wait for each other.
pub(crate) fn migrate(tx: &SqliteTransaction) -> Result<Migrated, DriverError> {
    let found = found(tx, &tx.sql)?;
    refuse_newer(found.version, KNOWN)?;
    let from = found.applied();
    if from > 0 {
        add_columns(tx)?;
    }
    for text in tx.sql.migrations.iter().skip(from as usize) {
        tx.execute_batch(text)?;
    }
    add_state(tx)?;
    Ok(Migrated { from, to: self::found(tx, &tx.sql)?.applied() })
}

/// Adds columns that tables of earlier versions lack. SQLite cannot add a column only if it is missing, and
/// the migrations must be repeatable, so they leave these columns to this function.
fn add_columns(tx: &SqliteTransaction) -> Result<(), DriverError> {
    let columns =
        [(&tx.sql.joined_there, &tx.sql.joined_add), (&tx.sql.quarantine_there, &tx.sql.quarantine_add)];
    for (there, add) in columns {
        if tx.prepare(there).is_err() {
            tx.execute_batch(add)?;
        }
    }
    Ok(())
}

/// Adds the `state` column, which tables of an earlier release lack.
pub(crate) fn add_state(tx: &SqliteTransaction) -> Result<(), DriverError> {
    if tx.prepare(&tx.sql.node_state_there).is_err() {
        tx.execute_batch(&tx.sql.node_state)?;
    }
    Ok(())
}

pub(crate) fn check(connection: &Connection, sql: &Sql) -> Result<(), DriverError> {
    Ok(found(connection, sql)?.check(NEWEST, None)?)
}

/// The version of the tables; zero if there are none.
pub(crate) fn version(connection: &Connection, sql: &Sql) -> Result<u32, DriverError> {
    let there: bool = connection.prepare_cached(&sql.tables)?.query_row([], |row| row.get(0))?;
    if !there {
        return Ok(0);
    }
    let version = connection.prepare_cached(&sql.version)?.query_row([], |row| row.get(0)).optional()?;
    Ok(version.unwrap_or(0))
}

/// The version and step that the tables record.
fn found(connection: &Connection, sql: &Sql) -> Result<SchemaVersion, DriverError> {
    let version = version(connection, sql)?;
    if version == 0 {
        return Ok(SchemaVersion::default());
    }
    let step: Option<u32> =
        connection.prepare_cached(&sql.step)?.query_row([], |row| row.get(0)).optional()?;
    Ok(SchemaVersion { version, step: step.unwrap_or(0) })
}
