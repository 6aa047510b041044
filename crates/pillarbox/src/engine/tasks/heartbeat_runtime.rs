//! The runtime of heartbeats: a separate thread, so that blocking listeners do not cost the lease.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Interval at which the application's runtime proves that it is alive.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(500);

/// The runtime of heartbeats, and when the application's runtime last ran a task.
#[derive(Clone)]
pub(crate) struct HeartbeatRuntime {
    runtime: Handle,
    /// When the application's runtime last ran the task of `watch`; `None` if heartbeats run on that runtime.
    last_alive: Option<Arc<Mutex<Instant>>>,
}

impl HeartbeatRuntime {
    /// Chooses the runtime of heartbeats for an application that runs on the current runtime.
    ///
    /// A single-threaded runtime keeps its heartbeats: a blocking call stops the whole application anyway,
    /// and tests that pause the clock need heartbeats on the same clock.
    pub(crate) fn here() -> Self {
        let current = Handle::current();
        let apart = (current.runtime_flavor() != RuntimeFlavor::CurrentThread).then(thread).flatten();
        let last_alive = apart.as_ref().map(|_| Arc::new(Mutex::new(Instant::now())));
        Self { runtime: apart.unwrap_or(current), last_alive }
    }

    /// Starts the task that shows that the application's runtime runs, until `stop`.
    pub(crate) fn watch(&self, tasks: &TaskTracker, stop: CancellationToken) {
        if let Some(last_alive) = self.last_alive.clone() {
            tasks.spawn(async move {
                while stop.run_until_cancelled(sleep(LIVENESS_INTERVAL)).await.is_some() {
                    *last_alive.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                }
            });
        }
    }

    /// Returns how long the application's runtime has been blocked, if that exceeds `bound`.
    ///
    /// Heartbeats then stop: a hung process must not keep its slots and claims forever.
    pub(crate) fn stalled(&self, bound: Duration) -> Option<Duration> {
        let last_alive = self.last_alive.as_ref()?;
        let silent = last_alive.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        (silent > bound).then_some(silent)
    }

    /// Spawns a tracked task on the runtime of heartbeats.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        tasks: &TaskTracker,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        tasks.spawn_on(task, &self.runtime)
    }

    /// Runs a call on the runtime of heartbeats, so that connections it opens belong to that
    /// runtime; `None` if it panics.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        if self.last_alive.is_none() {
            return Some(call.await);
        }
        AbortOnDropHandle::new(self.runtime.spawn(call)).await.ok()
    }
}

/// The heartbeat thread, shared by all engines of this process.
///
/// It runs until the process ends, because connections opened on it outlive the engine that opened them.
fn thread() -> Option<Handle> {
    static THREAD: OnceLock<Option<Handle>> = OnceLock::new();
    let start = || {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let run = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("pillarbox-heartbeat".to_owned()).spawn(run).ok()?;
        Some(handle)
    };
    THREAD.get_or_init(start).clone()
}
