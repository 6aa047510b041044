//! The settings that the builders of all stores share.

use pillarbox::model::{Layout, Limits, TableName};
use pillarbox::port::Facts;

/// The settings of every store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name in logs and errors.
    pub name: String,
    /// The table, if it is not the default one.
    pub table: Option<TableName>,
    /// The limits on event fields.
    pub limits: Limits,
}

impl Settings {
    /// Creates default settings with this name.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self { name, table: None, limits: Limits::default() }
    }

    /// The name of the table; by default the usual one of this layout.
    #[must_use]
    pub fn table(&self, layout: Layout) -> TableName {
        self.table.clone().unwrap_or_else(|| TableName::usual(layout))
    }

    /// The facts of a store on a table of this layout.
    #[must_use]
    pub fn facts(&self, kind: &'static str, layout: Layout) -> Facts {
        Facts {
            kind,
            name: self.name.clone(),
            slots: layout.slots(),
            concurrent_writers: true,
            concurrent_claims: true,
            concurrent_settles: false,
            transactions: true,
            durable: true,
            shared: true,
            limits: Limits { layout, ..self.limits },
        }
    }
}

/// Defines the setters of a builder that has a field `settings` of type [`Settings`].
#[macro_export]
macro_rules! setters {
    (named_by: $named_by:literal) => {
        #[doc = concat!("The name in logs and errors. Default: the name of the ", $named_by, ".")]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.settings.name = name.into();
            self
        }

        /// The table. Default: `outbox_event`, or `outbox_events` for items.
        pub fn table(mut self, table: $crate::TableName) -> Self {
            self.settings.table = Some(table);
            self
        }

        /// The limits on event fields. Default: 1 MiB of payload, no NUL.
        pub fn limits(mut self, limits: $crate::Limits) -> Self {
            self.settings.limits = limits;
            self
        }
    };
}

/// Defines the setters of a builder that has a field `server` of type [`ServerSettings`]. `$cancels` says which
/// statements the server cancels.
#[cfg(feature = "server")]
#[macro_export]
macro_rules! server_setters {
    (cancels: $cancels:literal) => {
        /// How long one of the store's own statements may take. Default: 30 s; from 100 ms to 1 h.
        ///
        #[doc = concat!("The server then cancels ", $cancels, ". If the connection still does not answer, the store drops it 5 s later.")]
        pub fn statement_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.server.set_statement_timeout(timeout);
            self
        }

        /// The number of connections that claims, promotions and operators share. Default: 4; at least 1.
        ///
        /// Reading, settling, heartbeats and wake-ups have one more connection each. All of them are opened on
        /// first use.
        pub fn general_connections(mut self, connections: usize) -> Self {
            self.server.set_general_connections(connections);
            self
        }
    };
}

#[cfg(feature = "server")]
pub use server::ServerSettings;

#[cfg(feature = "server")]
mod server {
    use std::time::Duration;

    /// The bounds of the statement timeout. With a shorter one a busy server could not answer a heartbeat;
    /// with a longer one nothing would ever time out.
    const STATEMENT_TIMEOUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3_600));

    /// The settings of stores that connect to a server.
    #[derive(Debug, Clone, Copy)]
    pub struct ServerSettings {
        /// The time after which the server cancels a statement.
        pub statement_timeout: Duration,
        /// The number of connections for general work.
        pub general_connections: usize,
    }

    impl Default for ServerSettings {
        fn default() -> Self {
            Self { statement_timeout: Duration::from_secs(30), general_connections: 4 }
        }
    }

    impl ServerSettings {
        /// Sets the statement timeout, clamped to its bounds.
        pub fn set_statement_timeout(&mut self, timeout: Duration) {
            self.statement_timeout = timeout.clamp(STATEMENT_TIMEOUTS.0, STATEMENT_TIMEOUTS.1);
        }

        /// Sets the number of general connections; at least one.
        pub fn set_general_connections(&mut self, connections: usize) {
            self.general_connections = connections.max(1);
        }
    }
}
