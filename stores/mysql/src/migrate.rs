//! Creating and upgrading the tables, and checking their version.

use pillarbox::port::{ErrorKind, Migrated};
use pillarbox_store_kit::{KNOWN, SchemaVersion, migrations, refuse_newer};

use crate::connection::Session;
use crate::error::DriverError;
use crate::kind::Kind;
use crate::row::number_of;
use crate::sql::Sql;

migrations!("0001_outbox", "0002_queue", "0003_topics", "0004_quarantine", "0005_inserts", "0006_oversized");

/// How long a migration waits for another one, in seconds.
const LOCK_S: i64 = 60;

/// Creates or upgrades the tables; concurrent migrations wait for each other.
///
/// MySQL cannot create tables in a transaction. So every statement can run again after a failure, and the
/// version is written last.
pub(crate) async fn migrate<K: Kind>(session: &mut Session, sql: &Sql) -> Result<Migrated, DriverError> {
    lock(session, sql).await?;
    let migrated = K::bring_up(session, sql).await;
    session.query(&*sql.migrate_unlock).fetch_one(&mut session.connection).await?;
    migrated
}

/// Waits for the migration lock.
async fn lock(session: &mut Session, sql: &Sql) -> Result<(), DriverError> {
    let locked = session.query(&*sql.migrate_lock).bind(LOCK_S).fetch_one(&mut session.connection).await?;
    if number_of(&locked, 0) == Some(1) {
        return Ok(());
    }
    let detail = "another migration is still running".to_owned();
    Err(DriverError::Refused(ErrorKind::Timeout, detail))
}

/// Runs the missing migrations.
pub(crate) async fn bring_up(session: &mut Session, sql: &Sql) -> Result<Migrated, DriverError> {
    let found = found(session, sql).await?;
    refuse_newer(found.version, KNOWN)?;
    let from = found.applied();
    for text in sql.migrations.iter().skip(from as usize) {
        session.results(text.clone()).await?;
    }
    add_state(session, sql).await?;
    Ok(Migrated { from, to: self::found(session, sql).await?.applied() })
}

/// Adds the `state` column, which tables of an earlier release lack.
pub(crate) async fn add_state(session: &mut Session, sql: &Sql) -> Result<(), DriverError> {
    if session.once(&*sql.node_state_there).fetch_optional(&mut session.connection).await.is_err() {
        session.results(sql.node_state.to_string()).await?;
    }
    Ok(())
}

pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), DriverError> {
    Ok(found(session, sql).await?.check(NEWEST, None)?)
}

/// The version of the tables; zero if there are none. It is read from the table itself: the server's list of
/// tables leaves out tables that the user may not read, so it cannot tell a missing one from a forbidden one.
pub(crate) async fn version(session: &mut Session, sql: &Sql) -> Result<u32, DriverError> {
    let asked = session.once(&*sql.version).fetch_optional(&mut session.connection).await;
    let row = match asked.map_err(DriverError::from) {
        Err(failure) if failure.is_missing_table() => None,
        asked => asked?,
    };
    let version = row.and_then(|row| number_of(&row, 0));
    Ok(version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0))
}

/// The version and step that the tables record.
async fn found(session: &mut Session, sql: &Sql) -> Result<SchemaVersion, DriverError> {
    let version = version(session, sql).await?;
    if version == 0 {
        return Ok(SchemaVersion::default());
    }
    let row = session.once(&*sql.step).fetch_optional(&mut session.connection).await?;
    let step = row.and_then(|row| number_of(&row, 0)).and_then(|step| u32::try_from(step).ok());
    Ok(SchemaVersion { version, step: step.unwrap_or(0) })
}
