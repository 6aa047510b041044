//! The tables: making them, upgrading them, telling whether they are there.

use pillarbox::port::Migrated;
use pillarbox_store_kit::{KNOWN, SchemaVersion, refuse_newer};
use rusqlite::{Connection, OptionalExtension};

use crate::error::Failure;
use crate::kind::Kind;
use crate::sql::Sql;
use crate::transaction::SqliteTransaction;

/// Each brings the tables to the version that is its place in the list, and writes that down.
pub(crate) const MIGRATIONS: [&str; 4] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_queue.sql"),
    include_str!("../migrations/0003_topics.sql"),
    include_str!("../migrations/0004_quarantine.sql"),
];
/// The version that this release makes.
const NEWEST: u32 = MIGRATIONS.len() as u32;

/// All statements that make the tables, for people who run them by hand.
pub(crate) fn script<K: Kind>(sql: &Sql) -> String {
    format!("BEGIN IMMEDIATE;\n\n{}\nCOMMIT;\n", K::tables(sql))
}

/// Makes or upgrades the tables, in the transaction that is open: two processes at once wait for each other.
pub(crate) fn migrate(tx: &SqliteTransaction) -> Result<Migrated, Failure> {
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

/// Adds columns that tables of earlier versions lack: SQLite has no words for one that may be there already, so that the statements
/// of migrations, which can be run again, leave it to this.
fn add_columns(tx: &SqliteTransaction) -> Result<(), Failure> {
    let columns =
        [(&tx.sql.joined_there, &tx.sql.joined_add), (&tx.sql.quarantine_there, &tx.sql.quarantine_add)];
    for (there, add) in columns {
        if tx.prepare(there).is_err() {
            tx.execute_batch(add)?;
        }
    }
    Ok(())
}

/// Adds the column that tables of an earlier release lack.
pub(crate) fn add_state(tx: &SqliteTransaction) -> Result<(), Failure> {
    if tx.prepare(&tx.sql.node_state_there).is_err() {
        tx.execute_batch(&tx.sql.node_state)?;
    }
    Ok(())
}

pub(crate) fn check(connection: &Connection, sql: &Sql) -> Result<(), Failure> {
    Ok(found(connection, sql)?.check(NEWEST)?)
}

/// The version of the tables; zero if there are none.
pub(crate) fn version(connection: &Connection, sql: &Sql) -> Result<u32, Failure> {
    let there: bool = connection.prepare_cached(&sql.tables)?.query_row([], |row| row.get(0))?;
    if !there {
        return Ok(0);
    }
    let version = connection.prepare_cached(&sql.version)?.query_row([], |row| row.get(0)).optional()?;
    Ok(version.unwrap_or(0))
}

/// What the tables say of themselves.
fn found(connection: &Connection, sql: &Sql) -> Result<SchemaVersion, Failure> {
    let version = version(connection, sql)?;
    if version == 0 {
        return Ok(SchemaVersion::default());
    }
    let step: Option<u32> =
        connection.prepare_cached(&sql.step)?.query_row([], |row| row.get(0)).optional()?;
    Ok(SchemaVersion { version, step: step.unwrap_or(0) })
}
