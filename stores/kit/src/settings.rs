//! The settings that the builders of all SQL stores have, and what follows from them.

use pillarbox::model::{Layout, Limits, TableName};
use pillarbox::port::Facts;

/// The settings of every store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name in logs and errors.
    pub name: String,
    /// The table, if it is not the usual one.
    pub table: Option<TableName>,
    /// The bounds of fields.
    pub limits: Limits,
}

impl Settings {
    /// The defaults, under this name.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self { name, table: None, limits: Limits::default() }
    }

    /// The table; by default the usual one of this layout.
    #[must_use]
    pub fn table(&self, layout: Layout) -> TableName {
        self.table.clone().unwrap_or_else(|| TableName::usual(layout))
    }

    /// What a store on a table of this layout states about itself.
    #[must_use]
    pub fn facts(&self, kind: &'static str, layout: Layout) -> Facts {
        Facts {
            kind,
            name: self.name.clone(),
            slots: layout.slots(),
            concurrent_writers: true,
            transactions: true,
            durable: true,
            shared: true,
            limits: Limits { layout, ..self.limits },
        }
    }
}

/// The methods of a builder whose field `settings` are [`Settings`].
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

        /// The bounds of fields. Default: 1 MiB of payload, no NUL.
        pub fn limits(mut self, limits: $crate::Limits) -> Self {
            self.settings.limits = limits;
            self
        }
    };
}

#[cfg(feature = "server")]
pub use server::ServerSettings;

#[cfg(feature = "server")]
mod server {
    use std::time::Duration;

    /// Shorter, and a busy server could not answer a heartbeat; longer, and nothing would ever be given up.
    const STATEMENT_TIMEOUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3_600));

    /// The settings of stores over connections to a server.
    #[derive(Debug, Clone, Copy)]
    pub struct ServerSettings {
        /// What the server is told to give up after.
        pub statement_timeout: Duration,
        /// Connections for general work.
        pub general_connections: usize,
    }

    impl Default for ServerSettings {
        fn default() -> Self {
            Self { statement_timeout: Duration::from_secs(30), general_connections: 4 }
        }
    }

    impl ServerSettings {
        /// Sets the timeout, within its bounds.
        pub fn set_statement_timeout(&mut self, timeout: Duration) {
            self.statement_timeout = timeout.clamp(STATEMENT_TIMEOUTS.0, STATEMENT_TIMEOUTS.1);
        }

        /// Sets the number of connections, which is never zero.
        pub fn set_general_connections(&mut self, connections: usize) {
            self.general_connections = connections.max(1);
        }
    }
}
