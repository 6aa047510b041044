//! A test kit for users: an outbox in memory that records writes, delivers on demand and has a manual clock.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::events::{
    Failure, InFlightSet, Listener, ListenerSink, Listeners, Transaction, WriteError, Writer,
};
use crate::memory::MemoryStore;
use crate::model::{AggregateType, Event, EventPayload, EventType, IntoEvents, Record, Row, Status};
use crate::port::{
    ByteLimits, Change, CommitError, Counts, Delivery, DeliveryPath, Fence, Fetch, List, OnDone, Outcome,
    Scope, Select, Settle, Sink, Store, StoreError, Table, Verdict, Wait,
};
use crate::rules::{Exponential, RetryPolicy};

/// Maximum number of reads in one run, so that a listener that keeps writing events does not hang a test.
const ROUNDS_MAX: usize = 10_000;

/// Counts of one [`TestOutbox::run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ran {
    /// Events that a listener accepted.
    pub delivered: usize,
    /// Deliveries that did not succeed and whose events are still pending.
    pub retried: usize,
    /// Events that are now dead.
    pub dead: usize,
}

/// An outbox in memory, for tests of code that writes events or listens to them.
///
/// Nothing is delivered until [`TestOutbox::run`] is called.
pub struct TestOutbox {
    store: MemoryStore,
    writer: Writer<MemoryStore>,
    listeners: Listeners,
    max_attempts: u32,
    retry: Arc<dyn RetryPolicy>,
}

impl Default for TestOutbox {
    fn default() -> Self {
        Self::new()
    }
}

impl TestOutbox {
    /// Creates an outbox without events and listeners.
    #[must_use]
    pub fn new() -> Self {
        let store = MemoryStore::new();
        let writer = Writer::new(Arc::new(store.clone()));
        Self {
            store,
            writer,
            listeners: Listeners::new(),
            max_attempts: 10,
            retry: Arc::new(Exponential::default()),
        }
    }

    /// Registers a closure that receives the events of one payload type: `.on(|placed: Placed, cx| async move { … })`.
    ///
    /// The payload's [`EventPayload`] names the event type. An event whose payload can't be read is dead at once, and
    /// its error names the field.
    ///
    /// Panics if the event type has a listener already.
    #[must_use]
    pub fn on<P, F, Fut>(mut self, listener: F) -> Self
    where
        P: EventPayload + DeserializeOwned + Send + 'static,
        F: Fn(P, Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        if let Err(error) = self.listeners.register_on(listener) {
            panic!("{error}");
        }
        self
    }

    /// Registers a listener for an event type.
    ///
    /// It receives events without an aggregate, and events of any aggregate type that has no listener for
    /// this event type. Panics if the event type has such a listener already.
    #[must_use]
    pub fn listener(mut self, event_type: impl EventType, listener: impl Listener) -> Self {
        if let Err(error) = self.listeners.register(event_type, listener) {
            panic!("{error}");
        }
        self
    }

    /// Registers a listener for an event type of one aggregate type. Panics if the
    /// pair has a listener already.
    #[must_use]
    pub fn listener_for(
        mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        listener: impl Listener,
    ) -> Self {
        if let Err(error) = self.listeners.register_for(aggregate_type, event_type, listener) {
            panic!("{error}");
        }
        self
    }

