//! Privileges on tables, columns and the sequence: what delivery, purges and operators need, and what this user lacks.

use pillarbox::port::Lacking;
use sqlx::{AssertSqlSafe, Row};

use crate::connection::Session;
use crate::error::DriverError;
use crate::sql::Sql;

/// What a privilege is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    Delivery,
    Purge,
    Operators,
}

/// A table or sequence by the name of its placeholder, a privilege on it as in a GRANT statement, and what needs
/// that privilege.
pub(crate) type Right = (&'static str, &'static str, For);

/// Privileges on the tables of the native outbox.
pub(crate) const NATIVE: &[Right] = &[
    ("event", "SELECT", For::Delivery),
    (
        "event",
        "UPDATE (seq, lane, slot, status, attempts, available_at, done_at, last_error, processed_by, locked_by, \
         locked_at, locked_until)",
        For::Delivery,
    ),
    ("event", "DELETE", For::Purge),
    ("sequence", "SELECT", For::Delivery),
    ("sequence", "USAGE", For::Delivery),
    ("meta", "UPDATE", For::Delivery),
    ("attempt", "SELECT", For::Delivery),
    ("attempt", "INSERT", For::Delivery),
    ("attempt", "DELETE", For::Purge),
    ("join", "SELECT", For::Purge),
    ("join", "UPDATE", For::Purge),
    ("join", "DELETE", For::Purge),
    ("join_member", "SELECT", For::Purge),
    ("join_member", "DELETE", For::Purge),
];

/// Privileges on a table of items.
pub(crate) const ITEMS: &[Right] = &[
    ("event", "SELECT", For::Delivery),
    ("event", "UPDATE (status, retry_count, processed_at, error_message)", For::Delivery),
    ("event", "DELETE", For::Purge),
];

/// Privileges on the tables beside the events or items.
const BESIDE: &[Right] = &[
    ("node", "SELECT", For::Delivery),
    ("node", "INSERT", For::Delivery),
    ("node", "UPDATE", For::Delivery),
    ("node", "DELETE", For::Delivery),
    ("slot", "SELECT", For::Delivery),
    ("slot", "INSERT", For::Delivery),
    ("slot", "UPDATE", For::Delivery),
    ("slot", "DELETE", For::Delivery),
    ("group", "SELECT", For::Delivery),
    ("group", "INSERT", For::Delivery),
    ("group", "UPDATE", For::Delivery),
    ("meta", "SELECT", For::Delivery),
    ("group", "DELETE", For::Operators),
    ("audit", "SELECT", For::Operators),
    ("audit", "INSERT", For::Operators),
];

pub(crate) async fn lacking(
    session: &mut Session,
    sql: &Sql,
    own: &'static [Right],
) -> Result<Lacking, DriverError> {
    let rights: Vec<(String, &'static str, For)> = own
        .iter()
        .chain(BESIDE)
        .map(|(table, right, needed)| (sql.names.get(table).to_owned(), *right, *needed))
        .collect();
    let names: Vec<&str> = rights.iter().map(|(name, _, _)| name.as_str()).collect();
    let (wanted, columns): (Vec<&str>, Vec<&str>) =
        rights.iter().map(|(_, right, _)| by_column(right)).unzip();
    // Not kept prepared: a pooler may run the next statement on another server connection.
    let query = sqlx::query(AssertSqlSafe(std::sync::Arc::clone(&sql.rights))).persistent(false);
    let rows = query.bind(names).bind(wanted).bind(columns).fetch_all(&mut session.connection).await?;
    let mut missing = Vec::with_capacity(rows.len());
    let mut user = String::new();
    for row in rows {
        let place = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default();
        user = row.try_get(1)?;
        missing.extend(rights.get(place.wrapping_sub(1)));
    }
    Ok(Lacking {
        deliver: grants(&missing, For::Delivery, &user, sql),
        purge: grants(&missing, For::Purge, &user, sql),
        operate: grants(&missing, For::Operators, &user, sql),
    })
}

/// Splits a privilege into its word and its columns, which are empty if it is on the whole table.
fn by_column(right: &'static str) -> (&'static str, &'static str) {
    right.strip_suffix(')').and_then(|right| right.split_once(" (")).unwrap_or((right, ""))
}

/// One GRANT statement per table or sequence.
fn grants(missing: &[&(String, &str, For)], needed: For, user: &str, sql: &Sql) -> Vec<String> {
    let missing: Vec<_> = missing.iter().filter(|(_, _, of)| *of == needed).collect();
    let tables = missing.chunk_by(|one, next| one.0 == next.0);
    let grant = |table: &[&&(String, &str, For)]| {
        let rights: Vec<&str> = table.iter().map(|(_, right, _)| *right).collect();
        let (name, user) = (&table[0].0, user.replace('"', "\"\""));
        let kind = if name == sql.names.get("sequence") { "SEQUENCE " } else { "" };
        format!("GRANT {} ON {kind}{name} TO \"{user}\"", rights.join(", "))
    };
    tables.map(grant).collect()
}
