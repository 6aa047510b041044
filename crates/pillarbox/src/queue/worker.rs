//! A worker: handlers by topic, at work for one database or many.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::handle::BATCH_MAX;
use super::handler::{Handler, Handlers};
use super::select::{RoundRobin, Selection};
use super::supervisor::{Idleness, Supervisor};
use super::unhandled::Unhandled;
use super::{Databases, Queue};
use crate::engine::{EngineSettings, RouteBreakers};
use crate::events::{PurgeSettings, StartError};
use crate::model::{EVENT_TYPE_MAX, EventType, Invalid, Limits, OwnerId, limits};
use crate::port::{MetricsExporter, NoMetrics, OnDone, Store};
use crate::rules::{Doubling, Lease, RetryPolicy};

/// Only topics with a handler are claimed. Where a store does not keep to that, nothing dies of it.
const UNCLAIMED: Duration = Duration::from_secs(365 * 24 * 3_600);

/// What all databases of a worker have in common.
pub(super) struct Plan {
    pub(super) handlers: Arc<Handlers>,
    pub(super) unhandled: Unhandled,
    /// What a topic's handler needs is the same for every database.
    pub(super) breakers: Arc<RouteBreakers>,
    pub(super) owner: OwnerId,
    pub(super) lease: Lease,
    pub(super) batch: usize,
    pub(super) poll: Duration,
    pub(super) idle_poll: Option<Duration>,
    pub(super) settings: EngineSettings,
    /// What old messages are deleted, and when; none: nothing.
    pub(super) purge: Option<PurgeSettings>,
    pub(super) metrics: Arc<dyn MetricsExporter>,
}

impl Plan {
    /// Jitter of its own for each database.
    pub(super) fn seed(&self) -> u64 {
        Uuid::new_v4().as_u64_pair().0
    }
}

/// Sets up a worker.
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder<S: Store> {
    databases: Databases<S>,
    handlers: Handlers,
    owner: Option<OwnerId>,
    lease: Duration,
    batch: usize,
    poll: Duration,
    idle_poll: Option<Duration>,
    deadline: Option<Duration>,
    settings: EngineSettings,
    purge: Option<PurgeSettings>,
    metrics: Arc<dyn MetricsExporter>,
    selection: Box<dyn Selection>,
    problems: Vec<Invalid>,
}

impl<S: Store> Queue<S> {
    /// A worker on this queue. It retries and ends messages as the queue is set to, unless told otherwise.
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
            batch: 50,
            poll: Duration::from_millis(500),
            idle_poll: None,
            deadline: None,
            settings,
            purge: Some(PurgeSettings::default()),
            metrics: Arc::new(NoMetrics),
            selection: Box::new(RoundRobin::default()),
            problems: Vec::new(),
        }
    }

    /// The handler of a topic; one for each. Messages of topics without one are left for other workers, with a warning.
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

    /// The handler of every topic that has none of its own. The last one that is set counts.
    pub fn handler_for_all(mut self, handler: impl Handler) -> Self {
        self.handlers.fallback = Some(Arc::new(handler));
        self
    }

    /// Who its claims belong to, such as host and process. Never the same for two workers at once. Default: random.
    pub fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = Some(owner);
        self
    }

    /// How long a claim holds without renewal. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Most messages claimed at once, and held in memory, for each database. Default: 50.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Handlers that run at once, for each database. Default: 4.
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// A message of more bytes than this, all columns together, is set aside as dead without being loaded. Never below what
    /// the queue's writer can leave. Default: 16 MiB.
    pub fn max_row_bytes(mut self, bytes: usize) -> Self {
        self.settings.row_bytes = bytes;
        self
    }

    /// How soon an empty queue is polled again. Default: 0.5 s, where nothing tells sooner.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// How soon a queue is polled again that has been empty for a while; its connections are closed, if others can
    /// be made. Default: 5 s, or 0.8 s where they are kept.
    pub fn idle_poll_interval(mut self, interval: Duration) -> Self {
        self.idle_poll = Some(interval);
        self
    }

    /// A handler that takes longer has failed. Default: seven eighths of the lease; claims are renewed while it runs.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Attempts before a message is dead. Default: 10.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// How long to wait between attempts. Default: 2, 4, 8 … up to 60 s.
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.settings.retry = Arc::new(policy);
        self
    }

    /// What happens to messages that are done. Default: kept until purge.
    pub fn on_done(mut self, on_done: OnDone) -> Self {
        self.settings.on_done = on_done;
        self
    }

    /// What old events and messages are deleted, and when, in one process at a time. Steps of joins that have not ended stay. The first
    /// run comes a minute after the start. Default: done ones after 7 days, dead ones after 30.
    pub fn purge(mut self, settings: PurgeSettings) -> Self {
        self.purge = Some(settings);
        self
    }

    /// Deletes nothing.
    pub fn no_purge(mut self) -> Self {
        self.purge = None;
        self
    }

    /// How long closing waits for handlers. Default: 5 s.
    pub fn drain_timeout(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// What counts go to. Default: nothing.
    pub fn metrics(mut self, metrics: Arc<dyn MetricsExporter>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Which database is polled next. Default: one batch from each in turn.
    pub fn selection(mut self, selection: impl Selection) -> Self {
        self.selection = Box::new(selection);
        self
    }

    fn check(&mut self) -> Result<Plan, StartError> {
        let mut problems = std::mem::take(&mut self.problems);
        if self.handlers.is_empty() {
            problems
                .push(Invalid::Missing { field: "handler", hint: "register one for each topic, or for all" });
        }
        if !(1..=BATCH_MAX).contains(&self.batch) {
            problems.push(Invalid::range("batch", self.batch, format!("1 to {BATCH_MAX}")));
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
        settings.cold_rows = self.batch.max(1);
        settings.fetch_rows = self.batch.max(1);
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
            batch: self.batch,
            poll: self.poll,
            idle_poll: self.idle_poll,
            settings,
            purge: self.purge.take(),
            metrics: Arc::clone(&self.metrics),
        };
        Ok(plan)
    }

    /// Checks everything, then starts. A database that can't be reached does not stop the others: it is tried again.
    pub fn start(mut self) -> Result<Worker, StartError> {
        let plan = self.check()?;
        let stop = CancellationToken::new();
        let owner = plan.owner.clone();
        let (publish, idleness) = watch::channel(Idleness::Busy);
        let supervisor = Supervisor::new(self.databases, plan, self.selection, stop.clone(), publish);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and close waits for it")]
        let task = tokio::spawn(supervisor.run());
        Ok(Worker { owner, stop, idleness, task: tokio::sync::Mutex::new(Some(task)) })
    }
}

/// A worker at work.
pub struct Worker {
    owner: OwnerId,
    stop: CancellationToken,
    idleness: watch::Receiver<Idleness>,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// Who its claims belong to.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Waits until no message is in memory and each database was polled at least once.
    pub async fn wait_idle(&self) {
        self.wait_for(Idleness::Idle).await;
    }

    /// Waits until each database was polled with nothing in memory, and had no message that is due. Messages that wait for
    /// their time, for a retry or for another owner's lease to end are not waited for.
    pub async fn wait_drained(&self) {
        self.wait_for(Idleness::Drained).await;
    }

    async fn wait_for(&self, least: Idleness) {
        // A worker that has ended is idle for good.
        let _ = self.idleness.clone().wait_for(|idleness| *idleness >= least).await;
    }

    /// Claims nothing more, lets handlers end within the drain time, gives the rest back. Harmless when repeated.
    pub async fn close(&self) {
        self.stop.cancel();
        let task = self.task.lock().await.take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("the worker ended by a panic");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
