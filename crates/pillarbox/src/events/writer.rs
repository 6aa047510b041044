//! The writer: checks events, runs hooks, and puts rows on a transaction.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use super::hook::{Hooks, Moment};
use super::receipt::{Known, Receipt};
use super::transaction::Transaction;
use super::{TaskTrace, TraceSource, WriteError, WriterHook};
use crate::engine::{Reservation, Shared};
use crate::model::{Event, EventId, IntoEvent, Lane, Limits, NewRow, Placement, When, Written};
use crate::port::{Begin, BlockingWriteOn, Cancel, Insert, Order, StoreError, Table, WriteOn, WriteSql};

/// Writes events on transactions. Cheap to clone; usable without an outbox.
pub struct Writer<S> {
    pub(super) store: Arc<S>,
    pub(super) hooks: Hooks,
    limits: Limits,
    trace: Arc<dyn TraceSource>,
    /// Where committed events are pushed; none where something else delivers.
    engine: Option<Arc<Shared>>,
}

impl<S> Clone for Writer<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            hooks: self.hooks.clone(),
            limits: self.limits,
            trace: Arc::clone(&self.trace),
            engine: self.engine.clone(),
        }
    }
}

impl<S: Table> Writer<S> {
    /// A writer without hooks: after a commit nothing happens, a poller or a change-data consumer delivers.
    #[must_use]
    pub fn new(store: Arc<S>) -> Self {
        let limits = store.facts().limits;
        Self { store, hooks: Hooks::default(), limits, trace: Arc::new(TaskTrace), engine: None }
    }

    /// Adds a hook; they run in the order they were added.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn WriterHook>) -> Self {
        self.hooks.0.push(hook);
        self
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Largest payload in bytes.
    #[must_use]
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.limits.payload = bytes;
        self
    }

    /// Where the current trace comes from; by default the task's.
    #[must_use]
    pub fn trace_source(mut self, source: Arc<dyn TraceSource>) -> Self {
        self.trace = source;
        self
    }

    pub(super) fn with_engine(mut self, engine: Arc<Shared>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The store it writes to.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Checks events and runs the before-write hooks.
    pub(crate) fn prepare<E: IntoEvent>(
        &self,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Vec<Event>, WriteError> {
        // Where there is no column for headers, a trace has no place.
        let trace = self.trace.current().filter(|_| self.limits.layout.has_headers());
        let events = events.into_iter().map(|event| event.into_event(&self.limits, trace.as_ref()));
        let events = events.collect::<Result<Vec<_>, _>>()?;
        if self.hooks.0.is_empty() {
            return Ok(events);
        }
        let events = self
            .hooks
            .before_write(events)
            .map_err(|failure| WriteError::Hook(failure.message().to_owned()))?;
        // What a hook made of them has to keep the limits of this writer too.
        events.iter().try_for_each(|event| event.check(&self.limits))?;
        Ok(events)
    }

    /// Rows for events that are about to be committed, and their reservation on the hot path.
    pub(super) fn place(&self, events: &[Event]) -> (Vec<NewRow>, Option<Reservation>) {
        let reservation = self.engine.as_ref().and_then(|engine| {
            Reservation::new(engine, events.iter().map(|event| event.id().clone()).collect())
        });
        let lane = reservation.as_ref().map(Reservation::lane);
        (rows(events, lane), reservation)
    }

    /// Rows for events whose commit is somebody else's.
    pub(super) fn place_unreserved(&self, events: &[Event]) -> Vec<NewRow> {
        rows(events, self.own_lane())
    }

    /// The lane this process delivers by itself; none where events go to the slots of their groups.
    fn own_lane(&self) -> Option<Lane> {
        let engine = self.engine.as_ref()?;
        engine.with(|core| core.lane().filter(|_| core.settings().order == Order::None))
    }

    /// Tells the engine what was committed: hot where reserved, else by waking the reader.
    pub(super) fn committed(&self, events: &[Event], written: &[Written], reservation: Option<Reservation>) {
        match (reservation, &self.engine) {
            (Some(reservation), _) => reservation.push(events, written),
            (None, _) => self.wake(),
        }
        self.hint_due(events);
    }

    /// Rows may be there: the reader looks, here and where else their slots may be held.
    pub(super) fn wake(&self) {
        if let Some(engine) = &self.engine {
            engine.with(|core| core.hint());
        }
        if self.own_lane().is_none() {
            self.store.notify();
        }
    }

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
    /// Writes on a transaction the caller already has. Tell the receipt when it has committed.
    pub async fn write_on<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &mut Tx,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: WriteOn<Tx>,
    {
        let events = self.prepare(events)?;
        if !events.is_empty() {
            self.store.insert(tx, &self.place_unreserved(&events)).await?;
            self.hooks.run(Moment::Write, &events);
        }
        Ok(Receipt::new(self.clone(), events, Known::Now))
    }

    /// The statement that writes the events, for the caller to run with any driver, in a transaction of its own. Tell the
    /// receipt when that has committed.
    ///
    /// None where there is nothing to write. After-write hooks run with the receipt's `committed`.
    pub fn insert_sql<E: IntoEvent>(
        &self,
        events: impl IntoIterator<Item = E>,
    ) -> Result<(Option<Insert>, Receipt<S>), WriteError>
    where
        S: WriteSql,
    {
        let events = self.prepare(events)?;
        let insert = match events.as_slice() {
            [] => None,
            events => Some(self.store.insert_sql(&self.place_unreserved(events))?),
        };
        Ok((insert, Receipt::new(self.clone(), events, Known::WithCommit)))
    }

    /// Takes pending events back on a transaction the caller already has; the ids that were still pending.
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

    /// Takes pending events back on a transaction of a blocking driver that the caller already has.
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

    /// Writes on a transaction of a blocking driver that the caller already has.
    pub fn write_on_blocking<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &Tx,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Receipt<S>, WriteError>
    where
        S: BlockingWriteOn<Tx>,
    {
        let events = self.prepare(events)?;
        if !events.is_empty() {
            self.store.insert_blocking(tx, &self.place_unreserved(&events))?;
            self.hooks.run(Moment::Write, &events);
        }
        Ok(Receipt::new(self.clone(), events, Known::Now))
    }
}

fn rows(events: &[Event], lane: Option<Lane>) -> Vec<NewRow> {
    let placement = lane.map_or(Placement::Slot, Placement::Lane);
    events.iter().map(|event| NewRow { event: event.clone(), placement }).collect()
}
