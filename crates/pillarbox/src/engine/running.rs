//! The running engine: owns its tasks and stops them in order.

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
use super::tasks::heartbeat_runtime::HeartbeatRuntime;
use super::tasks::{heartbeat, reader, settler, worker};
use crate::model::{NodeId, Slot};
use crate::port::{AnyTable, Heartbeat, MetricsExporter, ReadScope, Sink, StoreError};

/// Maximum time for the last settles and for leaving, after the drain.
const GRACE: Duration = Duration::from_secs(5);

/// Delay before a panicked task is restarted.
const RESTART: Duration = Duration::from_secs(1);

/// The delivery engine: reads events or receives them from a caller, delivers them to
/// a sink, and settles them.
///
/// The events API, the queue API and the relay are built on it.
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

/// The components of an engine.
pub struct EngineParts {
    /// Table that contains the events.
    pub table: AnyTable,
    /// Target of deliveries.
    pub sink: Arc<dyn Sink>,
    /// Receiver of counters and gauges.
    pub metrics: Arc<dyn MetricsExporter>,
    /// Limits, leases, retries and order.
    pub settings: EngineSettings,
    /// Seed of jitter and node ids. Never use the same seed twice outside of tests: node ids would collide.
    pub seed: u64,
}

/// A snapshot of an engine's state, for health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineHealth {
    /// Whether its node is registered and its lease has not expired.
    pub member: bool,
    /// The node, while it is registered.
    pub node: Option<NodeId>,
    /// Whether it holds the first slot. At most one engine of a table does, so it can run tasks
    /// that only one should run.
    pub first: bool,
    /// Number of slots it holds, without lanes. For a table of items: 1 if it leads.
    pub slots: usize,
    /// Whether the circuit breaker is open, because the endpoint failed.
    pub breaker_open: bool,
    /// Time until the next event that waits for the endpoint or for a retry is sent, if known.
    pub next_attempt: Option<Duration>,
    /// Number of events in memory, queued or being delivered.
    pub in_memory: usize,
    /// Number of batches being delivered.
    pub out: usize,
    /// Number of tasks that panicked and were restarted. If it is not zero, check the log.
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

    /// Starts workers and settler, for events that a caller passes in.
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

    /// Registers a node, then starts all tasks.
    pub(crate) async fn node(shared: Arc<Shared>) -> Result<Self, StoreError> {
        if let AnyTable::Items(_) = shared.table {
            shared.with(|core| core.read_from(LeaderSource::default()));
        }
        let heart = HeartbeatRuntime::here();
        let registering = Arc::clone(&shared);
        let registered = heart.call(async move { heartbeat::register(&registering).await }).await;
        let (node, membership) = registered.unwrap_or_else(|| Err(shared.panicked("register")))?;
        let mut running = Self::dispatcher(Arc::clone(&shared));
        if shared.table.facts().concurrent_settles {
            running.settle_two_at_once();
        }
        heart.watch(&running.tracker, running.stop_renewing.clone());
        let stop = running.stop_renewing.clone();
        // Here and not in the heartbeat's task: the store may begin to listen, on the runtime that asks.
        let departures = match shared.settings.reads {
            ReadScope::Share => shared.table.departures(),
            ReadScope::OwnLane => None,
        };
        let renewing = heartbeat::run(Arc::clone(&shared), heart.clone(), stop, node, membership, departures);
        let member = heart.spawn(&running.tracker, renewing);
        running.loops.push(member.abort_handle());
        running.member = Some(member);
        let stop = running.stop_reading.clone();
        let reading = move |shared| reader::run(shared, stop.clone());
        let reading = running.tracker.spawn(lasting(shared, "reader", reading));
        running.loops.push(reading.abort_handle());
        Ok(running)
    }

    /// Starts the second settler.
    fn settle_two_at_once(&mut self) {
        self.shared.with(Core::settle_two_at_once);
        let (stop, give) = (self.stop_settling.clone(), self.give_up.clone());
        let settling = move |shared| settler::run_second(shared, stop.clone(), give.clone());
        let settling = self.tracker.spawn(lasting(Arc::clone(&self.shared), "second settler", settling));
        self.loops.push(settling.abort_handle());
    }

    /// Returns the current state of the engine.
    #[must_use]
    pub fn health(&self) -> EngineHealth {
        self.shared.with(|core| core.health(Instant::now()))
    }

    /// Reloads group state from the store now instead of at the next heartbeat.
    pub fn refresh_groups(&self) {
        self.shared.heartbeat.notify_one();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Stops reading, drains for at most the drain time, settles, releases the rest,
    /// and removes the node. Idempotent.
    pub async fn close(&mut self) {
        if self.closed {
            return;
        }
        self.stop_reading.cancel();
        self.shared.with(Core::drain);
        let deadline = Instant::now() + self.shared.settings.drain;
        self.until_drained(deadline).await;
        let trusted = self.shared.with(|core| {
            // Computed before `give_back`: afterwards untried quarantined events are no longer in memory, and
            // their slots would wrongly count as trusted.
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

    async fn until_drained(&self, deadline: Instant) {
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

    /// Removes the node's row, which frees its slots immediately. Runs last, because the
    /// row fences the node's settles.
    async fn leave(&mut self, trusted: Vec<Slot>, end: Instant) {
        let Some(member) = self.member.take() else {
            return;
        };
        let Ok(Ok(Some(node))) = timeout_at(end, member).await else {
            return;
        };
        if !trusted.is_empty() {
            // Without this, processes that end before their first heartbeat would
            // pass a quarantine on forever.
            let last =
                Heartbeat { trusted, ..self.shared.with(|core| core.next_heartbeat(node, Instant::now())) };
            if !matches!(timeout_at(end, self.shared.table.heartbeat(last)).await, Ok(Ok(_))) {
                tracing::warn!(
                    "the last heartbeat failed: the next holder of these slots quarantines their events again"
                );
            }
        }
        // The server may have closed the connection that the call finds first.
        let leave = async {
            match self.shared.table.leave(node).await {
                Err(error) if error.is_transient() => self.shared.table.leave(node).await,
                left => left,
            }
        };
        match timeout_at(end, leave).await {
            Ok(Ok(())) => tracing::info!(%node, "node left"),
            Ok(Err(error)) => tracing::warn!(%error, "leaving failed: the lease expires by itself"),
            Err(_) => tracing::warn!("leaving took too long: the lease expires by itself"),
        }
    }
}

/// Runs a task to its end. After a panic it resets the engine's state and restarts the task.
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

/// Aborts all tasks if `close` did not complete. Rows stay pending, and other nodes take
/// over when the lease expires.
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
