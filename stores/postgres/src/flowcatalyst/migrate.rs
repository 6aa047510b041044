//! The tables: that of items as it is or is made, and ours beside it.

use pillarbox::port::{ErrorKind, Migrated};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::connection::Session;
use crate::error::Failure;
use crate::migrate::{NODE_STATE, SCHEMA, add_state, refuse_newer, version};
use crate::sql::{Names, Sql};

const ITEMS: &str = include_str!("../../sql/flowcatalyst/create_items.sql");
const BESIDE: &str = include_str!("../../sql/flowcatalyst/create_beside.sql");

/// The version that the tables beside are made with.
const VERSION: u32 = 1;

/// How many columns there are to lack.
const ALL: usize = 9;

/// The statements that make the tables of one outbox.
pub(crate) struct Tables {
    schema: Option<String>,
    items: String,
    beside: String,
    state: String,
}

impl Tables {
    pub(crate) fn new(names: &Names) -> Self {
        Self {
            schema: names.has_schema.then(|| names.fill(SCHEMA)),
            items: names.fill(ITEMS),
            beside: names.fill(BESIDE),
            state: names.fill(NODE_STATE),
        }
    }

    /// All statements, for people who run them by hand.
    pub(crate) fn script(&self) -> String {
        let schema = self.schema.as_deref().map(|text| format!("{text}\n")).unwrap_or_default();
        format!("BEGIN;\n\n{schema}{}\n{}\n{}\nCOMMIT;\n", self.items, self.beside, self.state)
    }
}

/// Makes what is missing, in one transaction. A table of items that is there stays as it is.
pub(crate) async fn migrate(session: &mut Session, sql: &Sql, tables: &Tables) -> Result<Migrated, Failure> {
    let mut tx = session.begin().await?;
    tx.query(&sql.migrate_lock).execute(&mut *tx.tx).await?;
    let from = version(&mut tx.tx, sql).await?;
    refuse_newer(from, VERSION)?;
    let lacking = lacking(&mut tx.tx, sql).await?;
    let mut missing = Vec::new();
    if lacking.len() == ALL {
        missing.extend(&tables.schema);
        missing.push(&tables.items);
    } else {
        refuse_lacking(sql, &lacking)?;
    }
    if from == 0 {
        missing.push(&tables.beside);
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
        return refuse_lacking(sql, &lacking);
    }
    let table = sql.table.as_str();
    let detail = format!(
        "the table {table} is missing; run `pillarbox migrate --layout flowcatalyst --table {table}`"
    );
    Err(Failure::Refused(ErrorKind::Schema, detail))
}

async fn lacking(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<String>, Failure> {
    // Not kept prepared: a pooler may hand the next statement to another server connection.
    let query = sqlx::query(AssertSqlSafe(std::sync::Arc::clone(&sql.lacking))).persistent(false);
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

fn refuse_lacking(sql: &Sql, lacking: &[String]) -> Result<(), Failure> {
    if lacking.is_empty() {
        return Ok(());
    }
    let detail = format!("the table {} has no column {}", sql.table.as_str(), lacking.join(", "));
    Err(Failure::Refused(ErrorKind::Schema, detail))
}
