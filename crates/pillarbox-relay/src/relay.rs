//! A running relay: its sources, its admin server, and their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pillarbox::port::StoreError;
use pillarbox_sinks::LineWriter;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::Server;
use crate::config::{Problem, Problems, RelayConfig};
use crate::empty::is_empty;
use crate::error::{RelayStartError, SourceError};
use crate::failures::LastFailure;
use crate::left::{Left, pending};
use crate::metrics::{Exporter, Reading, SourceCounts};
use crate::sinks::{Route, Sinks, UrlSinks};
use crate::source::{Source, SourceStatus};

const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// What engines may take to end beyond their drain.
const GRACE: Duration = Duration::from_secs(20);

/// What a relay is made of.
pub struct RelayParts {
    /// What it does.
    pub config: RelayConfig,
    /// Where its sinks come from.
    pub sinks: Arc<dyn Sinks>,
}

/// How one source is.
#[derive(Debug, Clone, serde::Serialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    #[serde(rename = "standing")]
    pub status: SourceStatus,
    /// The tables that are drained.
    pub tables: Vec<String>,
    /// What was counted.
    pub counts: SourceCounts,
    /// The last failure of its sink.
    pub last_failure: Option<LastFailure>,
}

/// A running relay. Close it: dropped unclosed, rows stay pending and leases run out by themselves.
pub struct Relay {
    shared: Arc<Shared>,
    stop: CancellationToken,
    tracker: TaskTracker,
    admin: Option<Server>,
    exporter: Option<Exporter>,
    longest_drain: Duration,
}

/// What the admin server sees of a relay.
pub(crate) struct Shared {
    pub(crate) sources: Vec<Arc<Source>>,
}

impl Shared {
    /// The metrics of every table that is drained.
    pub(crate) fn readings(&self) -> Vec<Reading> {
        self.sources.iter().flat_map(|source| source.readings()).collect()
    }
}

impl Relay {
    /// Starts the sources and the admin server.
    ///
    /// A source whose database is away, or whose tables are missing, is tried again while the others run; it is an error only if
    /// no source runs and waiting would help none.
    pub async fn start(parts: RelayParts) -> Result<Self, RelayStartError> {
        let RelayParts { config, sinks } = parts;
        sinks_of(&config, &*sinks)?;
        let longest_drain = config.sources.iter().map(|source| source.drain).max().unwrap_or_default();
        let label = config.label.as_deref();
        let source = |source| Arc::new(Source::new(source, label, Arc::clone(&sinks)));
        let shared = Arc::new(Shared { sources: config.sources.into_iter().map(source).collect() });
        let exporter = config.otlp.map(|otlp| Exporter::start(otlp, label, Arc::clone(&shared)));
        let exporter = exporter.transpose().map_err(RelayStartError::Metrics)?;
        let admin = match config.admin {
            Some(admin) => Some(Server::start(admin, Arc::clone(&shared)).await?),
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

    /// Where the admin server listens.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Server::address)
    }

    /// How its sources are.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceReport> {
        self.shared.sources.iter().map(|source| SourceReport::of(source)).collect()
    }

    /// Why those of its sources that do not run don't.
    #[must_use]
    pub fn troubles(&self) -> Vec<SourceError> {
        self.shared.sources.iter().filter_map(|source| source.trouble()).collect()
    }

    /// Waits until no table has anything left that would be delivered. What waits behind a blocked or paused group or for its time
    /// does not count.
    pub async fn until_empty(&self) {
        let mut pause = FIRST_LOOK;
        while !self.is_empty().await {
            let _ = timeout(pause, self.stop.cancelled()).await;
            pause = (pause * 3 / 2).min(LONGEST_LOOK);
        }
    }

    /// A source that does not run, or a table that can't be asked, has something left.
    async fn is_empty(&self) -> bool {
        for source in self.shared.sources.iter().filter(|source| source.config.enabled) {
            if source.status() == SourceStatus::Waiting {
                return false;
            }
            for part in source.parts() {
                if part.health().is_some_and(|health| health.in_memory + health.out > 0) {
                    return false;
                }
                match is_empty(&part.store, source.config.ungrouped).await {
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

    /// What is pending in the tables that were drained, by the reason why it was not delivered.
    pub async fn left(&self) -> Result<Left, StoreError> {
        let mut left = Left::default();
        for part in self.shared.sources.iter().flat_map(|source| source.parts()) {
            left = left + Left::count(&*part.store).await?;
        }
        for beside in self.shared.sources.iter().filter_map(|source| source.beside()) {
            left.beside += pending(&*beside).await?;
        }
        Ok(left)
    }

    /// Ends what the stores of a closed relay still do: the last thing before a program ends its runtime.
    pub async fn shut_down(&self) {
        for part in self.shared.sources.iter().flat_map(|source| source.parts()) {
            part.store.shut_down().await;
        }
        for beside in self.shared.sources.iter().filter_map(|source| source.beside()) {
            beside.shut_down().await;
        }
    }

    /// Stops reading, drains what is in memory, gives the rest back, leaves, stops the admin server and tells the last metrics. A second close does nothing.
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
            tables: source.parts().iter().map(|part| part.table.clone()).collect(),
            counts: source.counts(),
            last_failure: source.last_failure(),
        }
    }
}

/// Whether the sinks that the URLs name can be made; nothing is connected to.
pub fn check_sinks(config: &RelayConfig) -> Result<(), Problems> {
    // What is written to it is nobody's.
    sinks_of(config, &UrlSinks { writer: Some(LineWriter::new(tokio::io::empty())) })
}

/// Every sink that can't be made, at once.
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
