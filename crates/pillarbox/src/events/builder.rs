//! The outbox builder: the four compositions and their settings.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::deliver::ListenerSink;
use super::error::SettingError;
use super::outbox::{Outbox, Parts};
use super::{
    EventPurger, Failure, InFlightSet, InFlightTracker, Interceptor, Listener, ListenerRegistry, Listeners,
    PurgeSettings, Purger, StartError, TraceSource, Writer, WriterHook,
};
use crate::engine::{Engine, EngineParts, EngineSettings, OnDead};
use crate::model::{AggregateType, EventPayload, EventType, Invalid};
use crate::port::{Delivery, MetricsExporter, NoMetrics, OnDone, Order, ReadScope, Sink, Store, Table};
use crate::queue::SchemaDeployment;
use crate::rules::{Lease, RetryPolicy};

/// The kind of outbox, one for each constructor of [`Outbox`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Composition {
    SingleNode,
    MultiNode,
    Ordered,
    WriterOnly,
}

/// Configures an outbox; [`OutboxBuilder::start`] reports all configuration problems at once.
#[must_use = "a builder does nothing until it is started"]
pub struct OutboxBuilder<S: Table> {
    composition: Composition,
    store: Arc<S>,
    /// The same store, if this outbox delivers; `None` if it only writes.
    delivers: Option<Arc<dyn Store>>,
    listeners: Listeners,
    registry: Option<Arc<dyn ListenerRegistry>>,
    sink: Option<Arc<dyn Sink>>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    tracker: Arc<dyn InFlightTracker>,
    metrics: Arc<dyn MetricsExporter>,
    settings: EngineSettings,
    lease: Option<Duration>,
    max_row_bytes: Option<usize>,
    purge: Option<PurgeSettings>,
    purger: Option<Arc<dyn EventPurger>>,
    writer: Writer<S>,
    seed: Option<u64>,
    deployment: SchemaDeployment,
    problems: Vec<SettingError>,
}

impl<S: Table> OutboxBuilder<S> {
    pub(super) fn new(composition: Composition, store: Arc<S>, delivers: Option<Arc<dyn Store>>) -> Self {
        let mut settings = EngineSettings { fetch_rows: 50, ..EngineSettings::default() };
        if composition == Composition::Ordered {
            settings.order = Order::PerGroup;
        }
        Self {
            composition,
            writer: Writer::new(Arc::clone(&store)),
            purge: delivers.is_some().then(PurgeSettings::default),
            purger: None,
            store,
            delivers,
            listeners: Listeners::new(),
            registry: None,
            sink: None,
            interceptors: Vec::new(),
            tracker: Arc::new(InFlightSet::new()),
            metrics: Arc::new(NoMetrics),
            settings,
            lease: None,
            max_row_bytes: None,
            seed: None,
            deployment: SchemaDeployment::Off,
            problems: Vec::new(),
        }
    }

    setters! {
        /// Number of listeners that run concurrently. Default: 4.
        workers(workers: usize) => settings.workers = workers;
        /// Capacity of the hot queue: committed events that are buffered in memory
        /// without a read. Default: 1000.
        hot_capacity(hot_capacity: usize) => settings.hot_rows = hot_capacity;
        /// Capacity of the cold queue: events read from the store that are buffered in memory. Default: 1000.
        cold_capacity(cold_capacity: usize) => settings.cold_rows = cold_capacity;
        /// Maximum size of all buffered events, hot and cold together, in bytes. Default: 64 MiB.
        buffer_bytes(buffer_bytes: usize) => settings.buffer_bytes = buffer_bytes;
        /// Number of failed attempts after which an event is dead. Default: 10.
        max_attempts(max_attempts: u32) => settings.max_attempts = max_attempts;
        /// In place of `max_attempts`: as many attempts as the retry policy makes in about this time.
        ///
        /// For days, use delays that grow further: `.retry(Exponential::patient()).give_up_after(…)`.
        give_up_after(time: Duration) => settings.give_up_after = Some(time);
        /// How long shutdown keeps delivering buffered events before it releases the rest. Default: 5 s.
        drain_timeout(drain_timeout: Duration) => settings.drain = drain_timeout;
        /// Deadline of one delivery; a delivery that exceeds it has failed. Default: 5 min.
        deadline(deadline: Duration) => settings.deadline = deadline;
        /// Maximum time between two reads when no wake-up arrives. Default: 5 s.
        poll_interval(poll_interval: Duration) => settings.poll_interval = poll_interval;
        /// Rows in the first page of a read; pages grow while more rows are pending. Default: 50.
        batch_size(batch_size: usize) => settings.fetch_rows = batch_size;
        /// Minimum age of a row before a read returns it. Default: zero.
        skip_recent(skip_recent: Duration) => settings.skip_recent = skip_recent;
        /// Whether delivered rows are kept or deleted. Default: keep.
        on_done(on_done: OnDone) => settings.on_done = on_done;
        /// Whether a dead event blocks its group; only applies to `ordered`. Default: block.
        on_dead(on_dead: OnDead) => settings.on_dead = on_dead;
        /// Receiver of counters and gauges. Default: none.
        metrics(metrics: Arc<dyn MetricsExporter>) => metrics = metrics;
        /// Replaces the in-flight tracker, which prevents concurrent deliveries
        /// of one event. Default: [`InFlightSet`].
        in_flight(in_flight: Arc<dyn InFlightTracker>) => tracker = in_flight;
    }

