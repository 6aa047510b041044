//! The queue handle: enqueues, claims and settles messages.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::local_wakeup::LocalWakeup;
use super::{Message, MessageId, QueueError, QueueJoins, WorkItemId};
use crate::engine::{claim_at_once, settle_now};
use crate::events::{Transaction, Writer};
use crate::model::{
    EVENT_TYPE_MAX, Event, IntoEvent, Invalid, Limits, NewRow, OwnerId, Placement, Token, Written, limits,
};
use crate::port::{
    Begin, BlockingWriteOn, ByteLimits, Change, Claim, ClaimFrom, Counts, ErrorKind, Fence, List, Migrated,
    OnDone, Outcome, Reap, Select, Settle, Settled, Stats, Store, StoreError, Transact, TransactError, Wait,
    Write, WriteOn,
};
use crate::rules::{Doubling, Lease, RetryPolicy};

/// Maximum number of messages in one claim.
pub(super) const BATCH_MAX: usize = 10_000;

/// Maximum size of one claim in bytes.
const CLAIM_BYTES_MAX: usize = 64 * 1_048_576;

/// The result of an enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueued {
    /// Id of the message; if a message with the same logical id existed already, the id of that one.
    pub message: MessageId,
    /// Whether the message was added; false if it existed already.
    pub fresh: bool,
}

/// The result of settling work items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// Number of items that were changed.
    pub changed: usize,
    /// Number of items left unchanged, because they are unknown, have ended, or belong to another claim.
    pub ignored: usize,
}

/// Whether a queue creates and upgrades its tables by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemaDeployment {
    /// The tables exist; a missing table is an error.
    #[default]
    Off,
    /// The tables are created or upgraded before the first use. Needs the rights to do so.
    On,
}

/// The message queue of a store. Cheap to clone.
pub struct Queue<S> {
    store: Arc<S>,
    /// Name in logs and errors.
    name: Arc<str>,
    retry: Arc<dyn RetryPolicy>,
    on_done: OnDone,
    /// Maximum payload in bytes, if it is not the store's.
    payload_limit: Option<usize>,
    /// Notified after each enqueue, for workers of this process.
    wakeup: LocalWakeup,
    /// Set once the tables are deployed; `None` if the queue does not deploy them.
    deployed: Option<Arc<OnceCell<()>>>,
}

impl<S> Clone for Queue<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            name: Arc::clone(&self.name),
            retry: Arc::clone(&self.retry),
            on_done: self.on_done,
            payload_limit: self.payload_limit,
            wakeup: self.wakeup.clone(),
            deployed: self.deployed.clone(),
        }
    }
}

