//! A running engine: owns its loops, and closes them in order.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::core::Core;
use super::shared::Shared;
use super::sources::LeaderSource;
use super::state::settings::EngineSettings;
use super::tasks::caught::caught;
use super::tasks::heart::Heart;
use super::tasks::{heartbeat, reader, settler, worker};
use crate::model::{NodeId, Slot};
use crate::port::{AnyTable, Heartbeat, MetricsExporter, Sink, StoreError};

/// How long the last settles and leaving may take beyond the drain.
const GRACE: Duration = Duration::from_secs(5);

/// A task that panicked is restarted after this.
const RESTART: Duration = Duration::from_secs(1);

/// The engine: reads or is handed events, delivers them to a sink, settles. The doors are built on it.
pub struct Engine {
    shared: Arc<Shared>,
    tracker: TaskTracker,
    stop_reading: CancellationToken,
    stop_settling: CancellationToken,
    give_up: CancellationToken,
    stop_renewing: CancellationToken,
    member: Option<JoinHandle<Option<NodeId>>>,
    workers: Vec<AbortHandle>,
    loops: Vec<AbortHandle>,
    closed: bool,
}

/// What an engine is made of.
pub struct EngineParts {
    /// Where events are.
    pub table: AnyTable,
    /// Where they go.
    pub sink: Arc<dyn Sink>,
    /// What is counted.
    pub metrics: Arc<dyn MetricsExporter>,
    /// Limits, leases, retries and order.
    pub settings: EngineSettings,
    /// The seed of all randomness: jitter and node ids. Never use one twice outside of tests.
    pub seed: u64,
}

/// How an engine is, at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineHealth {
    /// Whether its node is registered and its lease has not expired.
    pub member: bool,
    /// The node, while it is registered.
    pub node: Option<NodeId>,
    /// Whether it holds the first slot. One of the engines that share a table does: work that only one should do is its work.
    pub first: bool,
    /// How many slots it holds, its own lane not counted; where rows are taken under leadership: 1 if it leads.
    pub slots: usize,
    /// Whether nothing is sent for now, because the endpoint failed.
    pub breaker_open: bool,
    /// How long until something is sent that waits for the endpoint or for a retry, if it is known.
    pub next_attempt: Option<Duration>,
    /// Events in memory: waiting or out.
    pub in_memory: usize,
    /// Batches being delivered.
    pub out: usize,
    /// How often one of its tasks panicked and was restarted. Anything but zero is worth a look at the log.
    pub restarts: u64,
}

impl EngineParts {
    pub(crate) fn shared(self) -> Arc<Shared> {
        Shared::new(Core::new(self.settings, self.seed), self.table, self.sink, self.metrics)
    }
}

impl Engine {
    /// Registers a node with the store and delivers the rows of its slots.
    pub async fn start(parts: EngineParts) -> Result<Self, StoreError> {
        parts.settings.validate()?;
        Self::node(parts.shared()).await
    }

    /// Starts workers and settler; events are handed in.
    pub(crate) fn dispatcher(shared: Arc<Shared>) -> Self {
        let tracker = TaskTracker::new();
        let workers = shared.settings.workers;
        let workers =
            (0..workers).map(|_| tracker.spawn(lasting(Arc::clone(&shared), "worker", worker::run)));
        let workers = workers.map(|worker| worker.abort_handle()).collect();
        let stop_settling = CancellationToken::new();
        let give_up = CancellationToken::new();
        let (stop, give) = (stop_settling.clone(), give_up.clone());
        let settling = move |shared| settler::run(shared, stop.clone(), give.clone());
        let settling = tracker.spawn(lasting(Arc::clone(&shared), "settler", settling));
        Self {
            shared,
            tracker,
            stop_reading: CancellationToken::new(),
            stop_settling,
            give_up,
            stop_renewing: CancellationToken::new(),
            member: None,
            workers,
            loops: vec![settling.abort_handle()],
            closed: false,
        }
    }

