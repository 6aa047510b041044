//! The worker: runs the handlers of its topics on the messages of one or many databases.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::SchemaDeployment;
use super::handle::BATCH_MAX;
use super::handler::{Handler, Handlers};
use super::select::{RoundRobin, Selection};
use super::supervisor::{Idleness, Supervisor};
use super::unhandled::Unhandled;
use super::{Databases, Queue};
use crate::engine::{EngineSettings, RouteBreakers, Sizing};
use crate::events::{PurgeSettings, StartError};
use crate::model::{EVENT_TYPE_MAX, EventType, Invalid, Limits, OwnerId, limits};
use crate::port::{MetricsExporter, NoMetrics, OnDone, Store};
use crate::rules::{Doubling, Lease, RetryPolicy};

/// How long messages without a handler are retried. Workers claim only topics that they handle; if a store
/// ignores the filter, the messages of other topics must not die here.
const UNCLAIMED: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Maximum number of messages in memory if it follows the handlers. More would make claims slower, because each has to pass
/// over all that are claimed.
const DEFAULT_MEMORY: usize = 2_000;
/// Maximum number of messages per claim in that case.
const DEFAULT_BATCH: usize = 1_000;

/// The settings that all databases of a worker share.
pub(super) struct Plan {
    pub(super) handlers: Arc<Handlers>,
    pub(super) unhandled: Unhandled,
    /// Circuit breakers by topic. All databases share them, because a handler has
    /// the same dependencies for each.
    pub(super) breakers: Arc<RouteBreakers>,
    pub(super) owner: OwnerId,
    pub(super) lease: Lease,
    pub(super) batch: usize,
    pub(super) sizing: Sizing,
    pub(super) poll: Duration,
    pub(super) idle_poll: Option<Duration>,
    pub(super) settings: EngineSettings,
    /// Retention of old messages; `None` disables the purge.
    pub(super) purge: Option<PurgeSettings>,
    /// What the worker does with the tables of its databases, if not what each queue does.
    pub(super) deployment: Option<SchemaDeployment>,
    pub(super) metrics: Arc<dyn MetricsExporter>,
    /// Cancelled when the worker shuts down.
    pub(super) stop: CancellationToken,
}

impl Plan {
    /// Returns a random seed, so that each database has its own jitter.
    pub(super) fn seed(&self) -> u64 {
        Uuid::new_v4().as_u64_pair().0
    }
}

/// Configures a [`Worker`]; [`WorkerBuilder::start`] reports all configuration problems at once.
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder<S: Store> {
    databases: Databases<S>,
    handlers: Handlers,
    owner: Option<OwnerId>,
    lease: Duration,
    batch: Option<usize>,
    poll: Duration,
    idle_poll: Option<Duration>,
    deadline: Option<Duration>,
    settings: EngineSettings,
    purge: Option<PurgeSettings>,
    deployment: Option<SchemaDeployment>,
    metrics: Arc<dyn MetricsExporter>,
    selection: Box<dyn Selection>,
    problems: Vec<Invalid>,
}

impl<S: Store> Queue<S> {
    /// Configures a worker on this queue. It inherits the queue's retry policy and `on_done` setting.
    pub fn worker(&self) -> WorkerBuilder<S> {
        let mut builder = WorkerBuilder::new(Databases::one(self.clone()));
        (builder.settings.retry, builder.settings.on_done) = self.settling();
        builder
    }
}

impl<S: Store> WorkerBuilder<S> {
    pub(super) fn new(databases: Databases<S>) -> Self {
        let settings = EngineSettings {
            retry: Arc::new(Doubling::default()),
            no_route_grace: UNCLAIMED,
            ..EngineSettings::default()
        };
        Self {
            databases,
            handlers: Handlers::default(),
            owner: None,
            lease: Duration::from_secs(30),
            batch: None,
            poll: Duration::from_millis(500),
            idle_poll: None,
            deadline: None,
            settings,
            purge: Some(PurgeSettings::default()),
            deployment: None,
            metrics: Arc::new(NoMetrics),
            selection: Box::new(RoundRobin::default()),
            problems: Vec::new(),
        }
    }

