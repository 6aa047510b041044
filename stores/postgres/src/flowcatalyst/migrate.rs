//! Creates and checks a table of items and the tables beside it.

use pillarbox::port::Migrated;
use pillarbox_store_kit::{refuse_lacking, refuse_missing, refuse_newer};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::connection::Session;
use crate::error::DriverError;
use crate::migrate::{add_state, version};
use crate::sql::Sql;

/// The version of the tables beside the items.
const VERSION: u32 = 1;

/// The number of columns that a table of items needs. If all of them are missing, so is the table.
const ALL: usize = 9;

/// Creates missing tables in one transaction. An existing table of items stays as it is.
pub(crate) async fn migrate(session: &mut Session, sql: &Sql) -> Result<Migrated, DriverError> {
    let mut tx = session.begin().await?;
    tx.query(&sql.migrate_lock).execute(&mut *tx.tx).await?;
    let from = version(&mut tx.tx, sql).await?;
    refuse_newer(from, VERSION)?;
    let lacking = lacking(&mut tx.tx, sql).await?;
    let mut missing = Vec::new();
    if lacking.len() == ALL {
        missing.extend(&sql.schema);
        missing.push(&sql.create_items);
    } else {
        refuse_lacking(&sql.table, &lacking)?;
    }
    if from == 0 {
        missing.push(&sql.create_beside);
    }
    for text in missing {
        tx.tx.execute(sqlx::raw_sql(AssertSqlSafe(text.as_str()))).await?;
    }
    add_state(&mut tx.tx, sql).await?;
    let to = version(&mut tx.tx, sql).await?;
    tx.commit().await?;
    Ok(Migrated { from, to })
}

/// Checks the table of items. The tables beside it may be missing: only nodes,
/// groups and operators need them.
pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), DriverError> {
    refuse_newer(version(&mut session.connection, sql).await?, VERSION)?;
    let lacking = lacking(&mut session.connection, sql).await?;
    if lacking.len() < ALL {
        return Ok(refuse_lacking(&sql.table, &lacking)?);
    }
    Err(refuse_missing(&sql.table).into())
}

async fn lacking(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<String>, DriverError> {
    // Not kept prepared: a pooler may run the next statement on another server connection.
    let query = sqlx::query(AssertSqlSafe(std::sync::Arc::clone(&sql.lacking))).persistent(false);
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
