//! The settings of a store, and opening it.

use std::time::Duration;

use pillarbox::model::TableName;
use pillarbox::port::{ErrorKind, Items, Native, StoreError};
use pillarbox_store_kit::{ServerSettings, Settings, setters};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::error::describe;
use crate::kind::Kind;
use crate::migrate;
use crate::pooler::Pooler;
use crate::sql::{Names, Sql};
use crate::store::{PostgresItemStore, PostgresStore};

/// Whether other processes are told of new rows, and whether this one listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WakeUp {
    /// By NOTIFY from a connection of its own, put together over a few milliseconds.
    #[default]
    Notify,
    /// Not at all: rows are found by polling.
    Off,
}

/// How a store is opened.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct PostgresStoreBuilder {
    pub(crate) pool: PgPool,
    pub(crate) settings: Settings,
    pub(crate) server: ServerSettings,
    pub(crate) schema: Option<TableName>,
    pub(crate) pooler: Pooler,
    pub(crate) wake_up: WakeUp,
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
            wake_up: WakeUp::default(),
        }
    }

    pub(crate) fn from_url(url: &str) -> Result<Self, StoreError> {
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            // The words of the parser may quote the URL, and with it a password.
            StoreError::new(ErrorKind::InvalidInput, "open", "postgres", describe(&error).1)
        })?;
        let options = options.application_name("pillarbox");
        Ok(Self::new(PgPoolOptions::new().connect_lazy_with(options)))
    }

    setters!(named_by: "database");

    /// The schema of the tables. Default: the first one of the connection's search path.
    pub fn schema(mut self, schema: TableName) -> Self {
        self.schema = Some(schema);
        self
    }

    /// What stands between the store and the server. Default: find out.
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = pooler;
        self
    }

    /// Whether processes tell each other of new rows. Default: they do.
    pub fn wake_up(mut self, wake_up: WakeUp) -> Self {
        self.wake_up = wake_up;
        self
    }

    /// How long a statement of the store's own may take. Default: 30 s; from 100 ms to an hour.
    ///
    /// The server ends it then; a connection that does not answer even so is thrown away 5 s later.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.server.set_statement_timeout(timeout);
        self
    }

    /// How many connections claims, promotions and operators share, beside one each for reading, settling, heartbeats
    /// and listening. Default: 4; at least 1. All are opened when they are first needed.
    pub fn general_connections(mut self, connections: usize) -> Self {
        self.server.set_general_connections(connections);
        self
    }

    /// The statements that make the native table and those beside it, for people who run them by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        self.script::<Native>()
    }

    /// The statements that make a table of items and those beside it, for people who run them by hand.
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

    /// The store of the native table. Connections are opened when they are needed; the tables need not be there yet.
    #[must_use]
    pub fn open(self) -> PostgresStore {
        PostgresStore::start(self)
    }

    /// The store of a table of items, in the layout of another program. Connections are opened when they are needed.
    #[must_use]
    pub fn open_items(self) -> PostgresItemStore {
        PostgresItemStore::start(self)
    }
}
