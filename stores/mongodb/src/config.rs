//! The settings of a store, and opening it.

use std::time::Duration;

use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use pillarbox::model::{Limits, TableName};
use pillarbox::port::{ErrorKind, Items, Native, StoreError};

use crate::error::Failure;
use crate::kind::Kind;
use crate::migrate;
use crate::outbox::Server;
use crate::store::{MongodbItemStore, MongodbStore, MongodbTable};

/// Shorter, and a busy server could not answer a heartbeat; longer, and nothing would ever be given up.
const COMMAND_TIMEOUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3_600));
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a store opened from a URL looks for a server, unless the URL says otherwise.
const SELECTION: Duration = Duration::from_secs(10);
/// A document has 16 MiB; names, headers, errors and the history of failures need the rest.
const LARGEST_PAYLOAD: usize = 8 * 1_048_576;

/// Whether this process listens for rows that others write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WakeUp {
    /// By a change stream, where the server is a replica set.
    #[default]
    ChangeStream,
    /// Not at all: rows are found by polling.
    Off,
}

/// How a store is opened.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct MongodbStoreBuilder {
    pub(crate) database: Database,
    pub(crate) name: String,
    pub(crate) table: Option<TableName>,
    pub(crate) limits: Limits,
    pub(crate) wake_up: WakeUp,
    pub(crate) command_timeout: Duration,
    pub(crate) client: Whose,
}

/// Whose client a store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The store ends it.
    Own,
    Callers,
}

impl MongodbStoreBuilder {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            name: database.name().to_owned(),
            database,
            table: None,
            limits: Limits::default(),
            wake_up: WakeUp::default(),
            command_timeout: DEFAULT_COMMAND_TIMEOUT,
            client: Whose::Callers,
        }
    }

    pub(crate) async fn from_url(url: &str) -> Result<Self, StoreError> {
        // The words of the parser may quote the URL, and with it a password.
        let wrong = |error| Failure::Driver(error).into_store_error("open", "mongodb");
        let mut options = ClientOptions::parse(url).await.map_err(wrong)?;
        options.server_selection_timeout.get_or_insert(SELECTION);
        options.app_name.get_or_insert_with(|| "pillarbox".to_owned());
        let Some(name) = options.default_database.clone() else {
            let detail = "the URL names no database: mongodb://HOST/DATABASE";
            return Err(StoreError::new(ErrorKind::InvalidInput, "open", "mongodb", detail));
        };
        let client = Client::with_options(options).map_err(wrong)?;
        Ok(Self { client: Whose::Own, ..Self::new(client.database(&name)) })
    }

    /// The name in logs and errors. Default: the name of the database.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The collection. Default: `outbox_event`, or `outbox_events` for items.
    pub fn table(mut self, table: TableName) -> Self {
        self.table = Some(table);
        self
    }

    /// The bounds of fields. Default: 1 MiB of payload, no NUL; at most 8 MiB, since a document has 16.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Limits { payload: limits.payload.min(LARGEST_PAYLOAD), ..limits };
        self
    }

    /// Whether this process listens for rows that others write. Default: where the server can tell.
    pub fn wake_up(mut self, wake_up: WakeUp) -> Self {
        self.wake_up = wake_up;
        self
    }

    /// How long a command of the store's own may take. Default: 30 s; from 100 ms to an hour.
    ///
    /// The server ends it then; a connection that does not answer even so is thrown away 5 s later.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout.clamp(COMMAND_TIMEOUTS.0, COMMAND_TIMEOUTS.1);
        self
    }

    /// A script for `mongosh` that makes the collections, for people who run it by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        self.script::<Native>()
    }

    /// A script for `mongosh` that makes a collection of items and those beside it, for people who run it by hand.
    #[must_use]
    pub fn items_schema_sql(&self) -> String {
        self.script::<Items>()
    }

    fn script<K: Kind>(&self) -> String {
        migrate::script::<K>(&self.table_of::<K>())
    }

    /// The collection; by default the usual one of its kind.
    pub(crate) fn table_of<K: Kind>(&self) -> TableName {
        self.table.clone().unwrap_or_else(|| TableName::usual(K::LAYOUT))
    }

    /// The store of the native collection. Asks the server what it is; the collections need not be there yet.
    pub async fn open(self) -> Result<MongodbStore, StoreError> {
        self.start().await
    }

    /// The store of a collection of another program. Asks the server what it is; the collections need not be there yet.
    pub async fn open_items(self) -> Result<MongodbItemStore, StoreError> {
        self.start().await
    }

    async fn start<K: Kind>(self) -> Result<MongodbTable<K>, StoreError> {
        let server = Server::ask(&self.database).await;
        let server = server.map_err(|failure| failure.into_store_error("open", &self.name))?;
        let lifetime = server.lifetime(&self.database).await;
        Ok(MongodbTable::start(self, (server, lifetime)))
    }
}
