//! The settings of a store, and opening it.

use std::time::Duration;

use pillarbox::port::{ErrorKind, Items, Native, StoreError};
use pillarbox_store_kit::{ServerSettings, Settings, setters};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};

use crate::error::describe;
use crate::flowcatalyst::PAYLOAD_MAX;
use crate::kind::Kind;
use crate::sql::{Names, Sql};
use crate::store::{MysqlItemStore, MysqlStore};

/// How rows are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claiming {
    /// Find out with the first claim whether the server honours SKIP LOCKED.
    #[default]
    Detect,
    /// By a read that locks rows and skips those of others.
    SkipLocked,
    /// By an update of the first rows, one claim after the other: for servers that take SKIP LOCKED and lock nothing.
    Update,
}

/// How a store is opened.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct MysqlStoreBuilder {
    pub(crate) pool: MySqlPool,
    pub(crate) settings: Settings,
    pub(crate) server: ServerSettings,
    pub(crate) claiming: Claiming,
}

impl MysqlStoreBuilder {
    pub(crate) fn new(pool: MySqlPool) -> Self {
        let name = pool.connect_options().get_database().unwrap_or("mysql").to_owned();
        Self {
            pool,
            settings: Settings::new(name),
            server: ServerSettings::default(),
            claiming: Claiming::default(),
        }
    }

    pub(crate) fn from_url(url: &str) -> Result<Self, StoreError> {
        let options: MySqlConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            // The words of the parser may quote the URL, and with it a password.
            StoreError::new(ErrorKind::InvalidInput, "open", "mysql", describe(&error).1)
        })?;
        Ok(Self::new(MySqlPoolOptions::new().connect_lazy_with(options)))
    }

    setters!(named_by: "database");

    /// How rows are claimed. Default: find out.
    pub fn claiming(mut self, claiming: Claiming) -> Self {
        self.claiming = claiming;
        self
    }

    /// How long a statement of the store's own may take. Default: 30 s; from 100 ms to an hour.
    ///
    /// The server ends it then (MySQL: only reads); a connection that does not answer even so is thrown away 5 s later.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.server.set_statement_timeout(timeout);
        self
    }

    /// How many connections claims, promotions and operators share, beside one each for reading, settling and
    /// heartbeats. Default: 4; at least 1. All are opened when they are first needed.
    pub fn general_connections(mut self, connections: usize) -> Self {
        self.server.set_general_connections(connections);
        self
    }

    /// The statements that make the native table and those beside it, for people who run them by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        Native::tables(&self.sql::<Native>())
    }

    /// The statements that make a table of items and those beside it, for people who run them by hand.
    #[must_use]
    pub fn items_schema_sql(&self) -> String {
        Items::tables(&self.sql::<Items>())
    }

    pub(crate) fn sql<K: Kind>(&self) -> Sql {
        Sql::new(&Names::new(&self.settings.table(K::LAYOUT), K::LAYOUT))
    }

    /// The store of the native table. Connections are opened when they are needed; the tables need not be there yet.
    #[must_use]
    pub fn open(self) -> MysqlStore {
        MysqlStore::start(self)
    }

    /// The store of a table of items, in the layout of another program. The setting for claims has no effect on it: a leader takes
    /// its rows.
    #[must_use]
    pub fn open_items(mut self) -> MysqlItemStore {
        // Its tables have no row that a probe could lock.
        self.claiming = Claiming::SkipLocked;
        self.settings.limits.payload = self.settings.limits.payload.min(PAYLOAD_MAX);
        MysqlItemStore::start(self)
    }
}
