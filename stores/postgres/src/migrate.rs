//! Creates, upgrades and checks the native tables.

use std::sync::Arc;

use pillarbox::port::Migrated;
use pillarbox_store_kit::{KNOWN, SchemaVersion, migrations, refuse_newer};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::connection::{Query, Session};
use crate::error::DriverError;
use crate::kind::Kind;
use crate::sql::Sql;

migrations!("0001_outbox", "0002_queue", "0003_topics", "0004_quarantine", "0005_inserts", "0006_oversized");

/// The SQL that creates the tables, for people who run it by hand.
pub(crate) fn script<K: Kind>(sql: &Sql) -> String {
    let schema = sql.schema.as_deref().map(|text| format!("{text}\n")).unwrap_or_default();
    format!("BEGIN;\n\n{schema}{}\n{}\nCOMMIT;\n", K::tables(sql), sql.node_state)
}

/// Creates or upgrades the tables in one transaction. A lock makes concurrent migrations wait for each other.
pub(crate) async fn migrate(session: &mut Session, sql: &Sql) -> Result<Migrated, DriverError> {
    let mut tx = session.begin().await?;
    tx.query(&sql.migrate_lock).execute(&mut *tx.tx).await?;
    let found = found(&mut tx.tx, sql).await?;
    refuse_newer(found.version, KNOWN)?;
    let from = found.applied();
    let schema = sql.schema.iter().filter(|_| from == 0);
    for text in schema.chain(sql.migrations.iter().skip(from as usize)) {
        tx.tx.execute(sqlx::raw_sql(AssertSqlSafe(text.as_str()))).await?;
    }
    add_state(&mut tx.tx, sql).await?;
    unless_there(&mut tx.tx, &sql.page_room_there, &sql.page_room).await?;
    let to = self::found(&mut tx.tx, sql).await?.applied();
    tx.commit().await?;
    Ok(Migrated { from, to })
}

/// Adds a column that tables of an earlier release lack.
pub(crate) async fn add_state(connection: &mut PgConnection, sql: &Sql) -> Result<(), DriverError> {
    unless_there(connection, &sql.node_state_there, &sql.node_state).await
}

/// Alters a table of an earlier release. Checks first, so that a user who may not alter tables can still migrate
/// tables that are up to date.
async fn unless_there(
    connection: &mut PgConnection,
    there: &Arc<str>,
    alter: &str,
) -> Result<(), DriverError> {
    if !unprepared(there).fetch_one(&mut *connection).await?.try_get::<bool, _>(0)? {
        connection.execute(sqlx::raw_sql(AssertSqlSafe(alter))).await?;
    }
    Ok(())
}

pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), DriverError> {
    let found = found(&mut session.connection, sql).await?;
    let schema: Option<String> = match found.version {
        0 => unprepared(&sql.searched_schema).fetch_one(&mut session.connection).await?.try_get(0)?,
        _ => None,
    };
    Ok(found.check(NEWEST, schema.as_deref())?)
}

/// The version of the tables; zero if they do not exist.
pub(crate) async fn version(connection: &mut PgConnection, sql: &Sql) -> Result<u32, DriverError> {
    let there: bool = unprepared(&sql.tables).fetch_one(&mut *connection).await?.try_get(0)?;
    if !there {
        return Ok(0);
    }
    number(connection, &sql.version).await
}

/// The version and the last migration that the tables record.
async fn found(connection: &mut PgConnection, sql: &Sql) -> Result<SchemaVersion, DriverError> {
    match version(connection, sql).await? {
        0 => Ok(SchemaVersion::default()),
        version => Ok(SchemaVersion { version, step: number(connection, &sql.step).await? }),
    }
}

/// A number from the table `meta`; zero if it is missing.
async fn number(connection: &mut PgConnection, text: &Arc<str>) -> Result<u32, DriverError> {
    let row = unprepared(text).fetch_optional(connection).await?;
    let number: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0))
}

/// Not kept prepared: a pooler may run the next statement on another server connection.
fn unprepared(text: &Arc<str>) -> Query<'_> {
    sqlx::query(AssertSqlSafe(Arc::clone(text))).persistent(false)
}
