//! Runs one source: connects, starts an engine per table, retries while its database is down, and closes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join_all};
use pillarbox::engine::{Engine, EngineHealth, EngineParts, EngineSettings};
use pillarbox::model::{Layout, NodeId, TableName};
use pillarbox::port::{AnyTable, ErrorKind, OnDone, PurgeStatus, Sink, StoreError, Table};
use pillarbox_admin::{LastFailure, SourceCounts, SourceStatus};
use pillarbox_stores::{MissingFile, Options};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::brake::Braked;
use crate::config::SourceConfig;
use crate::error::SourceError;
use crate::failures::{Failures, Observed};
use crate::left::pending;
use crate::limited::Limited;
use crate::metrics::{Meter, Reading};
use crate::predecessor::{Process, end_leases_of_dead};
use crate::purge::{kinds, purge};
use crate::sinks::{Route, Sinks};
use crate::watch::{tell, watch};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The poll interval after rows were found: more may follow.
const QUICK_POLL: Duration = Duration::from_millis(20);
/// Time that a delivery has in addition to the timeouts of its sink.
const MARGIN: Duration = Duration::from_secs(10);

/// Health of an engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Health {
    pub(crate) member: bool,
    pub(crate) node: Option<NodeId>,
    pub(crate) first: bool,
    pub(crate) slots: usize,
    pub(crate) breaker_open: bool,
    pub(crate) next_attempt_in_ms: Option<u64>,
    pub(crate) in_memory: usize,
    pub(crate) out: usize,
    pub(crate) restarts: u64,
}

impl From<EngineHealth> for Health {
    fn from(health: EngineHealth) -> Self {
        let EngineHealth { member, node, first, slots, breaker_open, next_attempt, in_memory, out, restarts } =
            health;
        let next_attempt_in_ms = next_attempt.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        Self { member, node, first, slots, breaker_open, next_attempt_in_ms, in_memory, out, restarts }
    }
}

impl Health {
    pub(crate) fn next_attempt_in(&self) -> Option<Duration> {
        self.next_attempt_in_ms.map(Duration::from_millis)
    }
}

/// One table of a source, with the engine that drains it.
pub(crate) struct DrainedTable {
    pub(crate) table: String,
    pub(crate) store: AnyTable,
    pub(crate) meter: Arc<Meter>,
    pub(crate) failures: Arc<Failures>,
    /// The statuses to purge and their retention. Empty if purging is off or the database user may not purge.
    pub(crate) purges: Vec<(PurgeStatus, Duration)>,
    engine: Mutex<Option<Engine>>,
}

impl DrainedTable {
    /// Health of the engine, or `None` after it was closed.
    pub(crate) fn health(&self) -> Option<Health> {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.as_ref().map(|engine| engine.health().into())
    }

    /// Makes the engine reload group state from the store now instead of with its next heartbeat.
    pub(crate) fn refresh_groups(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.iter().for_each(Engine::refresh_groups);
    }

    async fn close(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut engine) = engine {
            engine.close().await;
        }
    }
}

/// One source of a relay.
pub(crate) struct Source {
    pub(crate) config: SourceConfig,
    label: String,
    sinks: Arc<dyn Sinks>,
    /// This process, for relays that start on this host after it.
    process: Option<Process>,
    state: Mutex<State>,
}

/// The state that the admin server and the reports read.
struct State {
    status: SourceStatus,
    drained_tables: Vec<Arc<DrainedTable>>,
    trouble: Option<SourceError>,
    /// The outbox of the other layout in the same database, if there is one. The source does not drain it.
    beside: Option<AnyTable>,
}

