//! The builder of a store: its settings, and how it is opened.

use pillarbox::model::TableName;
use pillarbox::port::{ErrorKind, Items, Native, StoreError};
use pillarbox_store_kit::{ServerSettings, Settings, server_setters, setters};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::error::describe;
use crate::kind::Kind;
use crate::migrate;
use crate::pooler::Pooler;
use crate::sql::{Names, Sql};
use crate::store::{PostgresItemStore, PostgresStore};

/// Whether this process notifies others of new rows, and whether it listens for their notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PostgresWakeUp {
    /// NOTIFY from the store's own connection; commits within a few milliseconds share a notification.
    #[default]
    Notify,
    /// No notifications: readers find rows by polling.
    Off,
}

/// Settings of a store that is yet to be opened.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct PostgresStoreBuilder {
    pub(crate) pool: PgPool,
    pub(crate) settings: Settings,
    pub(crate) server: ServerSettings,
    pub(crate) schema: Option<TableName>,
    pub(crate) pooler: Pooler,
    pub(crate) wake_up: PostgresWakeUp,
}

impl PostgresStoreBuilder {
    pub(crate) fn new(pool: PgPool) -> Self {
        let name = pool.connect_options().get_database().unwrap_or("postgres").to_owned();
        Self {
            pool,
            settings: Settings::new(name),
            server: ServerSettings::default(),
            schema: None,
            pooler: Pooler::default(),
            wake_up: PostgresWakeUp::default(),
        }
    }

    pub(crate) fn from_url(url: &str) -> Result<Self, StoreError> {
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            // The parser's message may quote the URL, and with it a password.
            StoreError::new(ErrorKind::InvalidInput, "open", "postgres", describe(&error).1)
        })?;
        let options = options.application_name("pillarbox");
        Ok(Self::new(PgPoolOptions::new().connect_lazy_with(options)))
    }

    setters!(named_by: "database");

    /// The schema of the tables. Default: the first schema of the connection's search path.
    pub fn schema(mut self, schema: TableName) -> Self {
        self.schema = Some(schema);
        self
    }

    /// The kind of pooler between the store and the server. Default: detect it.
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = pooler;
        self
    }

    /// Whether processes notify each other of new rows. Default: [`PostgresWakeUp::Notify`].
    pub fn wake_up(mut self, wake_up: PostgresWakeUp) -> Self {
        self.wake_up = wake_up;
        self
    }

    server_setters!(cancels: "the statement");

    /// The SQL that creates the native table and the tables beside it, for people who run it by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        self.script::<Native>()
    }

    /// The SQL that creates a table of items and the tables beside it, for people who run it by hand.
    #[must_use]
    pub fn items_schema_sql(&self) -> String {
        self.script::<Items>()
    }

    fn script<K: Kind>(&self) -> String {
        migrate::script::<K>(&Sql::new(&self.names::<K>()))
    }

    pub(crate) fn names<K: Kind>(&self) -> Names {
        Names::new(self.schema.as_ref(), &self.settings.table(K::LAYOUT), K::LAYOUT)
    }

    /// Opens the store of the native table. Connections open on first use, and the
    /// tables may be created later.
    #[must_use]
    pub fn open(self) -> PostgresStore {
        PostgresStore::start(self)
    }

    /// Opens the store of a table of items, in the layout of another program. Connections open on first use.
    #[must_use]
    pub fn open_items(self) -> PostgresItemStore {
        PostgresItemStore::start(self)
    }
}
