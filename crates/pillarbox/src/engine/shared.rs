//! What the loops share: the core under a lock that is never held over an await, and the signals between them.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::core::{Core, Tally};
use super::state::settings::EngineSettings;
use super::tasks::caught::called;
use crate::model::{Event, EventId, Lane, Written};
use crate::port::{AnyTable, ErrorKind, MetricsExporter, Sink, StoreError};

/// Which loops have something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Signals {
    pub(crate) work: bool,
    pub(crate) settle: bool,
    pub(crate) read: bool,
    pub(crate) heartbeat: bool,
    pub(crate) drained: bool,
}

/// The engine's state and its ports.
pub(crate) struct Shared {
    core: Mutex<Core>,
    pub(crate) settings: EngineSettings,
    pub(crate) table: AnyTable,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) metrics: Arc<dyn MetricsExporter>,
    pub(crate) work: Notify,
    pub(crate) settle: Notify,
    pub(crate) read: Notify,
    pub(crate) heartbeat: Notify,
    pub(crate) drained: Notify,
    /// Until when claims may be worked on; none where rows are not claimed.
    pub(crate) lease: watch::Sender<Option<Instant>>,
    /// What logs call the store, where that is not its own name.
    pub(crate) name: OnceLock<String>,
    /// The store may delete nothing: what is done is kept.
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
            read: Notify::new(),
            heartbeat: Notify::new(),
            drained: Notify::new(),
            lease: watch::Sender::new(None),
            name: OnceLock::new(),
            keeps_done: AtomicBool::new(false),
        })
    }

    /// Runs a step on the core, then wakes the loops that have something to do and reports what happened.
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
            (signals.read, &self.read),
            (signals.heartbeat, &self.heartbeat),
            (signals.drained, &self.drained),
        ] {
            if wanted {
                notify.notify_one();
            }
        }
        if tally != Tally::default() {
            self.report(tally);
        }
        result
    }

    /// The store's name in every line of the log.
    pub(crate) fn store_name(&self) -> &str {
        self.name.get().unwrap_or(&self.table.facts().name)
    }

    /// Hands something to the exporter. One that panics loses it, and stops nothing.
    pub(crate) fn measure(&self, export: impl FnOnce(&dyn MetricsExporter)) {
        if let Err(panic) = called(|| export(&*self.metrics)) {
            tracing::error!(store = self.store_name(), panic, "the metrics exporter panicked");
        }
    }

    /// What a call has failed of that panicked.
    pub(crate) fn panicked(&self, operation: &'static str) -> StoreError {
        StoreError::new(ErrorKind::Unexpected, operation, self.store_name(), "panicked: see the log")
    }

    /// A loop ended by a panic.
    pub(crate) fn restart(&self, name: &str, panic: &str) {
        tracing::error!(store = self.store_name(), name, panic, "a loop ended by a panic and begins anew");
        self.with(|core| core.restarted(Instant::now()));
        self.heartbeat.notify_one();
    }

    fn report(&self, tally: Tally) {
        let store = || self.store_name();
        for (count, export) in [
            (tally.hot, MetricsExporter::hot_enqueued as fn(&dyn MetricsExporter, u64)),
            (tally.hot_dropped, MetricsExporter::hot_dropped),
            (tally.cold, MetricsExporter::cold_enqueued),
            (tally.success, MetricsExporter::dispatch_success),
            (tally.failure, MetricsExporter::dispatch_failure),
            (tally.dead.len() as u64, MetricsExporter::dispatch_dead),
            (tally.dead_of_endpoint, MetricsExporter::dispatch_dead_of_endpoint),
        ] {
            if count > 0 {
                self.measure(|metrics| export(metrics, count));
            }
        }
        if tally.hot_dropped > 0 {
            tracing::warn!(store = store(), events = tally.hot_dropped, "hot line full: left to the reader");
        }
        if let Some((events, first)) = tally.passed_by {
            self.measure(|metrics| metrics.read_passed(events));
            tracing::warn!(
                store = store(),
                events,
                first = first.0,
                "found pending rows below the read position; reading again from the first of them"
            );
        }
        if tally.stale > 0 {
            tracing::warn!(
                store = store(),
                events = tally.stale,
                "outcomes came too late and changed nothing"
            );
        }
        if let Some(events) = tally.busy {
            tracing::warn!(
                store = store(),
                events,
                "outcomes wait for rows that another transaction has locked; they are settled when it ends"
            );
        }
        for (event, error) in &tally.undecodable {
            tracing::error!(store = store(), %event, error, "row can't be decoded");
        }
        for (event, error) in &tally.dead {
            tracing::error!(store = store(), %event, error, "event is dead");
        }
    }
}

/// Ids on their way into the store: until it is pushed or dropped, reads leave these events alone.
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    ids: Vec<EventId>,
    lane: Lane,
    incarnation: u64,
}

impl Reservation {
    /// Reserves the ids on this node's lane; none where the hot path is closed.
    pub(crate) fn new(shared: &Arc<Shared>, ids: Vec<EventId>) -> Option<Self> {
        let (lane, incarnation) = shared.with(|core| core.reserve(&ids, Instant::now()))?;
        Some(Self { shared: Arc::clone(shared), ids, lane, incarnation })
    }

    /// The lane the rows belong to.
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// Committed: to the hot line with them.
    pub(crate) fn push(mut self, events: &[Event], written: &[Written]) {
        self.ids.clear();
        self.shared.with(|core| core.push_hot(events, written, self.lane, self.incarnation));
    }
}

/// Rolled back, failed or unknown: the reader decides.
impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            let ids = std::mem::take(&mut self.ids);
            self.shared.with(|core| ids.iter().for_each(|id| core.release_reservation(id)));
        }
    }
}
