//! The settings of a store, and opening it.

use std::time::Duration;

use pillarbox::model::{Layout, Limits, TableName};
use pillarbox::port::{ErrorKind, StoreError};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};

use crate::error::describe;
use crate::flowcatalyst::Tables;
use crate::migrate::Migrations;
use crate::sql::Names;
use crate::store::MysqlStore;

/// Shorter, and a busy server could not answer a beat; longer, and nothing would ever be given up.
const STATEMENT_TIMEOUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3_600));
const DEFAULT_STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_DESK: usize = 4;

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
    pub(crate) name: String,
    pub(crate) table: Option<TableName>,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
    pub(crate) claiming: Claiming,
    pub(crate) statement_timeout: Duration,
    pub(crate) desk: usize,
}

impl MysqlStoreBuilder {
    pub(crate) fn new(pool: MySqlPool) -> Self {
        let name = pool.connect_options().get_database().unwrap_or("mysql").to_owned();
        Self {
            pool,
            name,
            table: None,
            layout: Layout::default(),
            limits: Limits::default(),
            claiming: Claiming::default(),
            statement_timeout: DEFAULT_STATEMENT_TIMEOUT,
            desk: DEFAULT_DESK,
        }
    }

    pub(crate) fn from_url(url: &str) -> Result<Self, StoreError> {
        let options: MySqlConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            // The words of the parser may quote the URL, and with it a password.
            StoreError::new(ErrorKind::InvalidInput, "open", "mysql", describe(&error).1)
        })?;
        Ok(Self::new(MySqlPoolOptions::new().connect_lazy_with(options)))
    }

    /// The name in logs and errors. Default: the name of the database.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The table of events. Default: `outbox_event`, or `outbox_events` in the flowcatalyst layout.
    pub fn table(mut self, table: TableName) -> Self {
        self.table = Some(table);
        self
    }

    /// The layout of the tables. Default: native.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// The bounds of fields. Default: 1 MiB of payload, no NUL.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How rows are claimed. Default: find out.
    pub fn claiming(mut self, claiming: Claiming) -> Self {
        self.claiming = claiming;
        self
    }

    /// How long a statement of the store's own may take. Default: 30 s; from 100 ms to an hour.
    ///
    /// The server ends it then (MySQL: only reads); a connection that does not answer even so is thrown away 5 s later.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout.clamp(STATEMENT_TIMEOUTS.0, STATEMENT_TIMEOUTS.1);
        self
    }

    /// How many connections claims, promotions and operators share, beside one each for reading, settling and
    /// beating. Default: 4; at least 1. All are opened when they are first needed.
    pub fn desk_connections(mut self, connections: usize) -> Self {
        self.desk = connections.max(1);
        self
    }

    /// The statements that make the tables, for people who run them by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        let names = self.names();
        match self.layout {
            Layout::Native => Migrations::new(&names).script(),
            Layout::Flowcatalyst => Tables::new(&names).script(),
        }
    }

    pub(crate) fn names(&self) -> Names {
        let table = self.table.clone().unwrap_or_else(|| TableName::usual(self.layout));
        Names::new(&table, self.layout)
    }

    /// The store. Connections are opened when they are needed; the tables need not be there yet.
    #[must_use]
    pub fn open(self) -> MysqlStore {
        MysqlStore::start(self)
    }
}
