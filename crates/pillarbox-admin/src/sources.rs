//! What the API is about: sources, and their tables.

use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::port::AnyTable;
use serde::Serialize;
use serde_json::json;

use crate::described::{Described, described};

/// Lists the sources of an admin API. A relay has those that it drains; other programs have [`TableSources`].
pub trait AdminSources: Send + Sync + 'static {
    /// The sources as they are now.
    fn sources(&self) -> Vec<AdminSource>;

    /// The metrics in the text format of Prometheus; `None` if this program measures nothing.
    fn metrics(&self) -> Option<String> {
        None
    }
}

/// What a source is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceStatus {
    /// Disabled by its configuration.
    Off,
    /// Its database is unavailable or not usable.
    Waiting,
    /// Its tables can be used.
    Running,
    /// It was closed.
    Closed,
}

impl Described for SourceStatus {
    fn schema() -> serde_json::Value {
        json!({"type": "string", "enum": ["off", "waiting", "running", "closed"]})
    }
}

/// One source: a database with one or more tables.
#[derive(Clone)]
pub struct AdminSource {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub status: SourceStatus,
    /// Its tables; empty until it runs.
    pub tables: Vec<AdminTable>,
    /// The error that keeps it from running, without secrets.
    pub trouble: Option<String>,
    /// Counters since the start, if this program delivers.
    pub counts: Option<SourceCounts>,
    /// The last failure of its sink, if this program delivers.
    pub last_failure: Option<LastFailure>,
}

/// One table of a source.
#[derive(Clone)]
pub struct AdminTable {
    /// The name of the table.
    pub name: String,
    /// Its handle.
    pub store: AnyTable,
    /// Whether this program can do its work with it; a relay is registered as a node.
    pub is_ready: bool,
    /// The engine that delivers from it, if this program does.
    pub engine: Option<EngineView>,
    /// Makes that engine read the state of groups again.
    pub refresh: Option<Arc<dyn Fn() + Send + Sync>>,
}

described! {
    /// Counters of a source since the start.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
    pub struct SourceCounts {
        /// Events that the sink accepted.
        pub delivered: u64,
        /// Attempts that failed.
        pub failed: u64,
        /// Events that went dead.
        pub dead: u64,
        /// Requests that failed because of the endpoint or the network.
        pub endpoint_failures: u64,
    }
}

described! {
    /// A failure of a sink, from its first failed request to its recovery.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct LastFailure {
        /// Class of the last failed request: refused, dns, tls, timeout, unauthorized, missing, throttled, not_found,
        /// server_error, refuses_all or other.
        pub class: &'static str,
        /// Error without the endpoint's response body.
        pub error: String,
        /// Time of the first failed request.
        pub since: Timestamp,
        /// Time of the last failed request.
        pub last_at: Timestamp,
        /// Number of failed requests.
        pub requests: u64,
        /// Time at which the endpoint answered again; null while it fails.
        pub recovered_at: Option<Timestamp>,
    }
}

described! {
    /// The engine of this program that delivers from a table.
    #[derive(Debug, Clone, Serialize)]
    pub struct EngineView {
        /// The table.
        pub table: String,
        /// Whether it is registered as a node.
        pub member: bool,
        /// Slots that it holds.
        pub slots: usize,
        /// Whether its circuit breaker is open.
        pub breaker_open: bool,
        /// Milliseconds until the next attempt, if it waits for the endpoint.
        pub next_attempt_in_ms: Option<u64>,
        /// Events in memory.
        pub in_memory: usize,
        /// Batches in flight.
        pub out: usize,
        /// How often it registered anew.
        pub restarts: u64,
        /// The last failure of its sink.
        pub last_failure: Option<LastFailure>,
    }
}

impl std::ops::Add for SourceCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            delivered: self.delivered + other.delivered,
            failed: self.failed + other.failed,
            dead: self.dead + other.dead,
            endpoint_failures: self.endpoint_failures + other.endpoint_failures,
        }
    }
}

/// Tables that are open already, each as a source of its own name.
pub struct TableSources(Vec<AdminSource>);

impl TableSources {
    /// Takes the names of sources, and the name and handle of the table of each.
    #[must_use]
    pub fn new(tables: impl IntoIterator<Item = (String, String, AnyTable)>) -> Self {
        Self(tables.into_iter().map(|(name, table, store)| AdminSource::of(name, [(table, store)])).collect())
    }

    /// Takes the tables of one source, each with its name.
    #[must_use]
    pub fn one(source: &str, tables: impl IntoIterator<Item = (String, AnyTable)>) -> Self {
        Self(vec![AdminSource::of(source.to_owned(), tables)])
    }
}

impl AdminSource {
    fn of(name: String, tables: impl IntoIterator<Item = (String, AnyTable)>) -> Self {
        let table = |(name, store)| AdminTable { name, store, is_ready: true, engine: None, refresh: None };
        let (status, tables) = (SourceStatus::Running, tables.into_iter().map(table).collect());
        Self { name, status, tables, trouble: None, counts: None, last_failure: None }
    }
}

impl AdminSources for TableSources {
    fn sources(&self) -> Vec<AdminSource> {
        self.0.clone()
    }
}
