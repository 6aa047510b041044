//! The builder of a store: settings and opening.

use std::time::Duration;

use mongodb::options::{Acknowledgment, ClientOptions, WriteConcern};
use mongodb::{Client, Database};
use pillarbox::port::{ErrorKind, Items, Native, StoreError};
use pillarbox_store_kit::{Settings, setters};

use crate::error::DriverError;
use crate::kind::Kind;
use crate::migrate;
use crate::outbox::Server;
use crate::store::{MongodbItemStore, MongodbStore, MongodbTable};

/// With less, a busy server could not answer a heartbeat; with more, a call would practically never be
/// abandoned.
const COMMAND_TIMEOUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3_600));
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a store that is opened from a URL looks for a server, unless the URL sets a timeout.
const SELECTION: Duration = Duration::from_secs(10);
/// MongoDB limits a document to 16 MiB. Names, headers, errors and the failure history need the rest.
const LARGEST_PAYLOAD: usize = 8 * 1_048_576;

/// How this process learns of rows that other processes write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MongodbWakeUp {
    /// From a change stream if the server is a replica set; otherwise by polling the counter.
    #[default]
    ChangeStream,
    /// No wake-ups: the reader finds rows only by polling.
    Off,
}

/// Settings for opening a store. A payload limit above 8 MiB is lowered to that, because MongoDB limits a document to
/// 16 MiB.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct MongodbStoreBuilder {
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    pub(crate) wake_up: MongodbWakeUp,
    pub(crate) command_timeout: Duration,
    pub(crate) client: Whose,
}

/// The owner of the client that a store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The store, which shuts the client down.
    Own,
    Callers,
}

impl MongodbStoreBuilder {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            settings: Settings::new(database.name().to_owned()),
            database,
            wake_up: MongodbWakeUp::default(),
            command_timeout: DEFAULT_COMMAND_TIMEOUT,
            client: Whose::Callers,
        }
    }

    pub(crate) async fn from_url(url: &str) -> Result<Self, StoreError> {
        // The parser's error text may quote the URL and its password, so it is not passed on.
        let wrong = |error| DriverError::Driver(error).into_store_error("open", "mongodb");
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

    setters!(named_by: "database");

    /// Sets how this process learns of rows that other processes write. Default: `MongodbWakeUp::ChangeStream`.
    pub fn wake_up(mut self, wake_up: MongodbWakeUp) -> Self {
        self.wake_up = wake_up;
        self
    }

    /// Sets the time limit of the store's own commands. Default: 30 s; allowed: 100 ms to 1 h.
    ///
    /// At the limit the server ends the command. If the server does not answer within another 5 s, the
    /// connection is dropped.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout.clamp(COMMAND_TIMEOUTS.0, COMMAND_TIMEOUTS.1);
        self
    }

    /// Returns a `mongosh` script that creates the collections, to be run by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        self.script::<Native>()
    }

    /// Returns a `mongosh` script that creates a collection of items and the store's own collections, to be
    /// run by hand.
    #[must_use]
    pub fn items_schema_sql(&self) -> String {
        self.script::<Items>()
    }

    fn script<K: Kind>(&self) -> String {
        migrate::script::<K>(&self.settings.table(K::LAYOUT))
    }

    /// Opens a store on the native collection. Asks the server for its capabilities; the collections need not
    /// exist yet.
    pub async fn open(self) -> Result<MongodbStore, StoreError> {
        self.start().await
    }

    /// Opens a store on a collection of items. Asks the server for its capabilities; the collections need not
    /// exist yet.
    pub async fn open_items(self) -> Result<MongodbItemStore, StoreError> {
        self.start().await
    }

    async fn start<K: Kind>(mut self) -> Result<MongodbTable<K>, StoreError> {
        let limits = &mut self.settings.limits;
        limits.payload = limits.payload.min(LARGEST_PAYLOAD);
        let server = Server::ask(&self.database).await;
        let server = server.map_err(|failure| failure.into_store_error("open", &self.settings.name))?;
        let lifetime = server.lifetime(&self.database).await;
        if server == Server::Replicated && self.database.write_concern().is_some_and(is_weak) {
            tracing::warn!(
                store = %self.settings.name,
                "the client's write concern is weaker than majority: transactions in your own sessions can be \
                 rolled back by a failover; the store's own commands use majority",
            );
        }
        Ok(MongodbTable::start(self, (server, lifetime)))
    }
}

/// Whether writes may be confirmed before a majority has them.
fn is_weak(concern: &WriteConcern) -> bool {
    concern.w.as_ref().is_some_and(|w| *w != Acknowledgment::Majority) || concern.journal == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-024
    #[test]
    fn anything_less_than_majority_is_weak() {
        assert!(!is_weak(&WriteConcern::majority()) && !is_weak(&WriteConcern::default()));
        assert!(is_weak(&WriteConcern::nodes(1)) && is_weak(&WriteConcern::nodes(0)));
        let mut unjournaled = WriteConcern::majority();
        unjournaled.journal = Some(false);
        assert!(is_weak(&unjournaled));
    }
}
