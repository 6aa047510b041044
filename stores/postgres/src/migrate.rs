//! The tables: making them, upgrading them, telling whether they are there.

use std::sync::Arc;

use pillarbox::port::{ErrorKind, Migrated};
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, Postgres, Row};

use crate::connection::Session;
use crate::error::Failure;
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

/// A column that tables of an earlier release lack.
pub(crate) const NODE_STATE: &str = include_str!("../sql/node_state.sql");

/// A schema that is named is made too. Looked for first: CREATE SCHEMA demands a right of its own even where it is there.
pub(crate) const SCHEMA: &str = include_str!("../sql/schema.sql");

/// The migrations of one outbox, with its names.
pub(crate) struct Migrations {
    schema: Option<String>,
    tables: Vec<String>,
    state: String,
}

impl Migrations {
    pub(crate) fn new(names: &Names) -> Self {
        Self {
            schema: names.has_schema.then(|| names.fill(SCHEMA)),
            tables: MIGRATIONS.iter().map(|text| names.fill(text)).collect(),
            state: names.fill(NODE_STATE),
        }
    }

    /// All statements, for people who run them by hand.
    pub(crate) fn script(&self) -> String {
        let schema = self.schema.as_deref().map(|text| format!("{text}\n")).unwrap_or_default();
        format!("BEGIN;\n\n{schema}{}\n{}\nCOMMIT;\n", self.tables.join("\n"), self.state)
    }

    /// What brings the tables from a version to the newest.
    fn from(&self, version: u32) -> impl Iterator<Item = &String> {
        self.schema.iter().filter(move |_| version == 0).chain(self.tables.iter().skip(version as usize))
    }
}

/// Makes or upgrades the tables, in one transaction: two processes at once wait for each other.
pub(crate) async fn migrate(
    session: &mut Session,
    sql: &Sql,
    migrations: &Migrations,
) -> Result<Migrated, Failure> {
    let mut tx = session.begin().await?;
    tx.query(&sql.migrate_lock).execute(&mut *tx.tx).await?;
    refuse_newer(version(&mut tx.tx, sql).await?, KNOWN)?;
    let from = applied(&mut tx.tx, sql).await?;
    for text in migrations.from(from) {
        tx.tx.execute(sqlx::raw_sql(AssertSqlSafe(text.as_str()))).await?;
    }
    add_state(&mut tx.tx, sql).await?;
    let to = applied(&mut tx.tx, sql).await?;
    tx.commit().await?;
    Ok(Migrated { from, to })
}

/// Adds the column that tables of an earlier release lack. Looked for first: whoever may not change tables can migrate what is
/// up to date.
pub(crate) async fn add_state(connection: &mut PgConnection, sql: &Sql) -> Result<(), Failure> {
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&sql.node_state_there))).persistent(false);
    let there: bool = query.fetch_one(&mut *connection).await?.try_get(0)?;
    if !there {
        connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.node_state.to_string()))).await?;
    }
    Ok(())
}

pub(crate) async fn check(session: &mut Session, sql: &Sql) -> Result<(), Failure> {
    refuse_newer(version(&mut session.connection, sql).await?, KNOWN)?;
    let found = applied(&mut session.connection, sql).await?;
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
pub(crate) async fn version(connection: &mut PgConnection, sql: &Sql) -> Result<u32, Failure> {
    let there: bool = unprepared(&sql.tables).fetch_one(&mut *connection).await?.try_get(0)?;
    if !there {
        return Ok(0);
    }
    number(connection, &sql.version).await
}

/// The last migration that was made: of these, some need no new version.
async fn applied(connection: &mut PgConnection, sql: &Sql) -> Result<u32, Failure> {
    match version(connection, sql).await? {
        0 => Ok(0),
        version => Ok(number(connection, &sql.step).await?.max(version)),
    }
}

/// A number of the table's own; zero if it is not there.
async fn number(connection: &mut PgConnection, text: &Arc<str>) -> Result<u32, Failure> {
    let row = unprepared(text).fetch_optional(connection).await?;
    let number: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0))
}

/// Not kept prepared: a pooler may hand the next statement to another server connection.
fn unprepared(text: &Arc<str>) -> Query<'_, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(text))).persistent(false)
}