    /// Maximum size of a row in bytes, all columns together; a larger row is
    /// marked dead without being loaded.
    ///
    /// Must not be less than the largest row that a writer with this payload limit can write. Default: 16
    /// MiB, or more if the payload limit requires it.
    pub fn max_row_bytes(mut self, bytes: usize) -> Self {
        self.max_row_bytes = Some(bytes);
        self
    }

    /// Registers a closure that receives the events of one payload type: `.on(|placed: Placed, cx| async move { … })`.
    ///
    /// The payload's [`EventPayload`] names the event type. An event whose payload can't be read is dead at once, and
    /// its error names the field.
    pub fn on<P, F, Fut>(mut self, listener: F) -> Self
    where
        P: EventPayload + DeserializeOwned + Send + 'static,
        F: Fn(P, Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        if let Err(error) = self.listeners.register_on(listener) {
            self.problems.push(error.into());
        }
        self
    }

    /// Registers a listener for an event type.
    ///
    /// It receives events without an aggregate, and events of any aggregate type that has no
    /// listener for this event type.
    pub fn listener(mut self, event_type: impl EventType, listener: impl Listener) -> Self {
        if let Err(error) = self.listeners.register(event_type, listener) {
            self.problems.push(error.into());
        }
        self
    }

    /// Registers a listener for an event type of one aggregate type.
    pub fn listener_for(
        mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        listener: impl Listener,
    ) -> Self {
        if let Err(error) = self.listeners.register_for(aggregate_type, event_type, listener) {
            self.problems.push(error.into());
        }
        self
    }

    /// Uses a custom registry; listeners registered on this builder are then ignored.
    pub fn registry(mut self, registry: Arc<dyn ListenerRegistry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Registers a sink for an event type, in place of a listener. Its verdicts are used unchanged.
    pub fn sink(mut self, event_type: impl EventType, sink: Arc<dyn Sink>) -> Self {
        if let Err(error) = self.listeners.register_sink(event_type, sink) {
            self.problems.push(error.into());
        }
        self
    }

    /// Registers a sink for an event type of one aggregate type.
    pub fn sink_for(
        mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        sink: Arc<dyn Sink>,
    ) -> Self {
        if let Err(error) = self.listeners.register_sink_for(aggregate_type, event_type, sink) {
            self.problems.push(error.into());
        }
        self
    }

    /// Sends all events to one sink, in batches of at most this many events of one group.
    ///
    /// The sink replaces listeners and registry, so [`start`](Self::start) refuses an outbox that has both.
    /// Interceptors and the in-flight tracker do not run for it.
    pub fn sink_for_all(mut self, sink: Arc<dyn Sink>, batch: usize) -> Self {
        self.sink = Some(sink);
        self.settings.batch = batch;
        self
    }

    /// Adds an interceptor; `before` runs in the order of registration, `after` in reverse order.
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Adds several interceptors in this order, after those added before.
    pub fn interceptors(mut self, interceptors: impl IntoIterator<Item = Arc<dyn Interceptor>>) -> Self {
        self.interceptors.extend(interceptors);
        self
    }

    /// Adds a writer hook; hooks run in the order they were added.
    pub fn hook(mut self, hook: Arc<dyn WriterHook>) -> Self {
        self.writer = self.writer.hook(hook);
        self
    }

    /// Sets the source of the current trace context. Default: the trace of the current task.
    pub fn trace_source(mut self, source: Arc<dyn TraceSource>) -> Self {
        self.writer = self.writer.trace_source(source);
        self
    }

    /// Maximum payload size in bytes. Default: 1 MiB.
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.writer = self.writer.payload_limit(bytes);
        self
    }

