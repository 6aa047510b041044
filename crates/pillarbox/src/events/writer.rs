//! The writer: checks events, runs hooks, and inserts rows on a transaction.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::hook::{Hooks, Moment};
use super::receipt::{Confirmed, Receipt};
use super::transaction::Transaction;
use super::{TaskTrace, TraceSource, WriteError, WriterHook};
use crate::engine::{EngineHealth, Reservation, Shared};
use crate::model::{Event, EventId, IntoEvents, Lane, Limits, NewRow, Placement, When, Written};
use crate::port::{Begin, BlockingWriteOn, Cancel, Insert, Order, StoreError, Table, WriteOn, WriteSql};
use crate::queue::LocalWakeup;

/// When the reader looks again for rows whose commit nobody has told of.
const UNTOLD: Duration = Duration::from_millis(250);

/// Writes events on transactions. Cheap to clone, and usable without an outbox.
pub struct Writer<S> {
    pub(super) store: Arc<S>,
    pub(super) hooks: Hooks,
    limits: Limits,
    trace: Arc<dyn TraceSource>,
    /// The engine that delivers committed events; `None` if another process delivers.
    engine: Option<Arc<Shared>>,
    /// Wakes the workers of this process that share the writer's queue.
    pub(crate) workers: LocalWakeup,
}

impl<S> Clone for Writer<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            hooks: self.hooks.clone(),
            limits: self.limits,
            trace: Arc::clone(&self.trace),
            engine: self.engine.clone(),
            workers: self.workers.clone(),
        }
    }
}

impl<S: Table> Writer<S> {
    /// Creates a writer without hooks and without an engine: a poller,
    /// relay or change-data-capture consumer delivers.
    #[must_use]
    pub fn new(store: Arc<S>) -> Self {
        let limits = store.facts().limits;
        let workers = LocalWakeup::default();
        Self { store, hooks: Hooks::default(), limits, trace: Arc::new(TaskTrace), engine: None, workers }
    }

    /// Adds a hook; hooks run in the order they were added.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn WriterHook>) -> Self {
        self.hooks.0.push(hook);
        self
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets the maximum payload size in bytes.
    #[must_use]
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.limits.payload = bytes;
        self
    }

    /// Sets the source of the current trace context. Default: the trace of the current task.
    #[must_use]
    pub fn trace_source(mut self, source: Arc<dyn TraceSource>) -> Self {
        self.trace = source;
        self
    }

    /// Sets the queue whose workers are told of committed messages.
    pub(crate) fn telling(mut self, workers: LocalWakeup) -> Self {
        self.workers = workers;
        self
    }

    pub(super) fn with_engine(mut self, engine: Arc<Shared>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The state of the engine that delivers committed events; `None` if another process delivers.
    pub(super) fn health(&self) -> Option<EngineHealth> {
        Some(self.engine.as_ref()?.with(|core| core.health(Instant::now())))
    }

    /// The store this writer writes to.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Checks events, or messages of the queue, and adds the trace context.
    pub(crate) fn check<M, E: IntoEvents<M>>(&self, events: E) -> Result<Vec<Event>, WriteError> {
        // The trace context is stored in the headers, which some layouts do not have.
        let trace = self.trace.current().filter(|_| self.limits.layout.has_headers());
        Ok(events.into_events(&self.limits, trace.as_ref())?)
    }

    /// Checks events and runs the before-write hooks.
    pub(crate) fn prepare<M, E: IntoEvents<M>>(&self, events: E) -> Result<Vec<Event>, WriteError> {
        let events = self.check(events)?;
        if self.hooks.0.is_empty() {
            return Ok(events);
        }
        let events = self
            .hooks
            .before_write(events)
            .map_err(|failure| WriteError::Hook(failure.message().to_owned()))?;
        // Hooks can change events, so the limits are checked again.
        events.iter().try_for_each(|event| event.check(&self.limits))?;
        Ok(events)
    }

    /// Creates rows for events that this process is about to commit, and reserves them for the hot path.
    ///
    /// Without a reservation the rows go to the slots of their groups.
    pub(super) fn place(&self, events: &[Event]) -> (Vec<NewRow>, Option<Reservation>) {
        let reservation = self.engine.as_ref().and_then(|engine| {
            Reservation::new(engine, events.iter().map(|event| event.id().clone()).collect())
        });
        let lane = reservation.as_ref().map(Reservation::lane);
        (rows(events, lane), reservation)
    }

    /// Creates rows for events whose commit this writer does not control. The reader delivers them.
    pub(super) fn place_unreserved(&self, events: &[Event]) -> Vec<NewRow> {
        rows(events, self.own_lane())
    }

    /// The lane of this node, or `None` if events go to the slots of their groups.
    fn own_lane(&self) -> Option<Lane> {
        let engine = self.engine.as_ref()?;
        engine.with(|core| core.lane().filter(|_| core.settings().order == Order::None))
    }

    /// Reports committed events to the engine: reserved events take the hot path,
    /// otherwise the reader wakes up.
    pub(super) fn committed(&self, events: &[Event], written: &[Written], reservation: Option<Reservation>) {
        match (reservation, &self.engine) {
            (Some(reservation), _) => reservation.push(events, written),
            (None, _) => self.wake(),
        }
        self.hint_due(events);
        self.hooks.run_with_rows(events, written);
    }

    /// Wakes the reader of this process, and of other nodes if they may hold the slots of the new rows.
    pub(super) fn wake(&self) {
        if let Some(engine) = &self.engine {
            engine.with(|core| core.hint());
        }
        if self.own_lane().is_none() {
            self.store.notify();
        }
    }

    /// Wakes the workers of this process's queue, and those of other processes.
    pub(super) fn wake_workers(&self) {
        self.workers.notify();
        self.store.notify();
    }

    /// Wakes the readers for rows that may be committed, or will be in a moment.
    pub(super) fn wake_untold(&self) {
        if let Some(engine) = &self.engine {
            engine.with(|core| core.hint_again(Instant::now() + UNTOLD));
        }
        self.wake();
    }

    /// Schedules a read for the earliest due time of delayed events.
    pub(super) fn hint_due(&self, events: &[Event]) {
        let Some(engine) = &self.engine else {
            return;
        };
        let ahead = events.iter().filter_map(Event::due).map(|due| match due {
            When::In(after) => after,
            When::At(at) => at.duration_since(Timestamp::now()).try_into().unwrap_or_default(),
        });
        if let Some(soonest) = ahead.min()
            && let Some(at) = Instant::now().checked_add(soonest)
        {
            engine.with(|core| core.hint_due(at));
        }
    }

    pub(super) fn ids(events: &[Event]) -> Vec<EventId> {
        events.iter().map(|event| event.id().clone()).collect()
    }
}