impl Source {
    pub(crate) fn new(config: SourceConfig, label: Option<&str>, sinks: Arc<dyn Sinks>) -> Self {
        let label = format!("{}/{}", label.unwrap_or("relay"), config.name);
        let status = if config.enabled { SourceStatus::Waiting } else { SourceStatus::Off };
        let state = Mutex::new(State { status, drained_tables: Vec::new(), trouble: None, beside: None });
        Self { config, label, sinks, process: Process::current(), state }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn status(&self) -> SourceStatus {
        self.with(|state| state.status)
    }

    pub(crate) fn drained_tables(&self) -> Vec<Arc<DrainedTable>> {
        self.with(|state| state.drained_tables.clone())
    }

    /// The outbox of the other layout in the same database.
    pub(crate) fn beside(&self) -> Option<AnyTable> {
        self.with(|state| state.beside.clone())
    }

    /// The error that keeps the source from running.
    pub(crate) fn trouble(&self) -> Option<SourceError> {
        self.with(|state| state.trouble.clone())
    }

    pub(crate) fn counts(&self) -> SourceCounts {
        self.drained_tables()
            .iter()
            .map(|drained| {
                let endpoint_failures = drained.failures.requests().iter().sum();
                SourceCounts { endpoint_failures, ..drained.meter.counts() }
            })
            .fold(SourceCounts::default(), |all, counts| all + counts)
    }

    /// The last failure of its sinks. A failure that continues takes precedence over one that has ended.
    pub(crate) fn last_failure(&self) -> Option<LastFailure> {
        let last =
            self.drained_tables().iter().filter_map(|drained| drained.failures.last()).collect::<Vec<_>>();
        last.into_iter().max_by_key(|failure| (failure.recovered_at.is_none(), failure.last_at))
    }

    /// The metrics of its tables. Empty until the engines have started.
    pub(crate) fn readings(&self) -> Vec<Reading> {
        let read = |drained: &Arc<DrainedTable>| {
            drained.meter.reading(
                &self.config.name,
                &drained.table,
                drained.health().as_ref(),
                &drained.failures,
            )
        };
        self.drained_tables().iter().map(read).collect()
    }

    /// Runs until `stop` is cancelled. Sends the result of the first attempt to start as soon as it is known.
    pub(crate) async fn run(
        self: Arc<Self>,
        first: oneshot::Sender<Result<(), SourceError>>,
        stop: CancellationToken,
    ) {
        let mut first = Some(first);
        let mut tell = |result| {
            if let Some(first) = first.take() {
                let _ = first.send(result);
            }
        };
        let mut pause = FIRST_PAUSE;
        while !stop.is_cancelled() {
            let Some(opened) = stop.run_until_cancelled(self.open()).await else { break };
            let started = match opened {
                Ok(tables) => self.start(tables).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(drained_tables) => {
                    self.with(|state| {
                        state.status = SourceStatus::Running;
                        state.drained_tables.clone_from(&drained_tables);
                        state.trouble = None;
                    });
                    tell(Ok(()));
                    let name = self.config.name.as_str();
                    let watched = drained_tables.iter().map(|drained| {
                        join(watch(name, drained, self.process.as_ref()), purge(name, drained))
                    });
                    let watched = join_all(watched);
                    stop.run_until_cancelled(watched).await;
                }
                Err(error) => {
                    tracing::warn!(source = %self.config.name, error = %error.what, again_in = ?pause, "source does not run");
                    self.with(|state| state.trouble = Some(error.clone()));
                    tell(Err(error));
                    let _ = timeout(pause, stop.cancelled()).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        self.close().await;
        self.with(|state| state.status = SourceStatus::Closed);
    }

    /// Closes the engines at the same time, and logs the events that they still have to deliver.
    async fn close(&self) {
        let drained_tables = self.drained_tables();
        for drained in &drained_tables {
            self.tell_what_is_waited_for(drained);
        }
        join_all(drained_tables.iter().map(|drained| drained.close())).await;
        for drained in &drained_tables {
            tell(&self.config.name, drained).await;
        }
    }

    fn tell_what_is_waited_for(&self, drained: &DrainedTable) {
        let Some(health) = drained.health().filter(|health| health.in_memory > 0) else { return };
        tracing::info!(
            source = %self.config.name,
            table = %drained.table,
            events = health.in_memory,
            batches_in_flight = health.out,
            at_most = ?self.config.engine.drain,
            endpoint_failure = drained.failures.current().map(|failure| failure.class),
            next_attempt_in = health.next_attempt_in().map(tracing::field::debug),
            "closing: waits for events in memory, then releases the rest"
        );
    }

    /// Connects to the tables and checks or migrates them. Cancel-safe: no engine runs yet.
    async fn open(&self) -> Result<Vec<(Route, TableName, AnyTable)>, SourceError> {
        let config = &self.config;
        let layout = match config.layout {
            Some(layout) => layout,
            None => self.connect(None, &config.table).await?.facts().layout(),
        };
        let mut tables = Vec::new();
        for (route, table) in wanted(config, layout) {
            let store = self.connect(Some(layout), &table).await?;
            if config.migrate {
                self.refuse_beside_pending(&table, &store).await?;
            }
            let ready = async {
                if config.migrate {
                    store.admin().migrate().await?;
                }
                store.admin().check().await
            };
            if let Err(error) = ready.await {
                return Err(self.not_ready(&table, &*store, &error).await);
            }
            tables.push((route, table, store));
        }
        self.look_beside(layout).await;
        Ok(tables)
    }

    /// Refuses to create native tables beside tables of items with pending events, as `pillarbox migrate` does.
    async fn refuse_beside_pending(&self, table: &TableName, store: &AnyTable) -> Result<(), SourceError> {
        let (url, options) = (self.config.database_url.reveal(), self.options(None, table));
        let pending = pillarbox_stores::pending_items_beside(url, &options, store).await;
        match pending.map_err(|error| self.failed(table, store.facts().layout(), &error))? {
            None => Ok(()),
            Some(pending) => Err(SourceError {
                name: self.config.name.clone(),
                kind: ErrorKind::Schema,
                what: format!(
                    "{pending}; set layout = \"flowcatalyst\" to drain it, or run `pillarbox migrate --layout native --force` to have both"
                ),
            }),
        }
    }

    /// The error of a table that can't be used. If rights are missing, it names the statements that grant them.
    async fn not_ready(&self, table: &TableName, store: &dyn Table, error: &StoreError) -> SourceError {
        if error.kind() == ErrorKind::Permission
            && let Ok(lacking) = store.admin().lacking().await
            && !lacking.deliver.is_empty()
        {
            return SourceError::lacking(&self.config.name, table.as_str(), &lacking.deliver);
        }
        self.failed(table, store.facts().layout(), error)
    }

    /// Warns if the tables of the other layout have pending events. Nothing delivers these, and no other
    /// message would say so.
    async fn look_beside(&self, layout: Layout) {
        let config = &self.config;
        let table = TableName::default();
        let options =
            Options { table, layout: None, schema: config.schema.clone(), missing: MissingFile::Refuse };
        let other = pillarbox_stores::beside(config.database_url.reveal(), &options, layout).await;
        if let Some(other) = &other
            && let Ok(events @ 1..) = pending(&**other).await
        {
            let beside = other.facts().layout();
            tracing::warn!(
                source = %config.name, %layout, other_layout = %beside, other_table = TableName::usual(beside).as_str(),
                pending_events = events,
                "there is an outbox of another layout beside this one: its events are not delivered; set `layout` to name the one you mean"
            );
        }
        self.with(|state| state.beside = other);
    }

    /// The statuses to purge and their retention. If the database user lacks rights to deliver, the source
    /// fails before it sends anything. If only the rights to purge are missing, it delivers without purging.
    async fn purges(
        &self,
        table: &TableName,
        store: &dyn Table,
    ) -> Result<Vec<(PurgeStatus, Duration)>, SourceError> {
        let layout = store.facts().layout();
        let lacking = store.admin().lacking().await.map_err(|error| self.failed(table, layout, &error))?;
        if !lacking.deliver.is_empty() {
            return Err(SourceError::lacking(&self.config.name, table.as_str(), &lacking.deliver));
        }
        let purges = kinds(&self.config, layout);
        if !purges.is_empty() && !lacking.purge.is_empty() {
            tracing::warn!(
                source = %self.config.name, table = %table.as_str(), grants = %lacking.purge.join("; "),
                "nothing is purged: the database user lacks rights"
            );
            return Ok(Vec::new());
        }
        Ok(purges)
    }

    async fn connect(&self, layout: Option<Layout>, table: &TableName) -> Result<AnyTable, SourceError> {
        let config = &self.config;
        let url = config.database_url.reveal();
        let connected = pillarbox_stores::connect(url, &self.options(layout, table)).await;
        connected.map_err(|error| SourceError::connecting(&config.name, url, &error))
    }

    fn options(&self, layout: Option<Layout>, table: &TableName) -> Options {
        let config = &self.config;
        let missing = if config.migrate { MissingFile::Create } else { MissingFile::Refuse };
        Options { table: table.clone(), layout, schema: config.schema.clone(), missing }
    }

    fn failed(&self, table: &TableName, layout: Layout, error: &StoreError) -> SourceError {
        let config = &self.config;
        SourceError::of_table(&config.name, config.database_url.reveal(), table.as_str(), layout, error)
    }

    /// Starts the engines. If one fails to start, closes the engines that were started before it.
    async fn start(
        &self,
        tables: Vec<(Route, TableName, AnyTable)>,
    ) -> Result<Vec<Arc<DrainedTable>>, SourceError> {
        let limit = Arc::new(Semaphore::new(self.config.engine.workers));
        let shared = tables.len() > 1;
        let mut drained_tables: Vec<Arc<DrainedTable>> = Vec::new();
        for (route, table, store) in tables {
            let limit = shared.then(|| Arc::clone(&limit));
            match self.open_table(route, table, store, limit).await {
                Ok(drained) => drained_tables.push(Arc::new(drained)),
                Err(error) => {
                    join_all(drained_tables.iter().map(|drained| drained.close())).await;
                    return Err(error);
                }
            }
        }
        Ok(drained_tables)
    }

    async fn open_table(
        &self,
        route: Route,
        table: TableName,
        store: AnyTable,
        limit: Option<Arc<Semaphore>>,
    ) -> Result<DrainedTable, SourceError> {
        let config = &self.config;
        let layout = store.facts().layout();
        let purges = self.purges(&table, &*store).await?;
        let sink = self.sinks.open(&config.sink, route).map_err(|what| SourceError {
            name: config.name.clone(),
            kind: ErrorKind::InvalidInput,
            what,
        })?;
        let sink = if is_http(config) { Arc::new(Braked::new(sink, &config.name)) } else { sink };
        let failures = Arc::new(Failures::default());
        let sink: Arc<dyn Sink> = Arc::new(Observed::new(sink, Arc::clone(&failures)));
        let sink = match limit {
            Some(limit) => Arc::new(Limited::new(sink, limit)),
            None => sink,
        };
        let meter = Arc::new(Meter::default());
        if let Some(process) = &self.process {
            end_leases_of_dead(&config.name, &*store, process).await;
        }
        let engine = Engine::start(EngineParts {
            table: store.clone(),
            sink,
            metrics: Arc::<Meter>::clone(&meter),
            settings: settings(config, &store, &self.label),
            seed: fastrand::u64(..),
        });
        let engine = engine.await.map_err(|error| self.failed(&table, layout, &error))?;
        tracing::info!(source = %config.name, table = %table.as_str(), %layout, "source runs");
        let (table, engine) = (table.as_str().to_owned(), Mutex::new(Some(engine)));
        Ok(DrainedTable { table, store, meter, failures, purges, engine })
    }
}

/// Whether the sink is an HTTP endpoint, which may refuse any event. A broker refuses only events that are
/// too large.
fn is_http(config: &SourceConfig) -> bool {
    let url = config.sink.url.reveal();
    ["http:", "https:", "webhook+"]
        .iter()
        .any(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

/// The tables to drain in this layout.
fn wanted(config: &SourceConfig, layout: Layout) -> Vec<(Route, TableName)> {
    match layout {
        Layout::Native => vec![(Route::Events, config.table.clone())],
        Layout::Flowcatalyst => {
            let events = config.events_table.clone().map(|table| (Route::Events, table));
            let jobs = config.dispatch_jobs_table.clone().map(|table| (Route::DispatchJobs, table));
            events.into_iter().chain(jobs).collect()
        }
    }
}

fn settings(config: &SourceConfig, store: &AnyTable, label: &str) -> EngineSettings {
    let is_webhook = config.sink.url.reveal().starts_with("webhook");
    // Twice the timeouts: where two tables share the limit of groups, a batch may first wait for another one.
    let deadline = (config.sink.options.connect_timeout + config.sink.options.timeout) * 2 + MARGIN;
    let engine = config.engine.clone();
    EngineSettings {
        batch: if is_webhook { 1 } else { engine.batch },
        retry: Arc::new(config.retry),
        deadline,
        on_done: if store.items().is_some() { OnDone::Keep } else { engine.on_done },
        quick_poll: Some(QUICK_POLL.min(engine.poll_interval)),
        label: label.to_owned(),
        ..engine
    }
}
