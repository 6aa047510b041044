//! Starts, reports on and closes a relay: its sources, its admin server and its metrics exporter.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pillarbox::engine::{Ungrouped, is_empty};
use pillarbox::model::GroupKey;
use pillarbox::port::StoreError;
use pillarbox_admin::{AdminApi, AdminServer, LastFailure, SourceCounts, SourceStatus};
use pillarbox_sinks::LineWriter;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::RelaySources;
use crate::config::{AdminConfig, Problem, Problems, RelayConfig};
use crate::error::{RelayStartError, SourceError};
use crate::left::{Left, pending};
use crate::metrics::{Exporter, Reading};
use crate::sinks::{Route, Sinks, UrlSinks};
use crate::source::Source;

const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// Time that engines have to close in addition to the longest `drain`.
const GRACE: Duration = Duration::from_secs(20);

/// The inputs of [`Relay::start`].
pub struct RelayParts {
    /// The checked configuration.
    pub config: RelayConfig,
    /// Opens the sinks of the sources.
    pub sinks: Arc<dyn Sinks>,
}

/// The state of one source.
#[derive(Debug, Clone, serde::Serialize)]
pub struct SourceReport {
    /// The name of the source.
    pub name: String,
    /// Whether the source runs.
    #[serde(rename = "standing")]
    pub status: SourceStatus,
    /// The tables that the source drains. Empty until it has started.
    pub tables: Vec<String>,
    /// Counters since the start.
    pub counts: SourceCounts,
    /// The last failure of the sink, also if the sink has recovered.
    pub last_failure: Option<LastFailure>,
}

/// A running relay. Call [`Relay::close`] to stop it. If it is only dropped, its sources stop in the
/// background, and if the process ends first, buffered rows stay pending and leases expire.
pub struct Relay {
    shared: Arc<Shared>,
    stop: CancellationToken,
    tracker: TaskTracker,
    admin: Option<AdminServer>,
    exporter: Option<Exporter>,
    longest_drain: Duration,
}

/// The part of a relay that the admin server and the metrics exporter read.
pub(crate) struct Shared {
    pub(crate) sources: Vec<Arc<Source>>,
}

impl Shared {
    /// The metrics of every table.
    pub(crate) fn readings(&self) -> Vec<Reading> {
        self.sources.iter().flat_map(|source| source.readings()).collect()
    }
}

impl Relay {
    /// Starts the sources and the admin server.
    ///
    /// A source whose database is unavailable, or whose tables are missing, retries while the other sources
    /// run. Starting fails only if no source runs and no retry would help any of them.
    pub async fn start(parts: RelayParts) -> Result<Self, RelayStartError> {
        let RelayParts { config, sinks } = parts;
        sinks_of(&config, &*sinks)?;
        for warning in &config.warnings {
            tracing::warn!(key = warning.key, place = warning.place, "{}", warning.what);
        }
        let longest_drain = config.sources.iter().map(|source| source.engine.drain).max().unwrap_or_default();
        let label = config.label.as_deref();
        let source = |source| Arc::new(Source::new(source, label, Arc::clone(&sinks)));
        let shared = Arc::new(Shared { sources: config.sources.into_iter().map(source).collect() });
        let exporter = config.otlp.map(|otlp| Exporter::start(otlp, label, Arc::clone(&shared)));
        let exporter = exporter.transpose().map_err(RelayStartError::Metrics)?;
        let admin = match config.admin {
            Some(admin) => Some(serve_admin(admin, Arc::clone(&shared)).await?),
            None => None,
        };
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        let mut relay = Self { shared, stop, tracker, admin, exporter, longest_drain };
        match relay.start_sources().await {
            Ok(()) => Ok(relay),
            Err(error) => {
                relay.close().await;
                Err(error)
            }
        }
    }

    async fn start_sources(&self) -> Result<(), RelayStartError> {
        let enabled = || self.shared.sources.iter().filter(|source| source.config.enabled);
        let first = enabled().map(|source| {
            let (tell, told) = oneshot::channel();
            self.tracker.spawn(Arc::clone(source).run(tell, self.stop.clone()));
            told
        });
        let first: Vec<_> = first.collect();
        let results = join_all(first).await;
        let errors: Vec<SourceError> = results.into_iter().filter_map(|told| told.ok()?.err()).collect();
        let hopeless = errors.len() == enabled().count() && errors.iter().all(|error| !error.is_transient());
        if !errors.is_empty() && hopeless {
            return Err(RelayStartError::Sources(errors));
        }
        Ok(())
    }

