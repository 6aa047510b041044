//! The engine and claimer of one database, while a worker is connected to it.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Queue;
use super::handler::{QueueSink, route_of};
use super::worker::Plan;
use crate::engine::{Claimer, Engine, EngineParts, EngineSettings, HeartbeatRuntime, Shared};
use crate::port::{ClaimFrom, Store, StoreError};

/// Tells the supervisor that a poll of this database may find messages.
#[derive(Debug, Clone)]
pub(super) struct Signal {
    pub(super) name: String,
}

/// The engine, claimer and background tasks of one database.
pub(super) struct DatabaseWorker {
    claimer: Arc<Claimer>,
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    engine: Mutex<Engine>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl DatabaseWorker {
    /// Starts the engine, the renewal of claims, and the forwarding of wake-ups to `signals`.
    pub(super) fn open<S: Store>(
        name: &str,
        queue: &Queue<S>,
        plan: &Plan,
        signals: mpsc::Sender<Signal>,
    ) -> Arc<Self> {
        let sink = QueueSink {
            handlers: Arc::clone(&plan.handlers),
            owner: plan.owner.clone(),
            store: name.to_owned(),
            breakers: Arc::clone(&plan.breakers),
            wakeup: queue.wakeup().clone(),
            stop: plan.stop.clone(),
        };
        let store = Arc::clone(queue.store()) as Arc<dyn Store>;
        let parts = EngineParts {
            table: Arc::clone(&store).into(),
            sink: Arc::new(sink),
            metrics: Arc::clone(&plan.metrics),
            settings: EngineSettings {
                row_bytes: plan.settings.row_bytes.max(queue.limits().largest_row()),
                ..plan.settings.clone()
            },
            seed: plan.seed(),
        };
        let shared = parts.shared();
        // Stores can have equal names, so logs use the database's name.
        shared.name.get_or_init(|| name.to_owned());
        let (owner, lease) = (plan.owner.clone(), plan.lease);
        let claimer = Claimer::new(
            Arc::clone(&shared),
            Arc::clone(&store),
            owner,
            lease,
            ClaimFrom::Queue,
            plan.sizing,
        );
        let claimer = Arc::new(claimer);
        let engine = Mutex::new(Engine::dispatcher(Arc::clone(&shared)));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let heart = HeartbeatRuntime::here();
        heart.watch(&tasks, stop.clone());
        let (renewing, stopped, heartbeats) = (Arc::clone(&claimer), stop.clone(), heart.clone());
        heart.spawn(&tasks, async move { renewing.renew_until(heartbeats, stopped).await });
        let watching = watch(name.to_owned(), Arc::clone(&shared), queue.clone(), signals);
        let stopped = stop.clone();
        tasks.spawn(async move {
            stopped.run_until_cancelled(watching).await;
        });
        Arc::new(Self { claimer, shared, store, engine, stop, tasks })
    }

    /// Claims at most one batch. Returns the number of messages requested and the number claimed.
    ///
    /// Leaves out topics whose circuit breaker is open.
    pub(super) async fn claim(&self, plan: &Plan) -> Result<(usize, usize), StoreError> {
        let handled = plan.handlers.topics();
        let sent = handled.iter().filter(|topic| plan.breakers.lets_through(&route_of(topic)));
        let topics: Arc<[String]> = sent.cloned().collect();
        let all = topics.len() == handled.len();
        if topics.is_empty() && !all {
            return Ok((0, 0));
        }
        match self.claimer.claim(plan.batch, topics).await? {
            // Messages of the topics left out may be due, so this result must not count as an empty queue.
            (_, 0) if !all => Ok((0, 0)),
            taken => Ok(taken),
        }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Whether no message is in memory, being handled or unsettled.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.with(|core| core.is_empty())
    }

    /// Drains for at most the drain time, releases the remaining messages, and stops all tasks.
    pub(super) async fn close(&self) {
        self.engine.lock().await.close().await;
        // Renewals stop last: handlers that are still draining need their claims.
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Sends a signal when there is room in memory, and for each wake-up of the database.
async fn watch<S: Store>(name: String, shared: Arc<Shared>, queue: Queue<S>, signals: mpsc::Sender<Signal>) {
    let mut hints = queue.store().wakeups();
    loop {
        let hinted = async {
            match &mut hints {
                Some(hints) => hints.0.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        let goes_on = tokio::select! {
            () = shared.read.notified() => true,
            hinted = hinted => hinted,
        };
        if !goes_on {
            // The sender of wake-ups has ended; from here on only polls find messages of other processes.
            hints = None;
        }
        if signals.send(Signal { name: name.clone() }).await.is_err() {
            return;
        }
    }
}
