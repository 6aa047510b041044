//! Database privileges: what delivery, purges and operators need, and what this user lacks.
//!
//! The server is asked to explain one statement of each kind, for which it checks privileges as if it
//! ran the statement. This covers privileges through roles, name patterns and columns, which a list of
//! grants shows only in part.

use pillarbox::port::Lacking;
use pillarbox_store_kit::ServerFailure as _;

use crate::connection::Session;
use crate::error::DriverError;
use crate::kind::Kind;
use crate::row::text_of;
use crate::sql::{Sql, fill};

/// A privilege on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Select,
    Insert,
    /// UPDATE, tested on this column.
    Update(&'static str),
    Delete,
}

use Right::{Delete, Insert, Select, Update};

impl Right {
    const fn as_str(self) -> &'static str {
        match self {
            Select => "SELECT",
            Insert => "INSERT",
            Update(_) => "UPDATE",
            Delete => "DELETE",
        }
    }

    fn probe(self, sql: &Sql, table: &str) -> String {
        let table = ("{table}", table.to_owned());
        match self {
            Select => fill(&sql.rights_select, &[table]),
            Insert => fill(&sql.rights_insert, &[table]),
            Update(column) => fill(&sql.rights_update, &[table, ("{column}", column.to_owned())]),
            Delete => fill(&sql.rights_delete, &[table]),
        }
    }
}

/// A table, by the name of its placeholder, and the privileges that are needed on it.
type Needed = (&'static str, &'static [Right]);

/// The privileges that a kind of table needs.
pub(crate) struct Rights {
    deliver: &'static [Needed],
    purge: &'static [Needed],
}

/// The privileges on the native tables.
pub(crate) const NATIVE: Rights = Rights { deliver: DELIVER, purge: PURGE };
/// The privileges on a table of items and the tables beside it.
pub(crate) const ITEMS: Rights = Rights { deliver: DELIVER_ITEMS, purge: PURGE_ITEMS };

const DELIVER: &[Needed] = &[
    ("event", &[Select, Insert, Update("status")]),
    ("attempt", &[Select, Insert]),
    ("node", &[Select, Insert, Update("label"), Delete]),
    ("slot", &[Select, Insert, Update("holder"), Delete]),
    ("group", &[Select, Insert, Update("state")]),
    ("meta", &[Select, Update("value")]),
];
const PURGE: &[Needed] = &[
    ("event", &[Delete]),
    ("attempt", &[Delete]),
    ("join", &[Select, Delete]),
    ("join_member", &[Select, Delete]),
];

/// What operators need besides, on both kinds of tables.
const OPERATE: &[Needed] = &[("group", &[Delete]), ("audit", &[Select, Insert])];

const DELIVER_ITEMS: &[Needed] = &[
    ("event", &[Select, Update("status")]),
    ("node", &[Select, Insert, Update("label"), Delete]),
    ("slot", &[Select, Insert, Update("holder"), Delete]),
    ("group", &[Select, Insert, Update("state")]),
    ("meta", &[Select, Update("value")]),
];
const PURGE_ITEMS: &[Needed] = &[("event", &[Delete])];

pub(crate) async fn lacking<K: Kind>(session: &mut Session, sql: &Sql) -> Result<Lacking, DriverError> {
    let Rights { deliver, purge } = K::RIGHTS;
    Ok(Lacking {
        deliver: grants(session, sql, deliver).await?,
        purge: grants(session, sql, purge).await?,
        operate: grants(session, sql, OPERATE).await?,
    })
}

/// One GRANT statement for each table on which a privilege is missing.
async fn grants(session: &mut Session, sql: &Sql, needed: &[Needed]) -> Result<Vec<String>, DriverError> {
    let mut grants = Vec::new();
    for (table, rights) in needed {
        let table = sql.names.get(table);
        let mut missing = Vec::new();
        for right in *rights {
            if is_denied(session, right.probe(sql, table)).await? {
                missing.push(right.as_str());
            }
        }
        if !missing.is_empty() {
            let (database, user) = user(session, sql).await?;
            grants.push(format!("GRANT {} ON {database}.{table} TO {user}", missing.join(", ")));
        }
    }
    Ok(grants)
}

/// Whether the server rejects the statement for lack of a privilege. Any other error of the
/// statement does not count.
async fn is_denied(session: &mut Session, probe: String) -> Result<bool, DriverError> {
    match session.results(probe).await {
        Err(failure) if failure.is_denied() => Ok(true),
        Err(failure) if failure.spares_connection() => Ok(false),
        answered => answered.map(|_| false),
    }
}

/// The database and the account, quoted for a GRANT statement.
async fn user(session: &mut Session, sql: &Sql) -> Result<(String, String), DriverError> {
    let row = session.once(&*sql.rights_user).fetch_one(&mut session.connection).await?;
    let account = text_of(&row, 0).unwrap_or_default();
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let quoted = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let database = format!("`{}`", text_of(&row, 1).unwrap_or_default().replace('`', "``"));
    Ok((database, format!("{}@{}", quoted(user), quoted(host))))
}
