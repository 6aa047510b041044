//! Checking or creating the table of items, and creating the tables beside it.

use pillarbox::port::Migrated;
use pillarbox_store_kit::{refuse_lacking, refuse_missing, refuse_newer};
use rusqlite::Connection;

use crate::error::DriverError;
use crate::migrate::{add_state, version};
use crate::sql::Sql;
use crate::transaction::SqliteTransaction;

/// The version of the tables beside the items that this release creates and supports.
const KNOWN: u32 = 1;

/// Creates the missing tables within the open transaction. An existing table of items is not changed.
pub(crate) fn migrate(tx: &SqliteTransaction) -> Result<Migrated, DriverError> {
    let from = version(tx, &tx.sql)?;
    refuse_newer(from, KNOWN)?;
    let lacking = lacking(tx, &tx.sql)?;
    if lacking.len() == ALL {
        tx.execute_batch(&tx.sql.create_items)?;
    } else {
        refuse_lacking(&tx.sql.table, &lacking)?;
    }
    tx.execute_batch(&tx.newest_sql.create_beside)?;
    add_state(tx)?;
    Ok(Migrated { from, to: version(tx, &tx.sql)? })
}

/// Checks the table of items. The tables beside it may be missing: only nodes,
/// groups and operators need them.
pub(crate) fn check(connection: &Connection, sql: &Sql) -> Result<(), DriverError> {
    refuse_newer(version(connection, sql)?, KNOWN)?;
    let lacking = lacking(connection, sql)?;
    if lacking.len() < ALL {
        return Ok(refuse_lacking(&sql.table, &lacking)?);
    }
    Err(refuse_missing(&sql.table).into())
}

/// How many columns the table should have. If it lacks all of them, there is no table.
const ALL: usize = 9;

fn lacking(connection: &Connection, sql: &Sql) -> Result<Vec<String>, DriverError> {
    let mut statement = connection.prepare_cached(&sql.lacking)?;
    let columns = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(columns)
}