    /// The address that the admin server listens on.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(AdminServer::address)
    }

    /// The state of every source.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceReport> {
        self.shared.sources.iter().map(|source| SourceReport::of(source)).collect()
    }

    /// The errors of the sources that do not run.
    #[must_use]
    pub fn troubles(&self) -> Vec<SourceError> {
        self.shared.sources.iter().filter_map(|source| source.trouble()).collect()
    }

    /// Waits until no table has events left to deliver. Events of held groups, events that are not due yet
    /// and messages of the queue do not count; events that wait for a retry do.
    pub async fn until_empty(&self) {
        let mut pause = FIRST_LOOK;
        while !self.is_empty().await {
            let _ = timeout(pause, self.stop.cancelled()).await;
            pause = (pause * 3 / 2).min(LONGEST_LOOK);
        }
    }

    /// A source that is not running yet and a table that can't be read count as not empty.
    async fn is_empty(&self) -> bool {
        for source in self.shared.sources.iter().filter(|source| source.config.enabled) {
            if source.status() == SourceStatus::Waiting {
                return false;
            }
            for drained in source.drained_tables() {
                // Memory before the store: a row stays pending until it is settled, so an event that is read
                // between the two checks is still seen by the second.
                if drained.health().is_some_and(|health| health.in_memory + health.out > 0) {
                    return false;
                }
                let shares =
                    drained.store.items().is_some() && source.config.engine.ungrouped == Ungrouped::Default;
                let shared = shares.then(|| GroupKey::new(Ungrouped::GROUP));
                match is_empty(&*drained.store, shared).await {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(error) => {
                        tracing::warn!(source = %source.config.name, %error, "can't tell whether it is empty");
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Counts the pending events of all sources by the reason why they were not delivered.
    pub async fn left(&self) -> Result<Left, StoreError> {
        let mut left = Left::default();
        for source in &self.shared.sources {
            for drained in source.drained_tables() {
                left = left + Left::count(&drained.store, source.config.engine.ungrouped).await?;
            }
        }
        for beside in self.shared.sources.iter().filter_map(|source| source.beside()) {
            left.beside += pending(&*beside).await?;
        }
        Ok(left)
    }

    /// Ends the background work of the stores. Call it after [`Relay::close`], as the last step before the
    /// runtime ends.
    pub async fn shut_down(&self) {
        for drained in self.shared.sources.iter().flat_map(|source| source.drained_tables()) {
            drained.store.shut_down().await;
        }
        for beside in self.shared.sources.iter().filter_map(|source| source.beside()) {
            beside.shut_down().await;
        }
    }

    /// Stops reading, delivers buffered events for at most `drain`, releases the rest, removes the nodes from
    /// the store, stops the admin server and pushes the metrics once more. A second call does nothing.
    pub async fn close(&mut self) {
        self.stop.cancel();
        self.tracker.close();
        if timeout(self.longest_drain + GRACE, self.tracker.wait()).await.is_err() {
            tracing::warn!("some sources did not end in time");
        }
        if let Some(admin) = self.admin.take() {
            admin.close().await;
        }
        if let Some(exporter) = self.exporter.take() {
            exporter.close().await;
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl SourceReport {
    pub(crate) fn of(source: &Source) -> Self {
        Self {
            name: source.config.name.clone(),
            status: source.status(),
            tables: source.drained_tables().iter().map(|drained| drained.table.clone()).collect(),
            counts: source.counts(),
            last_failure: source.last_failure(),
        }
    }
}

async fn serve_admin(config: AdminConfig, shared: Arc<Shared>) -> Result<AdminServer, RelayStartError> {
    let AdminConfig { address, tokens } = config;
    let started = AdminServer::start(address, AdminApi::new(RelaySources(shared)).tokens(tokens)).await;
    started.map_err(|source| RelayStartError::Admin { address, source })
}

/// Checks whether the sinks of a configuration can be opened. Connects to nothing.
pub fn check_sinks(config: &RelayConfig) -> Result<(), Problems> {
    // The sink `stdout:` needs a writer; nothing is delivered to it here.
    sinks_of(config, &UrlSinks { writer: Some(LineWriter::new(tokio::io::empty())) })
}

/// Opens every sink once and returns all problems together.
fn sinks_of(config: &RelayConfig, sinks: &dyn Sinks) -> Result<(), Problems> {
    let bad = config.sources.iter().filter(|source| source.enabled).filter_map(|source| {
        let what = sinks.open(&source.sink, Route::Events).err()?;
        let key = match source.sink.kind {
            crate::config::SinkKind::Api => "api-base-url",
            crate::config::SinkKind::Url => "sink",
        };
        Some(Problem::new(key, None, format!("source {}: {what}", source.name)))
    });
    let problems: Vec<Problem> = bad.collect();
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}
