//! The tables: that of items as it is or is made, and ours beside it.

use pillarbox::port::{ErrorKind, Migrated};
use rusqlite::Connection;

use crate::error::Failure;
use crate::migrate::{add_state, refuse_newer, version};
use crate::sql::{Names, Sql};
use crate::transaction::SqliteTransaction;

const ITEMS: &str = include_str!("../../sql/flowcatalyst/create_items.sql");
const BESIDE: &str = include_str!("../../sql/flowcatalyst/create_beside.sql");
/// The version of the tables beside that this release makes and knows.
const KNOWN: u32 = 1;

/// The statements that make the tables of one outbox.
#[derive(Clone)]
pub(crate) struct Tables {
    items: String,
    beside: String,
}

impl Tables {
    pub(crate) fn new(names: &Names) -> Self {
        Self { items: names.fill(ITEMS), beside: names.fill(BESIDE) }
    }

    /// All statements, for people who run them by hand.
    pub(crate) fn script(&self) -> String {
        format!("BEGIN IMMEDIATE;\n\n{}\n{}\nCOMMIT;\n", self.items, self.beside)
    }
}

/// Makes what is missing, in the transaction that is open. A table of items that is there stays as it is.
pub(crate) fn migrate(tx: &SqliteTransaction, tables: &Tables) -> Result<Migrated, Failure> {
    let from = version(tx, &tx.sql)?;
    refuse_newer(from, KNOWN)?;
    let lacking = lacking(tx, &tx.sql)?;
    if lacking.len() == ALL {
        tx.execute_batch(&tables.items)?;
    } else {
        refuse_lacking(&tx.sql, &lacking)?;
    }
    if from == 0 {
        tx.execute_batch(&tables.beside)?;
    }
    add_state(tx)?;
    Ok(Migrated { from, to: version(tx, &tx.sql)? })
}

/// Checks the table of items. Ours may be missing: only nodes, groups and operators need them.
pub(crate) fn check(connection: &Connection, sql: &Sql) -> Result<(), Failure> {
    refuse_newer(version(connection, sql)?, KNOWN)?;
    let lacking = lacking(connection, sql)?;
    if lacking.len() < ALL {
        return refuse_lacking(sql, &lacking);
    }
    let table = sql.table.as_str();
    let detail = format!(
        "the table {table} is missing; run `pillarbox migrate --layout flowcatalyst --table {table}`"
    );
    Err(Failure::Refused(ErrorKind::Schema, detail))
}

/// How many columns there are to lack.
const ALL: usize = 9;

fn lacking(connection: &Connection, sql: &Sql) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare_cached(&sql.lacking)?;
    let columns = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(columns)
}

fn refuse_lacking(sql: &Sql, lacking: &[String]) -> Result<(), Failure> {
    if lacking.is_empty() {
        return Ok(());
    }
    let detail = format!("the table {} has no column {}", sql.table.as_str(), lacking.join(", "));
    Err(Failure::Refused(ErrorKind::Schema, detail))
}
