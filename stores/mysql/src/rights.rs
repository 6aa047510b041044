//! Rights: what delivering needs, and what this user lacks of it.
//!
//! The server is asked to explain a statement of each kind: it checks the rights as if it ran it, those by roles, by patterns of
//! names and on columns too, which lists of grants tell only in part.

use pillarbox::port::Lacking;
use pillarbox_store_kit::ServerFailure as _;

use crate::connection::Session;
use crate::error::Failure;
use crate::kind::Kind;
use crate::row::text_of;
use crate::sql::{Sql, fill};

/// A right on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Select,
    Insert,
    /// With a column that is changed.
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

/// A table by its place in statements, and what is needed on it.
type Needed = (&'static str, &'static [Right]);

/// What a kind of table needs.
pub(crate) struct Rights {
    deliver: &'static [Needed],
    purge: &'static [Needed],
}

/// Of the native table.
pub(crate) const NATIVE: Rights = Rights { deliver: DELIVER, purge: PURGE };
/// Of a table of items.
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

const DELIVER_ITEMS: &[Needed] = &[
    ("event", &[Select, Update("status")]),
    ("node", &[Select, Insert, Update("label"), Delete]),
    ("slot", &[Select, Insert, Update("holder"), Delete]),
    ("group", &[Select, Insert, Update("state")]),
    ("meta", &[Select, Update("value")]),
];
const PURGE_ITEMS: &[Needed] = &[("event", &[Delete])];

pub(crate) async fn lacking<K: Kind>(session: &mut Session, sql: &Sql) -> Result<Lacking, Failure> {
    let Rights { deliver, purge } = K::RIGHTS;
    Ok(Lacking { deliver: grants(session, sql, deliver).await?, purge: grants(session, sql, purge).await? })
}

/// A statement a table on which something is lacking.
async fn grants(session: &mut Session, sql: &Sql, needed: &[Needed]) -> Result<Vec<String>, Failure> {
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

/// Whether the server refuses the statement for want of a right. What else it says of it is no matter of rights.
async fn is_denied(session: &mut Session, probe: String) -> Result<bool, Failure> {
    match session.results(probe).await {
        Err(failure) if failure.is_denied() => Ok(true),
        Err(failure) if failure.spares_connection() => Ok(false),
        answered => answered.map(|_| false),
    }
}

/// The database and the account, as statements name them.
async fn user(session: &mut Session, sql: &Sql) -> Result<(String, String), Failure> {
    let row = session.once(&*sql.rights_user).fetch_one(&mut session.connection).await?;
    let account = text_of(&row, 0).unwrap_or_default();
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let quoted = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let database = format!("`{}`", text_of(&row, 1).unwrap_or_default().replace('`', "``"));
    Ok((database, format!("{}@{}", quoted(user), quoted(host))))
}
