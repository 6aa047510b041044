//! The engine of one database, while a worker works for it.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Queue;
use super::handler::{QueueSink, route_of};
use super::worker::Plan;
use crate::engine::{Claimer, Engine, EngineParts, EngineSettings, Heart, Shared};
use crate::port::{ClaimFrom, Store, StoreError};

/// Something happened at a database: it may be worth a poll.
#[derive(Debug, Clone)]
pub(super) struct Signal {
    pub(super) name: String,
}

/// The engine of one database.
pub(super) struct DatabaseWorker {
    claimer: Arc<Claimer>,
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    engine: Mutex<Engine>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl DatabaseWorker {
    /// Starts the engine, the renewals, and the watch for hints.
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
        };
        let store = Arc::clone(queue.store()) as Arc<dyn Store>;
        let parts = EngineParts {
            table: Arc::clone(&store).into(),
            sink: Arc::new(sink),
            metrics: Arc::clone(&plan.metrics),
            settings: EngineSettings {
                row_bytes: plan.settings.row_bytes.max(queue.store().facts().limits.largest_row()),
                ..plan.settings.clone()
            },
            seed: plan.seed(),
        };
        let shared = parts.shared();
        // Stores of one kind may have one name of their own; the database's tells them apart.
        shared.name.get_or_init(|| name.to_owned());
        let (owner, lease) = (plan.owner.clone(), plan.lease);
        let claimer = Claimer::new(Arc::clone(&shared), Arc::clone(&store), owner, lease, ClaimFrom::Queue);
        let claimer = Arc::new(claimer);
        let engine = Mutex::new(Engine::dispatcher(Arc::clone(&shared)));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let heart = Heart::here();
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

    /// Claims as many as make a batch, of topics whose handlers are not known to fail; how many were asked for, and taken.
    pub(super) async fn claim(&self, plan: &Plan) -> Result<(usize, usize), StoreError> {
        let handled = plan.handlers.topics();
        let sent = handled.iter().filter(|topic| plan.breakers.lets_through(&route_of(topic)));
        let topics: Arc<[String]> = sent.cloned().collect();
        let all = topics.len() == handled.len();
        if topics.is_empty() && !all {
            return Ok((0, 0));
        }
        match self.claimer.claim(plan.batch, topics).await? {
            // What waits for its handler's dependency is there all the same.
            (_, 0) if !all => Ok((0, 0)),
            taken => Ok(taken),
        }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Nothing in memory, nothing out, nothing unsettled.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.with(|core| core.is_empty())
    }

    /// Finishes what is in memory within the drain time, gives the rest back, ends.
    pub(super) async fn close(&self) {
        self.engine.lock().await.close().await;
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Tells of room in memory, and of what the database tells.
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
            // Whoever told has ended: polling goes on.
            hints = None;
        }
        if signals.send(Signal { name: name.clone() }).await.is_err() {
            return;
        }
    }
}
