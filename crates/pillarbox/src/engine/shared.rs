//! State shared by the tasks: the core under a lock that is never held over an await, and signals.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::core::Core;
use super::state::settings::EngineSettings;
use super::tasks::caught::called;
use crate::model::{Event, EventId, Lane, Written};
use crate::port::{AnyTable, ErrorKind, MetricsExporter, Sink, StoreError};

/// The tasks that have something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Signals {
    pub(crate) work: bool,
    pub(crate) settle: bool,
    pub(crate) settle_second: bool,
    pub(crate) read: bool,
    pub(crate) heartbeat: bool,
    pub(crate) drained: bool,
}

/// The engine's state, its ports, and one signal for each kind of task.
pub(crate) struct Shared {
    core: Mutex<Core>,
    pub(crate) settings: EngineSettings,
    pub(crate) table: AnyTable,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) metrics: Arc<dyn MetricsExporter>,
    pub(crate) work: Notify,
    pub(crate) settle: Notify,
    pub(crate) settle_second: Notify,
    pub(crate) read: Notify,
    pub(crate) heartbeat: Notify,
    pub(crate) drained: Notify,
    /// End of the time in which claimed rows may be processed; `None` if no rows are claimed.
    pub(crate) lease: watch::Sender<Option<Instant>>,
    /// Name of the store in logs, if it differs from the store's own name.
    pub(crate) name: OnceLock<String>,
    /// The database role lacks the permission to delete, so done rows are kept.
    pub(crate) keeps_done: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        core: Core,
        table: AnyTable,
        sink: Arc<dyn Sink>,
        metrics: Arc<dyn MetricsExporter>,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings: core.settings().clone(),
            core: Mutex::new(core),
            table,
            sink,
            metrics,
            work: Notify::new(),
            settle: Notify::new(),
            settle_second: Notify::new(),
            read: Notify::new(),
            heartbeat: Notify::new(),
            drained: Notify::new(),
            lease: watch::Sender::new(None),
            name: OnceLock::new(),
            keeps_done: AtomicBool::new(false),
        })
    }

    /// Runs a step on the core, then wakes tasks and exports counts outside the lock.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut Core) -> R) -> R {
        let (result, signals, tally) = {
            let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            let result = step(&mut core);
            let now = core.is_shutting_down().then(Instant::now);
            (result, core.signals(now), core.take_tally())
        };
        for (wanted, notify) in [
            (signals.work, &self.work),
            (signals.settle, &self.settle),
            (signals.settle_second, &self.settle_second),
            (signals.read, &self.read),
            (signals.heartbeat, &self.heartbeat),
            (signals.drained, &self.drained),
        ] {
            if wanted {
                notify.notify_one();
            }
        }
        if !tally.is_empty() {
            tally.report(self);
        }
        result
    }

    /// Name of the store in logs.
    pub(crate) fn store_name(&self) -> &str {
        self.name.get().unwrap_or(&self.table.facts().name)
    }

    /// Calls the metrics exporter. A panic loses this value and is logged.
    pub(crate) fn measure(&self, export: impl FnOnce(&dyn MetricsExporter)) {
        if let Err(panic) = called(|| export(&*self.metrics)) {
            tracing::error!(store = self.store_name(), panic, "the metrics exporter panicked");
        }
    }

    /// The error of a store call that panicked.
    pub(crate) fn panicked(&self, operation: &'static str) -> StoreError {
        StoreError::new(ErrorKind::Unexpected, operation, self.store_name(), "panicked: see the log")
    }

    /// Resets the engine's state after a task panicked, and requests a heartbeat to register again.
    pub(crate) fn restart(&self, name: &str, panic: &str) {
        tracing::error!(store = self.store_name(), name, panic, "task panicked and is restarted");
        self.with(|core| core.restarted(Instant::now()));
        self.heartbeat.notify_one();
    }
}

/// Ids of events that are being committed. Reads skip these events until the
/// reservation is pushed or dropped.
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    ids: Vec<EventId>,
    lane: Lane,
    incarnation: u64,
}

impl Reservation {
    /// Reserves the ids on this node's lane; `None` if there is no hot path: shutdown,
    /// ordered groups, or no node.
    pub(crate) fn new(shared: &Arc<Shared>, ids: Vec<EventId>) -> Option<Self> {
        let (lane, incarnation) = shared.with(|core| core.reserve(&ids, Instant::now()))?;
        Some(Self { shared: Arc::clone(shared), ids, lane, incarnation })
    }

    /// Lane of the rows.
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// Queues the committed events on the hot path.
    pub(crate) fn push(mut self, events: &[Event], written: &[Written]) {
        self.ids.clear();
        self.shared.with(|core| core.push_hot(events, written, self.lane, self.incarnation));
    }
}

/// Ends the reservation after a rollback, an error or an unknown commit: the reader
/// finds the rows that exist.
impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            let ids = std::mem::take(&mut self.ids);
            self.shared.with(|core| ids.iter().for_each(|id| core.release_reservation(id)));
        }
    }
}