    /// Registers the handler of a topic. Each topic has at most one handler.
    ///
    /// Messages of topics without a handler stay pending for other workers, and the worker logs a warning.
    pub fn handler(mut self, topic: impl EventType, handler: impl Handler) -> Self {
        let topic = topic.name().into_owned();
        if let Err(invalid) = limits::name("topic", &topic, EVENT_TYPE_MAX) {
            self.problems.push(invalid);
        } else if self.handlers.by_topic.contains_key(&topic) {
            let reason = format!("a handler for the topic {topic} is registered already");
            self.problems.push(Invalid::Malformed { field: "topic", reason });
        }
        self.handlers.by_topic.insert(topic, Arc::new(handler));
        self
    }

    setters! {
        /// Registers the handler of all topics without their own handler. A second
        /// call replaces the first handler.
        handler_for_all(handler: impl Handler) => handlers.fallback = Some(Arc::new(handler));
        /// Sets the owner of its claims, such as host name and process id.
        ///
        /// Two concurrent workers must never have the same owner. Default: random.
        owner(owner: OwnerId) => owner = Some(owner);
        /// Lease of a claim: how long it is valid without renewal. Default: 30 s.
        lease(lease: Duration) => lease = lease;
        /// Maximum number of messages per claim, and in memory, for each database.
        ///
        /// Default: as many as the handlers finish in about 0.1 s, or in a tenth of the lease if that is less. That is at
        /// least two for each handler that runs concurrently, and at most 2,000 in memory and 1,000 per claim.
        batch(batch: usize) => batch = Some(batch);
        /// Number of handlers that run concurrently for each database. Default: 4.
        workers(workers: usize) => settings.workers = workers;
        /// Maximum size of a message in bytes, all columns together; a larger message is
        /// marked dead without being loaded.
        ///
        /// The worker raises it to the largest row that the queue's writer can write. Default: 16 MiB.
        max_row_bytes(bytes: usize) => settings.row_bytes = bytes;
        /// Time until the next poll of an empty queue, unless a wake-up arrives earlier. Default: 0.5 s.
        poll_interval(interval: Duration) => poll = interval;
        /// Time between two polls of an idle queue, whose last 10 polls were empty.
        ///
        /// The connections of an idle queue are closed if they can be opened again. Default: 5 s, or 0.8 s
        /// if the connections stay open.
        idle_poll_interval(interval: Duration) => idle_poll = Some(interval);
        /// Deadline of a handler; a handler that exceeds it has failed. May exceed the lease: claims
        /// are renewed while it runs.
        ///
        /// Default: seven eighths of the lease.
        deadline(deadline: Duration) => deadline = Some(deadline);
        /// Number of failed attempts after which a message is dead. Default: 10.
        max_attempts(attempts: u32) => settings.max_attempts = attempts;
        /// In place of `max_attempts`: as many attempts as the retry policy makes in about this time.
        ///
        /// For days, use delays that grow further: `.retry(Doubling::patient()).give_up_after(…)`.
        give_up_after(time: Duration) => settings.give_up_after = Some(time);
        /// Backoff between attempts. Default: 2, 4, 8 … up to 60 s.
        retry(policy: impl RetryPolicy + 'static) => settings.retry = Arc::new(policy);
        /// Whether done messages are kept or deleted. Default: kept until the purge.
        on_done(on_done: OnDone) => settings.on_done = on_done;
        /// Retention of old events and messages. Default: 7 days for done and 30 days for dead ones.
        ///
        /// One process at a time purges a database. Steps of pending joins are kept. The first run starts after
        /// one interval, but at most a minute after the start.
        purge(settings: PurgeSettings) => purge = Some(settings);
        /// Whether the worker creates and upgrades the tables of its databases before it claims from them.
        /// Other users of the queue or the set are not affected. Default: as the queue or the set says.
        schema_deployment(deployment: SchemaDeployment) => deployment = Some(deployment);
    }

    /// Disables the purge.
    pub fn no_purge(mut self) -> Self {
        self.purge = None;
        self
    }

    setters! {
        /// How long shutdown waits for handlers before it releases the remaining messages. Default: 5 s.
        drain_timeout(drain: Duration) => settings.drain = drain;
        /// Receiver of counters and gauges. Default: none.
        metrics(metrics: Arc<dyn MetricsExporter>) => metrics = metrics;
        /// Order in which databases are polled. Default: [`RoundRobin`].
        selection(selection: impl Selection) => selection = Box::new(selection);
    }

    fn check(&mut self) -> Result<Plan, StartError> {
        let mut problems = std::mem::take(&mut self.problems);
        if self.handlers.is_empty() {
            problems
                .push(Invalid::Missing { field: "handler", hint: "register one for each topic, or for all" });
        }
        let batch = self.batch.unwrap_or(DEFAULT_BATCH);
        if !(1..=BATCH_MAX).contains(&batch) {
            problems.push(Invalid::range("batch", batch, format!("1 to {BATCH_MAX}")));
        }
        let idle = self.idle_poll.unwrap_or(self.poll);
        for (field, interval) in [("poll interval", self.poll), ("idle poll interval", idle)] {
            if interval < Duration::from_millis(1) {
                problems.push(Invalid::range(field, format!("{interval:?}"), "1ms or more"));
            }
        }
        let lease = Lease::new(self.lease).unwrap_or_else(|invalid| {
            problems.push(invalid);
            Lease::default()
        });
        let mut settings = self.settings.clone();
        settings.deadline = self.deadline.unwrap_or(lease.usable_for());
        settings.cold_rows = self.batch.unwrap_or(DEFAULT_MEMORY).max(1);
        settings.fetch_rows = batch.max(1);
        problems.extend(settings.problems());
        problems.extend(self.purge.iter().flat_map(PurgeSettings::problems));
        if self.purge.as_ref().is_some_and(|purge| purge.keep_any.is_some()) {
            problems.push(Invalid::range(
                "purge keep_any",
                "set",
                "unset: it deletes messages that were not handled",
            ));
        }
        problems.extend(Limits::default().too_small_for_rows(settings.row_bytes));
        if !problems.is_empty() {
            return Err(StartError::Settings(problems.into_iter().map(Into::into).collect()));
        }
        let handlers = std::mem::take(&mut self.handlers);
        let plan = Plan {
            unhandled: Unhandled::new(handlers.topics()),
            handlers: Arc::new(handlers),
            breakers: Arc::default(),
            owner: self.owner.take().unwrap_or_else(OwnerId::random),
            lease,
            batch,
            sizing: if self.batch.is_some() { Sizing::Fixed } else { Sizing::FollowsHandlers },
            poll: self.poll,
            idle_poll: self.idle_poll,
            settings,
            purge: self.purge.take(),
            deployment: self.deployment,
            metrics: Arc::clone(&self.metrics),
            stop: CancellationToken::new(),
        };
        Ok(plan)
    }

    /// Checks the settings and starts the worker. An unreachable database is retried and
    /// does not affect the others.
    pub fn start(mut self) -> Result<Worker, StartError> {
        let plan = self.check()?;
        let (stop, owner) = (plan.stop.clone(), plan.owner.clone());
        let (publish, idleness) = watch::channel(Idleness::Busy);
        let supervisor = Supervisor::new(self.databases, plan, self.selection, stop.clone(), publish);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and close waits for it")]
        let task = tokio::spawn(supervisor.run());
        Ok(Worker { owner, stop, idleness, task: tokio::sync::Mutex::new(Some(task)) })
    }
}

/// A running worker. Dropping it stops new claims; call [`Worker::close`] to wait for its handlers.
pub struct Worker {
    owner: OwnerId,
    stop: CancellationToken,
    idleness: watch::Receiver<Idleness>,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// Owner of its claims.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Waits until no message is in memory and each database has been polled at least once.
    pub async fn wait_idle(&self) {
        self.wait_for(Idleness::Idle).await;
    }

    /// Waits until no message is in memory and the last poll of each database found no due message.
    ///
    /// Does not wait for delayed messages, pending retries or messages that another owner has claimed.
    pub async fn wait_drained(&self) {
        self.wait_for(Idleness::Drained).await;
    }

    async fn wait_for(&self, least: Idleness) {
        // The only error is a closed channel: the worker has ended and stays idle.
        let _ = self.idleness.clone().wait_for(|idleness| *idleness >= least).await;
    }

    /// Waits until this future ends, such as a signal or a server that stops on one, and closes the worker.
    pub async fn run_until<F: IntoFuture>(&self, end: F) -> F::Output {
        let output = end.into_future().await;
        self.close().await;
        output
    }

    /// Stops claiming, waits for handlers for at most the drain time, then
    /// releases the remaining messages. Idempotent.
    pub async fn close(&self) {
        self.stop.cancel();
        let task = self.task.lock().await.take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("the worker panicked");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
