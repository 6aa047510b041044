//! The builder of a store: its settings, and opening it.

use pillarbox::port::{ErrorKind, Items, Native, StoreError};
use pillarbox_store_kit::{ServerSettings, Settings, server_setters, setters};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};

use crate::dialect::Statements;
use crate::error::describe;
use crate::flowcatalyst::PAYLOAD_MAX;
use crate::kind::Kind;
use crate::store::{MysqlItemStore, MysqlStore};

/// How claims find and lock rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claiming {
    /// Probe at the first call that locks rows whether the server honours SKIP LOCKED.
    #[default]
    Detect,
    /// Lock the rows with a SKIP LOCKED read, so concurrent claims do not wait for each other.
    SkipLocked,
    /// Mark the first rows with an update, one claim after another: for servers that accept
    /// SKIP LOCKED but lock nothing.
    Update,
}

/// The settings of a store that is to be opened.
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
            // The parser's message may quote the URL, and with it a password.
            StoreError::new(ErrorKind::InvalidInput, "open", "mysql", describe(&error).1)
        })?;
        Ok(Self::new(MySqlPoolOptions::new().connect_lazy_with(options)))
    }

    setters!(named_by: "database");

    /// Sets how claims find and lock rows. Default: [`Claiming::Detect`].
    pub fn claiming(mut self, claiming: Claiming) -> Self {
        self.claiming = claiming;
        self
    }

    server_setters!(cancels: "the statement (MySQL cancels only reads)");

    /// The statements that create the native tables, to run them by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        Native::tables(self.statements::<Native>().likely())
    }

    /// The statements that create a table of items and the tables beside it, to run them by hand.
    #[must_use]
    pub fn items_schema_sql(&self) -> String {
        Items::tables(self.statements::<Items>().likely())
    }

    pub(crate) fn statements<K: Kind>(&self) -> Statements {
        Statements::new(&self.settings.table(K::LAYOUT), K::LAYOUT)
    }

    /// Opens the store over the native tables. It connects when it first needs to; the
    /// tables need not exist yet.
    #[must_use]
    pub fn open(self) -> MysqlStore {
        MysqlStore::start(self)
    }

    /// Opens the store over a table of items, which belongs to another program. [`claiming`](Self::claiming)
    /// has no effect on it: its rows are taken by the leader, not claimed.
    #[must_use]
    pub fn open_items(mut self) -> MysqlItemStore {
        // The tables beside the items have no row for the probe to lock.
        self.claiming = Claiming::SkipLocked;
        self.settings.limits.payload = self.settings.limits.payload.min(PAYLOAD_MAX);
        MysqlItemStore::start(self)
    }
}
