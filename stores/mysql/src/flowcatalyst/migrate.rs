//! The tables: that of items as it is or is made, and ours beside it.

use pillarbox::port::{ErrorKind, Migrated};

use super::row::COLUMNS;
use crate::connection::Session;
use crate::error::Failure;
use crate::migrate::{add_state, locked, refuse_newer, version};
use crate::row::text_of;
use crate::sql::{Names, Sql};

const ITEMS: &str = include_str!("../../sql/flowcatalyst/create_items.sql");
const BESIDE: &str = include_str!("../../sql/flowcatalyst/create_beside.sql");
/// The version of the tables beside that this release makes and knows.
const KNOWN: u32 = 1;

/// The statements that make the tables of one outbox.
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
        format!("{}\n{}", self.items, self.beside)
    }
}

/// Makes what is missing. A table of items that is there stays as it is.
pub(crate) async fn migrate(session: &mut Session, sql: &Sql, tables: &Tables) -> Result<Migrated, Failure> {
    locked(session, sql).await?;
    let migrated = bring_up(session, sql, tables).await;
    session.query(&*sql.migrate_unlock).fetch_one(&mut session.connection).await?;
    migrated
}

async fn bring_up(session: &mut Session, sql: &Sql, tables: &Tables) -> Result<Migrated, Failure> {
    let from = version(session, sql).await?;
    refuse_newer(from, KNOWN)?;
    match lacking(session, sql).await? {
        None => drop(session.results(tables.items.clone()).await?),
        Some(lacking) => refuse_lacking(sql, &lacking)?,
    }
    if from == 0 {
        session.results(tables.beside.clone()).await?;
    }
    add_state(session, sql).await?;
    Ok(Migrated { from, to: version(session, sql).await? })
}

/// Checks the table of items. Ours may be missing: only nodes, groups and operators need them.
pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    refuse_newer(version(session, sql).await?, KNOWN)?;
    match lacking(session, sql).await? {
        Some(lacking) => refuse_lacking(sql, &lacking),
        None => {
            let detail = "the tables are missing; run `pillarbox migrate --layout flowcatalyst`".to_owned();
            Err(Failure::Refused(ErrorKind::Schema, detail))
        }
    }
}

/// The columns that the table has not; `None` where there is no table.
async fn lacking(session: &mut Session, sql: &Sql) -> Result<Option<Vec<&'static str>>, Failure> {
    let rows = session.query(&*sql.items_columns).fetch_all(&mut session.connection).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let there: Vec<&str> = rows.iter().filter_map(|row| text_of(row, 0)).collect();
    Ok(Some(COLUMNS.split(", ").filter(|column| !there.contains(column)).collect()))
}

fn refuse_lacking(sql: &Sql, lacking: &[&str]) -> Result<(), Failure> {
    if lacking.is_empty() {
        return Ok(());
    }
    let detail = format!("the table {} has no column {}", sql.event, lacking.join(", "));
    Err(Failure::Refused(ErrorKind::Schema, detail))
}
