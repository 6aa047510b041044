//! The tables: that of items as it is or is made, and ours beside it.

use pillarbox::port::Migrated;
use pillarbox_store_kit::{refuse_lacking, refuse_missing, refuse_newer};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::connection::Session;
use crate::error::Failure;
use crate::migrate::{add_state, version};
use crate::sql::Sql;

/// The version that the tables beside are made with.
const VERSION: u32 = 1;

/// How many columns there are to lack.
const ALL: usize = 9;

/// Makes what is missing, in one transaction. A table of items that is there stays as it is.
pub(crate) async fn migrate(session: &mut Session, sql: &Sql) -> Result<Migrated, Failure> {
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

/// Checks the table of items. Ours may be missing: only nodes, groups and operators need them.
pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    refuse_newer(version(&mut session.connection, sql).await?, VERSION)?;
    let lacking = lacking(&mut session.connection, sql).await?;
    if lacking.len() < ALL {
        return Ok(refuse_lacking(&sql.table, &lacking)?);
    }
    Err(refuse_missing(&sql.table).into())
}

async fn lacking(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<String>, Failure> {
    // Not kept prepared: a pooler may hand the next statement to another server connection.
    let query = sqlx::query(AssertSqlSafe(std::sync::Arc::clone(&sql.lacking))).persistent(false);
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