impl<S: Store> Queue<S> {
    /// Creates the queue of a store.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self::shared(Arc::new(store))
    }

    /// Creates the queue of a store that other code shares.
    #[must_use]
    pub fn shared(store: Arc<S>) -> Self {
        let name = Arc::from(store.facts().name.as_str());
        Self::with_wakeup(store, name, LocalWakeup::default())
    }

    /// Creates the queue of a writer's store, whose workers are told of what the writer commits.
    pub(crate) fn beside(writer: &Writer<S>) -> Self {
        let store = Arc::clone(writer.store());
        let name = Arc::from(store.facts().name.as_str());
        Self::with_wakeup(store, name, writer.workers.clone()).payload_limit(writer.limits().payload)
    }

    /// Creates the queue of a database with this name, which it has in all log lines. Stores of several
    /// databases can have equal names.
    pub(super) fn with_wakeup(store: Arc<S>, name: Arc<str>, wakeup: LocalWakeup) -> Self {
        let retry = Arc::new(Doubling::default());
        let (on_done, payload_limit) = (OnDone::Keep, None);
        Self { store, name, retry, on_done, payload_limit, wakeup, deployed: None }
    }

    /// Backoff of abandoned messages. Default: 2, 4, 8 … up to 60 s.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.retry = Arc::new(policy);
        self
    }

    /// Whether acknowledged messages are kept or deleted. Default: kept until the purge.
    #[must_use]
    pub fn on_done(mut self, on_done: OnDone) -> Self {
        self.on_done = on_done;
        self
    }

    /// Maximum payload of a message in bytes. Default: the limit of the store, which is 1 MiB unless it was
    /// built with another.
    ///
    /// A worker on this queue loads messages up to this limit. Tell workers of other processes with
    /// [`WorkerBuilder::max_row_bytes`](super::WorkerBuilder::max_row_bytes) if it is above 15 MiB.
    #[must_use]
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.payload_limit = Some(bytes);
        self
    }

    /// Whether the queue creates and upgrades its tables before its first use. Default: it does not.
    ///
    /// Calls on a transaction of the caller deploy nothing: call [`Queue::ready`] before the first of them.
    #[must_use]
    pub fn schema_deployment(mut self, deployment: SchemaDeployment) -> Self {
        self.deployed = match deployment {
            SchemaDeployment::Off => None,
            SchemaDeployment::On => Some(self.deployed.take().unwrap_or_default()),
        };
        self
    }

    /// The same queue; this cell remembers whether the tables are deployed.
    pub(super) fn deployed_by(mut self, deployed: Option<Arc<OnceCell<()>>>) -> Self {
        self.deployed = deployed;
        self
    }

    /// Deploys the tables now, if the queue deploys them and has not yet.
    pub async fn ready(&self) -> Result<(), StoreError> {
        let Some(deployed) = &self.deployed else { return Ok(()) };
        deployed.get_or_try_init(async || self.store.admin().migrate().await.map(drop)).await.map(|&()| ())
    }

    /// Creates the tables, or upgrades them. Safe to repeat; needs the rights to do so.
    pub async fn migrate(&self) -> Result<Migrated, StoreError> {
        self.store.admin().migrate().await
    }

    /// Counts messages, and the events in the same table, by status, and the age of the oldest row that is due.
    pub async fn stats(&self) -> Result<Stats, StoreError> {
        self.store.admin().stats().await
    }

    /// The store of this queue.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The joins of this queue.
    #[must_use]
    pub fn joins(&self) -> QueueJoins<'_, S> {
        QueueJoins::new(self)
    }

    /// The retry policy and the `on_done` setting, which a worker on this queue inherits.
    pub(super) fn settling(&self) -> (Arc<dyn RetryPolicy>, OnDone) {
        (Arc::clone(&self.retry), self.on_done)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The limits of the messages of this queue.
    pub(super) fn limits(&self) -> Limits {
        let limits = self.store.facts().limits;
        Limits { payload: self.payload_limit.unwrap_or(limits.payload), ..limits }
    }

    pub(super) fn wakeup(&self) -> &LocalWakeup {
        &self.wakeup
    }

    /// Wakes the workers of this process, and those of other processes if the database can notify them.
    pub(super) fn notify(&self) {
        self.wakeup.notify();
        self.store.notify();
    }

    /// Enqueues one message in its own transaction. The event type is the topic.
    pub async fn enqueue(&self, message: impl IntoEvent) -> Result<Enqueued, QueueError> {
        let mut enqueued = self.enqueue_all([message]).await?;
        let silent = "the store did not return the row it wrote";
        let unexpected = || StoreError::new(ErrorKind::Unexpected, "write", self.name(), silent);
        enqueued.pop().ok_or_else(|| unexpected().into())
    }

    /// Enqueues messages in one transaction: all or none.
    pub async fn enqueue_all<E: IntoEvent>(
        &self,
        messages: impl IntoIterator<Item = E>,
    ) -> Result<Vec<Enqueued>, QueueError> {
        let rows = self.rows(messages)?;
        self.ready().await?;
        let events: Vec<Event> = rows.iter().map(|row| row.event.clone()).collect();
        let written = self.store.write(Write { rows, now: None }).await?;
        self.notify();
        Ok(self.enqueued(&events, written))
    }

    /// Enqueues messages on a transaction that the caller opened and must commit.
    ///
    /// Workers find them at their next poll after the commit. Call
    /// [`Queue::committed`] to wake them immediately.
    pub async fn enqueue_on<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &mut Tx,
        messages: impl IntoIterator<Item = E>,
    ) -> Result<Vec<Enqueued>, QueueError>
    where
        S: WriteOn<Tx>,
    {
        let rows = self.rows(messages)?;
        let written = self.store.insert(tx, &rows).await?;
        let events: Vec<Event> = rows.into_iter().map(|row| row.event).collect();
        Ok(self.enqueued(&events, written))
    }

    /// Enqueues messages on a blocking driver's transaction that the caller opened and must commit.
    pub fn enqueue_on_blocking<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &Tx,
        messages: impl IntoIterator<Item = E>,
    ) -> Result<Vec<Enqueued>, QueueError>
    where
        S: BlockingWriteOn<Tx>,
    {
        let rows = self.rows(messages)?;
        let written = self.store.insert_blocking(tx, &rows)?;
        let events: Vec<Event> = rows.into_iter().map(|row| row.event).collect();
        Ok(self.enqueued(&events, written))
    }

    /// Reports the commit of a transaction that enqueued messages, and wakes the workers.
    pub fn committed(&self) {
        self.notify();
    }

    fn writer(&self) -> Writer<S> {
        let writer = Writer::new(Arc::clone(&self.store)).payload_limit(self.limits().payload);
        writer.telling(self.wakeup.clone())
    }

    fn rows<E: IntoEvent>(&self, messages: impl IntoIterator<Item = E>) -> Result<Vec<NewRow>, QueueError> {
        let events = self.writer().check(messages)?;
        Ok(events.into_iter().map(|event| NewRow { event, placement: Placement::Queue }).collect())
    }

    fn enqueued(&self, events: &[Event], written: Vec<Written>) -> Vec<Enqueued> {
        for (event, one) in events.iter().zip(&written) {
            tracing::info!(
                store = self.name(),
                topic = event.event_type(),
                correlation_id = event.correlation_id(),
                message = ?one.id,
                "enqueued"
            );
        }
        written.into_iter().map(|one| Enqueued { message: MessageId(one.id), fresh: one.fresh }).collect()
    }

    /// Claims at most `batch` due messages. Only this owner can settle them until the lease ends.
    ///
    /// Expired and malformed messages are marked dead and not returned.
    pub async fn claim(
        &self,
        owner: &OwnerId,
        lease: Duration,
        batch: usize,
    ) -> Result<Vec<Message>, QueueError> {
        self.claim_topics(owner, lease, batch, &[] as &[&str]).await
    }

    /// Claims like [`Queue::claim`], but only messages of these topics; all topics if there are none.
    pub async fn claim_topics(
        &self,
        owner: &OwnerId,
        lease: Duration,
        batch: usize,
        topics: &[impl AsRef<str> + Sync],
    ) -> Result<Vec<Message>, QueueError> {
        let lease = Lease::new(lease)?.length();
        if !(1..=BATCH_MAX).contains(&batch) {
            return Err(Invalid::range("batch", batch, format!("1 to {BATCH_MAX}")).into());
        }
        for topic in topics {
            limits::name("topic", topic.as_ref(), EVENT_TYPE_MAX)?;
        }
        let claim = Claim {
            from: ClaimFrom::Queue,
            topics: topics.iter().map(|topic| topic.as_ref().to_owned()).collect(),
            owner: owner.clone(),
            lease,
            rows: batch,
            bytes: ByteLimits { total: CLAIM_BYTES_MAX, row: self.limits().row_bytes() },
            skip_recent: Duration::ZERO,
            now: None,
        };
        self.ready().await?;
        let rows = claim_at_once(&*self.store, claim).await?;
        tracing::debug!(store = self.name(), %owner, messages = rows.len(), "claimed");
        let now = if rows.iter().any(|row| row.expires_at.is_some()) {
            Some(self.store.now().await?)
        } else {
            None
        };
        let (mut messages, mut dead) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let expired = row.expires_at.zip(now).is_some_and(|(at, now)| at <= now);
            let why = match &row.event {
                Err(why) => Some(why.error()),
                Ok(_) if expired => Some("expired before it was delivered".to_owned()),
                Ok(_) => None,
            };
            let outcome = |error| {
                // The claim has counted an attempt that is not made.
                let counts = Counts::NotMade(row.attempts.saturating_sub(1));
                let change = Change::Dead { error, counts, blocks: None };
                Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change }
            };
            match why.map(outcome) {
                Some(outcome) => dead.push(outcome),
                None => messages.extend(Message::of_row(row, owner)),
            }
        }
        if !dead.is_empty() {
            self.settle(owner, dead).await?;
        }
        Ok(messages)
    }

    /// Creates work items from their text form `ID@TOKEN` and the current state of their rows.
    ///
    /// Unknown ids and ended claims give work items too; settling those changes nothing.
    pub async fn find(&self, texts: &[impl AsRef<str>]) -> Result<Vec<WorkItemId>, QueueError> {
        let parsed =
            texts.iter().map(|text| WorkItemId::parse(text.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let ids = parsed.iter().map(|(message, _)| message.0.clone()).collect();
        let list =
            List { select: Select { ids, ..Select::default() }, limit: parsed.len(), ..List::default() };
        let records = if parsed.is_empty() { Vec::new() } else { self.store.admin().list(list).await? };
        let item = |(message, token): (MessageId, i64)| {
            let record = records.iter().find(|record| record.id == message.0);
            WorkItemId {
                token: Token(token),
                seq: record.map(|record| record.seq).unwrap_or_default(),
                attempts: record.map_or(0, |record| record.attempts),
                message,
            }
        };
        Ok(parsed.into_iter().map(item).collect())
    }

    /// Marks messages as done.
    pub async fn ack(&self, owner: &OwnerId, items: &[WorkItemId]) -> Result<Settlement, QueueError> {
        self.apply(owner, items, |_| Change::Done).await
    }

    /// Releases messages to be retried after the delay of the retry policy, and stores the error.
    pub async fn abandon(
        &self,
        owner: &OwnerId,
        items: &[WorkItemId],
        error: Option<&str>,
    ) -> Result<Settlement, QueueError> {
        let error = error.unwrap_or("abandoned");
        let delay = |item: &WorkItemId| self.retry.delay(item.attempts.max(1), 0.5);
        self.apply(owner, items, |item| retry(item, delay(item), error)).await
    }

    /// Releases messages to be retried after this delay instead of the retry policy's, and stores the error.
    pub async fn reschedule(
        &self,
        owner: &OwnerId,
        items: &[WorkItemId],
        delay: Duration,
        error: Option<&str>,
    ) -> Result<Settlement, QueueError> {
        let error = error.unwrap_or("rescheduled");
        self.apply(owner, items, |item| retry(item, delay, error)).await
    }

    /// Marks messages as dead, and stores the error.
    pub async fn fail(
        &self,
        owner: &OwnerId,
        items: &[WorkItemId],
        error: &str,
    ) -> Result<Settlement, QueueError> {
        self.apply(owner, items, |item| Change::Dead {
            error: error.to_owned(),
            counts: Counts::Made(item.attempts),
            blocks: None,
        })
        .await
    }

    /// Extends the claims to this lease, counted from now.
    pub async fn extend(
        &self,
        owner: &OwnerId,
        items: &[WorkItemId],
        lease: Duration,
    ) -> Result<Settlement, QueueError> {
        let lease = Lease::new(lease)?.length();
        self.apply(owner, items, |_| Change::Extend { lease }).await
    }

    /// Frees at most `limit` messages whose claim has expired, and returns their number.
    ///
    /// Optional: claims also take messages whose claim has expired.
    pub async fn reap(&self, limit: usize) -> Result<u64, QueueError> {
        let reaped = self.store.reap(Reap { older_than: Duration::ZERO, rows: limit, now: None }).await?;
        tracing::info!(store = self.name(), messages = reaped, "reaped");
        Ok(reaped)
    }

    async fn apply(
        &self,
        owner: &OwnerId,
        items: &[WorkItemId],
        change: impl Fn(&WorkItemId) -> Change,
    ) -> Result<Settlement, QueueError> {
        if items.is_empty() {
            return Ok(Settlement { changed: 0, ignored: 0 });
        }
        let newest = WorkItemId::newest(items);
        let twice = items.len() - newest.len();
        let outcomes = newest.into_iter().map(|item| outcome(item, change(item))).collect();
        let settlement = self.settle(owner, outcomes).await?;
        Ok(Settlement { ignored: settlement.ignored + twice, ..settlement })
    }

    async fn settle(&self, owner: &OwnerId, mut outcomes: Vec<Outcome>) -> Result<Settlement, QueueError> {
        let count = outcomes.len();
        // All settles lock their rows in this order, which prevents deadlocks.
        outcomes.sort_by_key(|outcome| outcome.seq);
        let settled = settle_now(&*self.store, self.request(owner, outcomes)).await?;
        // The settled message may have ended a join, whose continuation is now claimable.
        self.wakeup.notify();
        Ok(Settlement { changed: count - settled.stale.len(), ignored: settled.stale.len() })
    }

    fn request(&self, owner: &OwnerId, outcomes: Vec<Outcome>) -> Settle {
        let fence = Fence::Owner(owner.clone());
        Settle { fence, outcomes: outcomes.into(), on_done: self.on_done, repeats: None, now: None }
    }

    /// Marks a message as done in the handler's own transaction, so that its effect
    /// and its completion commit together.
    ///
    /// [`QueueError::NotHeld`] means that the claim was lost: roll back. After a successful commit, return
    /// `Ok` from the handler; the worker then does not settle the message. If the commit fails, return its
    /// error from the handler.
    pub async fn complete_on<Tx: ?Sized>(&self, tx: &mut Tx, message: &Message) -> Result<(), QueueError>
    where
        S: WriteOn<Tx>,
    {
        let request = self.request(message.owner(), vec![outcome(message.id(), Change::Done)]);
        let settled = self.store.settle_on(tx, request).await?;
        held(message, &settled)
    }

    /// Marks a message as done in a blocking driver's transaction; see [`Queue::complete_on`].
    pub fn complete_on_blocking<Tx: ?Sized>(&self, tx: &Tx, message: &Message) -> Result<(), QueueError>
    where
        S: BlockingWriteOn<Tx>,
    {
        let request = self.request(message.owner(), vec![outcome(message.id(), Change::Done)]);
        let settled = self.store.settle_blocking(tx, &request)?;
        held(message, &settled)
    }
}

impl<S: Store + Begin> Queue<S> {
    /// Opens a transaction of the driver that also accepts messages and events. Its commit wakes the workers.
    pub async fn begin(&self) -> Result<Transaction<S>, StoreError> {
        self.ready().await?;
        self.writer().begin().await
    }
}

impl<S: Store + Transact> Queue<S> {
    /// Runs a closure in a transaction on the store's writer thread, commits, and wakes the workers.
    ///
    /// For drivers whose transactions cannot leave their thread.
    pub async fn transaction<R, E, F>(&self, body: F) -> Result<R, TransactError<E>>
    where
        F: FnOnce(&S::Tx) -> Result<R, E> + Send + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        let result = Writer::new(Arc::clone(&self.store)).transaction(move |tx| body(tx)).await?;
        self.notify();
        Ok(result)
    }
}

/// Another attempt after the delay; the claim has counted this one.
fn retry(item: &WorkItemId, delay: Duration, error: &str) -> Change {
    let counts = Counts::Made(item.attempts);
    Change::Retry { delay, error: error.to_owned(), counts, wait: Wait::InPlace }
}

fn outcome(item: &WorkItemId, change: Change) -> Outcome {
    Outcome { seq: item.seq, id: item.message.0.clone(), token: item.token, change }
}

fn held(message: &Message, settled: &Settled) -> Result<(), QueueError> {
    if settled.stale.is_empty() {
        message.mark_settled();
        return Ok(());
    }
    Err(QueueError::NotHeld(message.id().to_string()))
}
