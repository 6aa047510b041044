//! Where heartbeats run: on a thread of their own, so that listeners which block every thread of the application's runtime cost
//! no lease.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// How often the application's runtime shows that it runs.
const PULSE: Duration = Duration::from_millis(500);

/// The runtime of heartbeats, and what it knows of the application's.
#[derive(Clone)]
pub(crate) struct Heart {
    runtime: Handle,
    /// When the application's runtime last ran, where it is another.
    pulse: Option<Arc<Mutex<Instant>>>,
}

impl Heart {
    /// For the runtime that this is called on. One with a single thread keeps its heartbeats: whatever blocks it blocks everything,
    /// and a clock that a test has stopped is its own.
    pub(crate) fn here() -> Self {
        let current = Handle::current();
        let apart = (current.runtime_flavor() != RuntimeFlavor::CurrentThread).then(thread).flatten();
        let pulse = apart.as_ref().map(|_| Arc::new(Mutex::new(Instant::now())));
        Self { runtime: apart.unwrap_or(current), pulse }
    }

    /// Shows that the application's runtime runs, until it is told to stop.
    pub(crate) fn watch(&self, tasks: &TaskTracker, stop: CancellationToken) {
        if let Some(pulse) = self.pulse.clone() {
            tasks.spawn(async move {
                while stop.run_until_cancelled(sleep(PULSE)).await.is_some() {
                    *pulse.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                }
            });
        }
    }

    /// For how long the application's runtime has run nothing, if that is longer than this: a process that hangs must not keep
    /// what it holds for ever.
    pub(crate) fn stalled(&self, bound: Duration) -> Option<Duration> {
        let pulse = self.pulse.as_ref()?;
        let silent = pulse.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        (silent > bound).then_some(silent)
    }

    /// Spawns a task of a tracker.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        tasks: &TaskTracker,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        tasks.spawn_on(task, &self.runtime)
    }

    /// Makes a call there, so that a connection it opens belongs to that runtime; `None` if it panics.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        if self.pulse.is_none() {
            return Some(call.await);
        }
        AbortOnDropHandle::new(self.runtime.spawn(call)).await.ok()
    }
}

/// The thread of all engines of this process. It has nothing to do without them, and ends with the process: connections that were
/// opened on it outlive the engine that opened them.
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
