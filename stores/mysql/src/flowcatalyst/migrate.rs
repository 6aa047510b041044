//! Checking or creating the table of items, and creating the tables beside it.

use pillarbox::model::ITEM_COLUMNS;
use pillarbox::port::Migrated;
use pillarbox_store_kit::{refuse_lacking, refuse_missing, refuse_newer};

use crate::connection::Session;
use crate::error::DriverError;
use crate::migrate::{add_state, version};
use crate::row::text_of;
use crate::sql::Sql;

/// The version of the tables beside the items that this release creates and supports.
const KNOWN: u32 = 1;

/// Creates the missing tables. An existing table of items is not changed.
pub(crate) async fn bring_up(session: &mut Session, sql: &Sql) -> Result<Migrated, DriverError> {
    let from = version(session, sql).await?;
    refuse_newer(from, KNOWN)?;
    match lacking(session, sql).await? {
        None => drop(session.results(sql.create_items.clone()).await?),
        Some(lacking) => refuse_lacking(&sql.table, &lacking)?,
    }
    if from == 0 {
        session.results(sql.create_beside.clone()).await?;
    }
    add_state(session, sql).await?;
    Ok(Migrated { from, to: version(session, sql).await? })
}

/// Checks the table of items. The tables beside it may be missing: only nodes,
/// groups and operators need them.
pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), DriverError> {
    refuse_newer(version(session, sql).await?, KNOWN)?;
    match lacking(session, sql).await? {
        Some(lacking) => Ok(refuse_lacking(&sql.table, &lacking)?),
        None => Err(refuse_missing(&sql.table).into()),
    }
}

/// The columns that the table lacks; `None` if there is no table.
async fn lacking(session: &mut Session, sql: &Sql) -> Result<Option<Vec<String>>, DriverError> {
    let rows = session.query(&*sql.items_columns).fetch_all(&mut session.connection).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let there: Vec<&str> = rows.iter().filter_map(|row| text_of(row, 0)).collect();
    let lacking = ITEM_COLUMNS.split(", ").filter(|column| !there.contains(column));
    Ok(Some(lacking.map(str::to_owned).collect()))
}