impl<S: Begin> Writer<S> {
    /// Opens a transaction that buffers events and inserts them right before its commit.
    pub async fn begin(&self) -> Result<Transaction<S>, StoreError> {
        let tx = self.store.begin().await?;
        Ok(Transaction::new(self.clone(), tx))
    }
}

impl<S: Table> Writer<S> {
    /// Writes events on a transaction that the caller opened. Call [`Receipt::committed`] after its commit.
    pub async fn write_on<M, Tx: ?Sized, E: IntoEvents<M>>(
        &self,
        tx: &mut Tx,
        events: E,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: WriteOn<Tx>,
    {
        let events = self.prepare(events)?;
        let mut rows = Vec::new();
        if !events.is_empty() {
            rows = self.store.insert(tx, &self.place_unreserved(&events)).await?;
            self.hooks.run(Moment::Write, &events);
        }
        Ok(Receipt::new(self.clone(), events, Confirmed::Now(rows)))
    }

    /// Builds the INSERT statement for the events, to be run with any driver in the caller's transaction.
    ///
    /// Call [`Receipt::committed`] after its commit; the after-write hooks run then. The statement is `None`
    /// if there is nothing to write.
    pub fn insert_sql<M, E: IntoEvents<M>>(
        &self,
        events: E,
    ) -> Result<(Option<Insert>, Receipt<S>), WriteError>
    where
        S: WriteSql,
    {
        let events = self.prepare(events)?;
        let insert = match events.as_slice() {
            [] => None,
            events => Some(self.store.insert_sql(&self.place_unreserved(events))?),
        };
        Ok((insert, Receipt::new(self.clone(), events, Confirmed::WithCommit)))
    }

    /// Cancels pending events on a transaction that the caller opened. Returns the
    /// ids of the cancelled events.
    pub async fn cancel_on<Tx: ?Sized>(
        &self,
        tx: &mut Tx,
        ids: &[EventId],
        by: impl Into<String>,
    ) -> Result<Vec<EventId>, StoreError>
    where
        S: WriteOn<Tx>,
    {
        self.store.cancel_on(tx, Cancel { ids: ids.to_vec(), by: by.into(), now: None }).await
    }

    /// Cancels pending events on a blocking driver's transaction that the caller opened. Returns the
    /// ids of the cancelled events.
    pub fn cancel_on_blocking<Tx: ?Sized>(
        &self,
        tx: &Tx,
        ids: &[EventId],
        by: impl Into<String>,
    ) -> Result<Vec<EventId>, StoreError>
    where
        S: BlockingWriteOn<Tx>,
    {
        self.store.cancel_blocking(tx, &Cancel { ids: ids.to_vec(), by: by.into(), now: None })
    }

    /// Writes events on a blocking driver's transaction that the caller opened.
    /// Call [`Receipt::committed`] after its commit.
    pub fn write_on_blocking<M, Tx: ?Sized, E: IntoEvents<M>>(
        &self,
        tx: &Tx,
        events: E,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: BlockingWriteOn<Tx>,
    {
        let events = self.prepare(events)?;
        let mut rows = Vec::new();
        if !events.is_empty() {
            rows = self.store.insert_blocking(tx, &self.place_unreserved(&events))?;
            self.hooks.run(Moment::Write, &events);
        }
        Ok(Receipt::new(self.clone(), events, Confirmed::Now(rows)))
    }
}

fn rows(events: &[Event], lane: Option<Lane>) -> Vec<NewRow> {
    let placement = lane.map_or(Placement::Slot, Placement::Lane);
    events.iter().map(|event| NewRow { event: event.clone(), placement }).collect()
}