    /// Number of failed attempts after which an event is dead. Default: 10.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Backoff between attempts. Default: exponential from 200 ms to 60 s, without jitter.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.retry = Arc::new(policy);
        self
    }

    /// The writer, to pass to the code under test.
    #[must_use]
    pub fn writer(&self) -> &Writer<MemoryStore> {
        &self.writer
    }

    /// The store, to pass to the code under test.
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Opens a transaction that accepts events.
    pub async fn begin(&self) -> Result<Transaction<MemoryStore>, StoreError> {
        self.writer.begin().await
    }

    /// Writes one event or several in a transaction of their own and commits it.
    pub async fn write<M, E: IntoEvents<M>>(&self, events: E) -> Result<E::Ids, WriteError> {
        let mut tx = self.begin().await?;
        let ids = tx.write(events)?;
        match tx.commit().await {
            Ok(()) => Ok(ids),
            Err(CommitError::Refused(error) | CommitError::Unknown(error)) => Err(error.into()),
        }
    }

    /// All committed events regardless of status, oldest first.
    pub async fn written(&self) -> Vec<Event> {
        let records = self.records(Vec::new()).await;
        records.into_iter().filter_map(|record| record.event.ok()).collect()
    }

    /// All events with this status, oldest first.
    pub async fn with_status(&self, status: Status) -> Vec<Record> {
        self.records(vec![status]).await
    }

    async fn records(&self, statuses: Vec<Status>) -> Vec<Record> {
        let select = Select { statuses, ..Select::default() };
        let list = List { select, limit: usize::MAX, ..List::default() };
        // The memory store never fails a list.
        self.store.admin().list(list).await.unwrap_or_default()
    }

    /// Moves the clock forward, so that delayed events and retries become due.
    pub fn advance(&self, by: Duration) {
        self.store.clock().advance(by);
    }

    /// Delivers all due events in order, one at a time, including events that listeners write meanwhile.
    pub async fn run(&self) -> Result<Ran, StoreError> {
        let sink = ListenerSink {
            registry: Arc::new(self.listeners.clone()),
            interceptors: Vec::new(),
            tracker: Arc::new(InFlightSet::new()),
            breakers: Default::default(),
        };
        let mut ran = Ran::default();
        for _ in 0..ROUNDS_MAX {
            let fetch = Fetch {
                scope: Scope::Due,
                rows: 100,
                bytes: ByteLimits::NONE,
                skip_recent: Duration::ZERO,
                now: None,
            };
            let fetched = self.store.fetch(fetch).await?;
            if fetched.rows.is_empty() {
                break;
            }
            for row in fetched.rows {
                let change = self.deliver(&sink, &row, fetched.now).await;
                match change {
                    Change::Done => ran.delivered += 1,
                    Change::Dead { .. } => ran.dead += 1,
                    _ => ran.retried += 1,
                }
                let outcome = Outcome { seq: row.seq, id: row.id, token: row.token, change };
                let outcomes = Arc::from([outcome]);
                let on_done = OnDone::Keep;
                let settle = Settle { fence: Fence::Open, outcomes, on_done, repeats: None, now: None };
                self.store.settle(settle).await?;
            }
        }
        Ok(ran)
    }

    async fn deliver(&self, sink: &ListenerSink, row: &Row, now: jiff::Timestamp) -> Change {
        let dead = |error: String, counts| Change::Dead { error, counts, blocks: None };
        let not_made = Counts::NotMade(row.attempts);
        let event = match &row.event {
            Ok(event) if row.expires_at.is_none_or(|at| at > now) => event.clone(),
            Ok(_) => return dead("expired before it was delivered".to_owned(), not_made),
            Err(why) => return dead(why.error(), not_made),
        };
        let attempt = row.attempts + 1;
        let last_error = row.last_error.as_deref().map(Into::into);
        let delivery =
            Delivery { event, attempt, seq: row.seq, path: DeliveryPath::Cold, claimed: None, last_error };
        let verdict = sink.deliver(std::slice::from_ref(&delivery)).await.pop().unwrap_or(Verdict::Skipped);
        // A refusal means that some event of the batch is at fault; the batch has only this event.
        let verdict = match verdict {
            Verdict::Refused { error } => Verdict::Failed { error, after: None },
            verdict => verdict,
        };
        match verdict {
            Verdict::Accepted | Verdict::Settled => Change::Done,
            Verdict::Failed { error, after } if attempt < self.max_attempts => {
                let delay = after.unwrap_or_else(|| self.retry.delay(attempt, 0.5));
                Change::Retry { delay, error, counts: Counts::Made(attempt), wait: Wait::InPlace }
            }
            Verdict::Failed { error, .. } | Verdict::Refused { error } | Verdict::Rejected { error } => {
                dead(error, Counts::Made(attempt))
            }
            // As in the engine, an outage counts no attempt.
            Verdict::Unavailable { error, after, .. }
            | Verdict::RouteUnavailable { error, after, .. }
            | Verdict::Throttled { error, after } => {
                let delay = after.unwrap_or_else(|| self.retry.delay(attempt, 0.5));
                Change::Retry { delay, error, counts: not_made, wait: Wait::InPlace }
            }
            Verdict::RouteShut { route, after } => {
                let error = format!("the circuit breaker of {route} is open");
                Change::Retry { delay: after, error, counts: not_made, wait: Wait::InPlace }
            }
            Verdict::NoRoute { route } => dead(format!("no listener for {route}"), not_made),
            Verdict::InFlight | Verdict::Skipped => Change::Release { attempts: row.attempts },
        }
    }
}
