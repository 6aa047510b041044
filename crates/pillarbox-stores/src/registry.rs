//! The registry: one entry per kind of store, and the only place where other crates learn about it.

#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::pin::Pin;
use std::sync::Arc;

use pillarbox::port::{ItemStore, Store};

use crate::connect::Options;
use crate::error::ConnectError;

/// The future of opening a store.
pub(crate) type Opening<'a, S> = Pin<Box<dyn Future<Output = Result<Arc<S>, ConnectError>> + Send + 'a>>;

/// A kind of store.
#[derive(Debug, Clone, Copy)]
pub struct StoreKind {
    /// The name, equal to [`Facts::kind`](pillarbox::port::Facts::kind).
    pub name: &'static str,
    /// The schemes of its URLs, the preferred one first.
    pub schemes: &'static [&'static str],
    /// An example URL. It has no user, because messages redact the part before an `@`.
    pub example: &'static str,
    /// Its value of the relay's key `database-type`.
    pub database_type: &'static str,
    /// `None` if this build does not include the store.
    opener: Option<Opener>,
}

/// The functions of a kind of store that need no open store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opener {
    /// Opens the native table.
    pub(crate) open: for<'a> fn(&'a str, &'a Options) -> Opening<'a, dyn Store>,
    /// Opens a table of items.
    pub(crate) open_items: for<'a> fn(&'a str, &'a Options) -> Opening<'a, dyn ItemStore>,
    /// The SQL that creates the native tables. Needs no connection.
    pub(crate) schema_sql: fn(&str, &Options) -> Result<String, ConnectError>,
    /// The SQL that creates a table of items. Needs no connection.
    pub(crate) items_schema_sql: fn(&str, &Options) -> Result<String, ConnectError>,
    /// See [`tls_advice`].
    tls_advice: fn(&str) -> Option<&'static str>,
}

impl StoreKind {
    /// Whether this build includes the store.
    #[must_use]
    pub const fn is_built_in(&self) -> bool {
        self.opener.is_some()
    }

    pub(crate) fn opener(&self) -> Result<Opener, ConnectError> {
        self.opener.ok_or(ConnectError::NotBuiltIn { name: self.name })
    }
}

/// The opener of a module, if the feature of the same name is enabled.
macro_rules! opener {
    ($feature:literal, $module:ident) => {{
        #[cfg(feature = $feature)]
        {
            Some(Opener {
                open: |url, options| Box::pin($module::open(url, options)),
                open_items: |url, options| Box::pin($module::open_items(url, options)),
                schema_sql: $module::schema_sql,
                items_schema_sql: $module::items_schema_sql,
                tls_advice: $module::tls_advice,
            })
        }
        #[cfg(not(feature = $feature))]
        {
            None
        }
    }};
}

const STORES: &[StoreKind] = &[
    StoreKind {
        name: "sqlite",
        schemes: &["sqlite"],
        example: "sqlite:FILE",
        database_type: "SQLITE",
        opener: opener!("sqlite", sqlite),
    },
    StoreKind {
        name: "postgres",
        schemes: &["postgres", "postgresql"],
        example: "postgres://HOST/DATABASE",
        database_type: "POSTGRESQL",
        opener: opener!("postgres", postgres),
    },
    StoreKind {
        name: "mysql",
        schemes: &["mysql", "mariadb"],
        example: "mysql://HOST/DATABASE",
        database_type: "MYSQL",
        opener: opener!("mysql", mysql),
    },
    StoreKind {
        name: "mongodb",
        schemes: &["mongodb", "mongodb+srv"],
        example: "mongodb://HOST/DATABASE",
        database_type: "MONGODB",
        opener: opener!("mongodb", mongodb),
    },
    StoreKind {
        name: "sqlserver",
        schemes: &["sqlserver"],
        example: "sqlserver://HOST/DATABASE",
        database_type: "SQLSERVER",
        opener: None,
    },
];

/// Every kind of store, including those that this build does not include.
#[must_use]
pub const fn stores() -> &'static [StoreKind] {
    STORES
}

/// The kind of store for the scheme of a URL.
pub fn kind_of(url: &str) -> Result<&'static StoreKind, ConnectError> {
    let (scheme, _) = url.split_once(':').ok_or(ConnectError::NoScheme)?;
    let scheme = scheme.to_ascii_lowercase();
    let kind = STORES.iter().find(|kind| kind.schemes.contains(&scheme.as_str()));
    kind.ok_or_else(|| ConnectError::UnknownScheme { scheme: scheme.chars().take(20).collect() })
}

/// The settings that protect a connection from third parties, if the URL leads to another machine and does
/// not say whether to use TLS. Drivers then check no certificate, and some do without TLS.
#[must_use]
pub fn tls_advice(url: &str) -> Option<&'static str> {
    (kind_of(url).ok()?.opener.as_ref()?.tls_advice)(url)
}