    setters! {
        /// Backoff between attempts. Default: exponential from 200 ms to 60 s, with a jitter of ±50 %.
        retry(policy: impl RetryPolicy + 'static) => settings.retry = Arc::new(policy);
        /// Lease of this node: without a heartbeat for this long, other nodes evict it and take over its slots.
        ///
        /// Default: 15 s. `multi_node` has no default and requires it.
        lease(lease: Duration) => lease = Some(lease);
        /// Human-readable label of this node, such as host name and process id.
        label(label: impl Into<String>) => settings.label = label.into();
    }

    /// Takes no slots: this process delivers only the events it commits itself, by the hot path.
    ///
    /// It still reads its own events that did not fit into memory, and delayed and failed events when they
    /// are due. Not allowed with `ordered`, because grouped events are always read from slots.
    pub fn no_polling(mut self) -> Self {
        self.settings.reads = ReadScope::OwnLane;
        self
    }

    /// Retention of old events. Default: 7 days for done and 30 days for dead events;
    /// a writer-only outbox purges nothing.
    pub fn purge(mut self, settings: PurgeSettings) -> Self {
        self.purge = Some(settings);
        self
    }

    /// Deletes old events in another way than the store does; see [`EventPurger`]. The schedule stays.
    pub fn purger(mut self, purger: Arc<dyn EventPurger>) -> Self {
        self.purger = Some(purger);
        self
    }

    /// Disables the purge.
    pub fn no_purge(mut self) -> Self {
        self.purge = None;
        self
    }

    /// Creates the tables at the start, or upgrades them. Needs the rights to do so.
    ///
    /// Safe to repeat, also from several processes at once. Default: the start fails if the tables are missing or of
    /// an earlier release.
    pub fn migrate(mut self) -> Self {
        self.deployment = SchemaDeployment::On;
        self
    }

    /// Seed of jitter and node ids, for reproducible tests. Default: random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(super) fn problems(mut self, problems: Vec<Invalid>) -> Self {
        self.problems.extend(problems.into_iter().map(SettingError::from));
        self
    }

    fn check(&mut self) -> Result<(), StartError> {
        let mut problems = std::mem::take(&mut self.problems);
        let limits = self.writer.limits();
        self.settings.row_bytes = self.max_row_bytes.unwrap_or(limits.row_bytes());
        problems.extend(limits.too_small_for_rows(self.settings.row_bytes).map(SettingError::from));
        let delivers = self.delivers.is_some();
        if delivers && self.listeners.is_empty() && self.registry.is_none() && self.sink.is_none() {
            let hint = "register a listener, a registry or a sink";
            problems.push(Invalid::Missing { field: "listener", hint }.into());
        }
        if self.sink.is_some() && (!self.listeners.is_empty() || self.registry.is_some()) {
            problems.push(Invalid::Both { first: "sink_for_all", second: "a listener or registry" }.into());
        }
        match self.lease.map(Lease::new) {
            Some(Ok(lease)) => self.settings.lease = lease,
            Some(Err(invalid)) if problems.contains(&invalid.clone().into()) => {}
            Some(Err(invalid)) => problems.push(invalid.into()),
            None if self.composition == Composition::MultiNode => {
                let hint = "several nodes need lease(...): how long a silent one keeps its share";
                problems.push(Invalid::Missing { field: "lease", hint }.into());
            }
            None => {}
        }
        problems.extend(self.settings.problems().into_iter().map(SettingError::from));
        problems.extend(self.purge.iter().flat_map(PurgeSettings::problems).map(SettingError::from));
        let by_age = self.purge.as_ref().is_some_and(|purge| purge.keep_any.is_some());
        if by_age && delivers {
            let bound = "unset, but for writer only: it deletes events that were not delivered";
            problems.push(Invalid::range("purge keep_any", "set", bound).into());
        }
        if problems.is_empty() { Ok(()) } else { Err(StartError::Settings(problems)) }
    }

    /// Checks settings and tables, registers the node, and starts the workers and the purge schedule.
    pub async fn start(mut self) -> Result<Outbox<S>, StartError> {
        self.check()?;
        match self.deployment {
            SchemaDeployment::On => self.store.admin().migrate().await.map(drop)?,
            SchemaDeployment::Off => self.store.admin().check().await?,
        }
        let purger = match self.purge {
            Some(settings) => Some(
                Purger::with(
                    self.purger.unwrap_or_else(|| Arc::new(self.store) as Arc<dyn EventPurger>),
                    settings,
                )
                .map_err(|invalid| StartError::Settings(vec![SettingError::Invalid(invalid)]))?,
            ),
            None => None,
        };
        let mut writer = self.writer;
        let mut engine = None;
        if let Some(store) = self.delivers {
            let registry = self.registry.unwrap_or_else(|| Arc::new(self.listeners));
            let sink = self.sink.unwrap_or_else(|| {
                Arc::new(ListenerSink {
                    registry,
                    interceptors: self.interceptors,
                    tracker: self.tracker,
                    breakers: Default::default(),
                })
            });
            let seed = self.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
            let (table, metrics) = (store.into(), self.metrics);
            let parts = EngineParts { table, sink, metrics, settings: self.settings, seed };
            let started = Engine::start(parts).await?;
            writer = writer.with_engine(Arc::clone(started.shared()));
            engine = Some(started);
        }
        if let Some(purger) = &purger
            && let Err(error) = purger.start()
        {
            if let Some(engine) = &mut engine {
                engine.close().await;
            }
            return Err(error);
        }
        Ok(Outbox::new(writer, Parts { engine, purger }))
    }
}
