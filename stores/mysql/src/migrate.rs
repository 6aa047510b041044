//! The tables: making them, upgrading them, telling whether they are there.

use pillarbox::port::{ErrorKind, Migrated};

use crate::connection::Session;
use crate::error::Failure;
use crate::row::number_of;
use crate::sql::{Names, Sql};

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

/// How long a migration waits for another, and what TiDB takes as the time of a row where others have UTC.
const LOCK_S: i64 = 60;
const DEFAULTS: (&str, &str) = ("DEFAULT (utc_timestamp(6))", "DEFAULT current_timestamp(6)");

/// The migrations of one outbox, with its names.
pub(crate) struct Migrations {
    tables: Vec<String>,
}

impl Migrations {
    pub(crate) fn new(names: &Names) -> Self {
        Self { tables: MIGRATIONS.iter().map(|text| names.fill(text)).collect() }
    }

    /// All statements, for people who run them by hand.
    pub(crate) fn script(&self) -> String {
        self.tables.join("\n")
    }
}

/// Makes or upgrades the tables: two processes at once wait for each other. Tables can't be made in a transaction here, so
/// every statement can be run again after one that failed, and the version is written last.
pub(crate) async fn migrate(
    session: &mut Session,
    sql: &Sql,
    migrations: &Migrations,
) -> Result<Migrated, Failure> {
    locked(session, sql).await?;
    let migrated = bring_up(session, sql, migrations).await;
    session.query(&*sql.migrate_unlock).fetch_one(&mut session.connection).await?;
    migrated
}

/// Waits for the lock of migrations.
pub(crate) async fn locked(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    let locked = session.query(&*sql.migrate_lock).bind(LOCK_S).fetch_one(&mut session.connection).await?;
    if number_of(&locked, 0) == Some(1) {
        return Ok(());
    }
    let detail = "another migration takes too long".to_owned();
    Err(Failure::Refused(ErrorKind::Timeout, detail))
}

async fn bring_up(session: &mut Session, sql: &Sql, migrations: &Migrations) -> Result<Migrated, Failure> {
    refuse_newer(version(session, sql).await?, KNOWN)?;
    let from = applied(session, sql).await?;
    for text in migrations.tables.iter().skip(from as usize) {
        let text = if session.server.tidb { text.replace(DEFAULTS.0, DEFAULTS.1) } else { text.clone() };
        session.results(text).await?;
    }
    add_state(session, sql).await?;
    Ok(Migrated { from, to: applied(session, sql).await? })
}

/// Adds the column that tables of an earlier release lack.
pub(crate) async fn add_state(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    if session.once(&*sql.node_state_there).fetch_optional(&mut session.connection).await.is_err() {
        session.results(sql.node_state.to_string()).await?;
    }
    Ok(())
}

pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    refuse_newer(version(session, sql).await?, KNOWN)?;
    let found = applied(session, sql).await?;
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

/// The last migration that was made: of these, some need no new version.
async fn applied(session: &mut Session, sql: &Sql) -> Result<u32, Failure> {
    let version = version(session, sql).await?;
    if version == 0 {
        return Ok(0);
    }
    let row = session.once(&*sql.step).fetch_optional(&mut session.connection).await?;
    let step = row.and_then(|row| number_of(&row, 0)).and_then(|step| u32::try_from(step).ok());
    Ok(step.unwrap_or(0).max(version))
}