    /// Registers a node, then starts everything.
    pub(crate) async fn node(shared: Arc<Shared>) -> Result<Self, StoreError> {
        if let AnyTable::Items(_) = shared.table {
            shared.with(|core| core.read_from(LeaderSource::default()));
        }
        let heart = Heart::here();
        let joining = Arc::clone(&shared);
        let joined = heart.call(async move { heartbeat::join(&joining).await }).await;
        let (node, membership) = joined.unwrap_or_else(|| Err(shared.panicked("join")))?;
        let mut running = Self::dispatcher(Arc::clone(&shared));
        heart.watch(&running.tracker, running.stop_renewing.clone());
        let stop = running.stop_renewing.clone();
        let renewing = heartbeat::run(Arc::clone(&shared), heart.clone(), stop, node, membership);
        let member = heart.spawn(&running.tracker, renewing);
        running.loops.push(member.abort_handle());
        running.member = Some(member);
        let stop = running.stop_reading.clone();
        let reading = move |shared| reader::run(shared, stop.clone());
        let reading = running.tracker.spawn(lasting(shared, "reader", reading));
        running.loops.push(reading.abort_handle());
        Ok(running)
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> EngineHealth {
        self.shared.with(|core| core.health(Instant::now()))
    }

    /// Reloads group state from the store now instead of at the next heartbeat.
    pub fn look(&self) {
        self.shared.heartbeat.notify_one();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Stops intake, drains to the deadline, settles, gives the rest back, and leaves.
    pub async fn close(&mut self) {
        if self.closed {
            return;
        }
        self.stop_reading.cancel();
        self.shared.with(Core::drain);
        let deadline = Instant::now() + self.shared.settings.drain;
        self.until_quiet(deadline).await;
        let trusted = self.shared.with(|core| {
            // Told before what has not been tried leaves memory.
            let trusted = core.trusted();
            core.stop();
            core.give_back(Instant::now());
            trusted
        });
        (0..self.workers.len()).for_each(|_| self.shared.work.notify_one());
        self.shared.work.notify_waiters();
        if Instant::now() >= deadline {
            self.workers.iter().for_each(AbortHandle::abort);
        }
        self.stop_settling.cancel();
        let end = Instant::now() + GRACE;
        self.until_settled(end).await;
        self.give_up.cancel();
        self.stop_renewing.cancel();
        self.leave(trusted, end).await;
        self.tracker.close();
        if timeout_at(end, self.tracker.wait()).await.is_err() {
            tracing::warn!("some tasks did not end in time");
            self.workers.iter().for_each(AbortHandle::abort);
        }
        self.closed = true;
    }

    async fn until_quiet(&self, deadline: Instant) {
        while !self.shared.with(|core| core.is_drained(Instant::now())) {
            if timeout_at(deadline, self.shared.drained.notified()).await.is_err() {
                return;
            }
        }
    }

    async fn until_settled(&self, end: Instant) {
        while !self.shared.with(|core| core.all_settled()) {
            if timeout_at(end, self.shared.drained.notified()).await.is_err() {
                return;
            }
        }
    }

    /// The node's row goes last, when its settles are through: its slots are free at once.
    async fn leave(&mut self, trusted: Vec<Slot>, end: Instant) {
        let Some(member) = self.member.take() else {
            return;
        };
        let Ok(Ok(Some(node))) = timeout_at(end, member).await else {
            return;
        };
        if !trusted.is_empty() {
            // Without this, processes that end before their first heartbeat would pass a quarantine on for ever.
            let last =
                Heartbeat { trusted, ..self.shared.with(|core| core.next_heartbeat(node, Instant::now())) };
            if !matches!(timeout_at(end, self.shared.table.heartbeat(last)).await, Ok(Ok(_))) {
                tracing::warn!(
                    "the last heartbeat failed: the next holder of these slots quarantines their events again"
                );
            }
        }
        match timeout_at(end, self.shared.table.leave(node)).await {
            Ok(Ok(())) => tracing::info!(%node, "node left"),
            Ok(Err(error)) => tracing::warn!(%error, "leaving failed: the lease runs out by itself"),
            Err(_) => tracing::warn!("leaving took too long: the lease runs out by itself"),
        }
    }
}

/// Runs a task to its end. One that panics is restarted, and the engine with it.
async fn lasting<F, Fut>(shared: Arc<Shared>, name: &'static str, run: F)
where
    F: Fn(Arc<Shared>) -> Fut,
    Fut: Future<Output = ()>,
{
    while let Err(panic) = caught(run(Arc::clone(&shared))).await {
        shared.restart(name, &panic);
        sleep(RESTART).await;
    }
}

/// Without a close that came to its end: intake stops, rows stay pending, the lease runs out.
impl Drop for Engine {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        tracing::warn!("dropped without close: what is in memory stays pending");
        self.shared.with(|core| core.stop());
        self.workers.iter().chain(&self.loops).for_each(AbortHandle::abort);
    }
}
