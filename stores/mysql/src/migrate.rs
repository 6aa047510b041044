//! The tables: making them, upgrading them, telling whether they are there.

use pillarbox::port::{ErrorKind, Migrated};
use pillarbox_store_kit::{KNOWN, SchemaVersion, refuse_newer};

use crate::connection::Session;
use crate::error::Failure;
use crate::kind::Kind;
use crate::row::number_of;
use crate::sql::Sql;

/// Each brings the tables to the version that is its place in the list, and writes that down.
pub(crate) const MIGRATIONS: [&str; 4] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_queue.sql"),
    include_str!("../migrations/0003_topics.sql"),
    include_str!("../migrations/0004_quarantine.sql"),
];
/// The version that this release makes.
const NEWEST: u32 = MIGRATIONS.len() as u32;

/// How long a migration waits for another, and what TiDB takes as the time of a row where others have UTC.
const LOCK_S: i64 = 60;
const DEFAULTS: (&str, &str) = ("DEFAULT (utc_timestamp(6))", "DEFAULT current_timestamp(6)");

/// Makes or upgrades the tables: two processes at once wait for each other. Tables can't be made in a transaction here, so
/// every statement can be run again after one that failed, and the version is written last.
pub(crate) async fn migrate<K: Kind>(session: &mut Session, sql: &Sql) -> Result<Migrated, Failure> {
    lock(session, sql).await?;
    let migrated = K::bring_up(session, sql).await;
    session.query(&*sql.migrate_unlock).fetch_one(&mut session.connection).await?;
    migrated
}

/// Waits for the lock of migrations.
async fn lock(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    let locked = session.query(&*sql.migrate_lock).bind(LOCK_S).fetch_one(&mut session.connection).await?;
    if number_of(&locked, 0) == Some(1) {
        return Ok(());
    }
    let detail = "another migration takes too long".to_owned();
    Err(Failure::Refused(ErrorKind::Timeout, detail))
}

/// Makes the migrations that are missing.
pub(crate) async fn bring_up(session: &mut Session, sql: &Sql) -> Result<Migrated, Failure> {
    let found = found(session, sql).await?;
    refuse_newer(found.version, KNOWN)?;
    let from = found.applied();
    for text in sql.migrations.iter().skip(from as usize) {
        let text = if session.server.tidb { text.replace(DEFAULTS.0, DEFAULTS.1) } else { text.clone() };
        session.results(text).await?;
    }
    add_state(session, sql).await?;
    Ok(Migrated { from, to: self::found(session, sql).await?.applied() })
}

/// Adds the column that tables of an earlier release lack.
pub(crate) async fn add_state(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    if session.once(&*sql.node_state_there).fetch_optional(&mut session.connection).await.is_err() {
        session.results(sql.node_state.to_string()).await?;
    }
    Ok(())
}

pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    Ok(found(session, sql).await?.check(NEWEST)?)
}

/// The version of the tables; zero if there are none. The list of tables leaves out those one may not read: the table itself
/// tells the one from the other.
pub(crate) async fn version(session: &mut Session, sql: &Sql) -> Result<u32, Failure> {
    let asked = session.once(&*sql.version).fetch_optional(&mut session.connection).await;
    let row = match asked.map_err(Failure::from) {
        Err(failure) if failure.is_missing_table() => None,
        asked => asked?,
    };
    let version = row.and_then(|row| number_of(&row, 0));
    Ok(version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0))
}

/// What the tables say of themselves.
async fn found(session: &mut Session, sql: &Sql) -> Result<SchemaVersion, Failure> {
    let version = version(session, sql).await?;
    if version == 0 {
        return Ok(SchemaVersion::default());
    }
    let row = session.once(&*sql.step).fetch_optional(&mut session.connection).await?;
    let step = row.and_then(|row| number_of(&row, 0)).and_then(|step| u32::try_from(step).ok());
    Ok(SchemaVersion { version, step: step.unwrap_or(0) })
}
