//! The tables: making them, upgrading them, telling whether they are there.

use pillarbox::port::{ErrorKind, Migrated};
use rusqlite::{Connection, OptionalExtension};

use crate::error::Failure;
use crate::sql::{Names, Sql};
use crate::transaction::SqliteTransaction;

/// Each brings the tables to the version that is its place in the list, and writes that down.
const MIGRATIONS: [&str; 4] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_queue.sql"),
    include_str!("../migrations/0003_topics.sql"),
    include_str!("../migrations/0004_quarantine.sql"),
];
/// The version that this release makes.
const NEWEST: u32 = MIGRATIONS.len() as u32;
/// The newest version that an older release could not work with: it refuses what is beyond the one it knows.
const KNOWN: u32 = 2;

/// The migrations of one outbox, with its names.
pub(crate) struct Migrations(Vec<String>);

impl Migrations {
    pub(crate) fn new(names: &Names) -> Self {
        Self(MIGRATIONS.iter().map(|text| names.fill(text)).collect())
    }

    /// All statements, for people who run them by hand.
    pub(crate) fn script(&self) -> String {
        format!("BEGIN IMMEDIATE;\n\n{}\nCOMMIT;\n", self.0.join("\n"))
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// Makes or upgrades the tables, in the transaction that is open: two processes at once wait for each other.
pub(crate) fn migrate(tx: &SqliteTransaction, texts: &[String]) -> Result<Migrated, Failure> {
    refuse_newer(version(tx, &tx.sql)?, KNOWN)?;
    let from = applied(tx, &tx.sql)?;
    if from > 0 {
        add_columns(tx)?;
    }
    for text in texts.iter().skip(from as usize) {
        tx.execute_batch(text)?;
    }
    add_state(tx)?;
    Ok(Migrated { from, to: applied(tx, &tx.sql)? })
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
    refuse_newer(version(connection, sql)?, KNOWN)?;
    let found = applied(connection, sql)?;
    if found >= NEWEST {
        return Ok(());
    }
    let detail = match found {
        0 => "the tables are missing; run `pillarbox migrate`".to_owned(),
        _ => format!("the tables are of version {found}, this needs {NEWEST}; run `pillarbox migrate`"),
    };
    Err(Failure::Refused(ErrorKind::Schema, detail))
}

pub(crate) fn refuse_newer(found: u32, known: u32) -> Result<(), Failure> {
    if found <= known {
        return Ok(());
    }
    let detail =
        format!("the tables are of version {found}, this knows versions up to {known}; use a newer release");
    Err(Failure::Refused(ErrorKind::Schema, detail))
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

/// The last migration that was made: of these, some need no new version.
fn applied(connection: &Connection, sql: &Sql) -> Result<u32, Failure> {
    let version = version(connection, sql)?;
    if version == 0 {
        return Ok(0);
    }
    let step: Option<u32> =
        connection.prepare_cached(&sql.step)?.query_row([], |row| row.get(0)).optional()?;
    Ok(step.unwrap_or(0).max(version))
}
