//! The poller: reads or claims due events at an interval and hands them to a handler of one's own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::StartError;
use crate::engine::{caught, claim_at_once, settle_now};
use crate::model::{Event, Invalid, OwnerId, ROW_BYTES_MAX, Row, Seq, Token};
use crate::port::{
    ByteLimits, Change, Claim, ClaimFrom, Counts, Fence, Fetch, MetricsExporter, NoMetrics, OnDone, Outcome,
    Scope, Settle, Store, StoreError,
};
use crate::rules::Lease;

/// Bytes of one read.
const READ_BYTES_MAX: usize = 64 * 1_048_576;

/// An event as a poller hands it over.
#[derive(Debug, Clone)]
pub struct Polled {
    /// The event.
    pub event: Event,
    /// Failed attempts so far; under a claim this one is included.
    pub attempts: u32,
    /// The row's number.
    pub seq: Seq,
    /// The claim's token; zero without one.
    pub token: Token,
}

/// Takes what a poller finds.
pub trait PollHandler: Send + Sync + 'static {
    /// Takes an event; false ends the cycle, and the rest stays for the next one.
    fn handle(&self, polled: Polled) -> bool;

    /// How many events it has room for.
    fn available(&self) -> usize {
        usize::MAX
    }

    /// Rows are about to be read. What this handler ends from here to `poll_over` may still be among them.
    fn poll_begins(&self) {}

    /// All that was read has been handed in.
    fn poll_over(&self) {}
}

/// A poll under way, whatever becomes of it.
struct Polling<'a>(&'a dyn PollHandler);

impl<'a> Polling<'a> {
    fn begin(handler: &'a dyn PollHandler) -> Self {
        handler.poll_begins();
        Self(handler)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.poll_over();
    }
}

/// Claim locking: who holds the rows, and for how long.
#[derive(Debug, Clone)]
pub struct ClaimLocking {
    /// The owner.
    pub owner: OwnerId,
    /// How long a claim holds.
    pub lease: Lease,
}

impl ClaimLocking {
    /// Claims for an owner that is made here.
    #[must_use]
    pub fn new(lease: Lease) -> Self {
        Self { owner: OwnerId::random(), lease }
    }
}

/// How a poller polls.
#[derive(Clone)]
pub struct PollerSettings {
    /// How often. Default: every 5 s.
    pub interval: Duration,
    /// Rows in one poll. Default: 50.
    pub batch: usize,
    /// Rows younger than this are left for later. Default: none.
    pub skip_recent: Duration,
    /// Claims rows instead of only reading them; several pollers then share a table. Default: none.
    pub claim: Option<ClaimLocking>,
    /// What is measured. Default: nothing.
    pub metrics: Arc<dyn MetricsExporter>,
}

impl Default for PollerSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            batch: 50,
            skip_recent: Duration::ZERO,
            claim: None,
            metrics: Arc::new(NoMetrics),
        }
    }
}

struct Inner {
    store: Arc<dyn Store>,
    handler: Arc<dyn PollHandler>,
    settings: PollerSettings,
}

/// Polls a store for a handler. Usable alone; an outbox reads by ownership instead.
pub struct Poller {
    inner: Arc<Inner>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    /// A poller that has not started.
    pub fn new(
        store: Arc<dyn Store>,
        handler: Arc<dyn PollHandler>,
        settings: PollerSettings,
    ) -> Result<Self, Invalid> {
        if !(1..=100_000).contains(&settings.batch) {
            return Err(Invalid::range("poller batch", settings.batch, "1 to 100000"));
        }
        if settings.interval < Duration::from_millis(1) {
            return Err(Invalid::range("poller interval", format!("{:?}", settings.interval), "1ms or more"));
        }
        let inner = Arc::new(Inner { store, handler, settings });
        Ok(Self { inner, stop: CancellationToken::new(), task: Mutex::new(None) })
    }

    /// Polls at the interval until closed. Harmless when repeated; after a close it is an error.
    pub fn start(&self) -> Result<(), StartError> {
        let mut running = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stop.is_cancelled() {
            return Err(StartError::Closed("the poller"));
        }
        if running.is_some() {
            return Ok(());
        }
        let (inner, stop) = (Arc::clone(&self.inner), self.stop.clone());
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and close waits for it")]
        let task = tokio::spawn(async move {
            while !stop.is_cancelled() {
                match caught(inner.poll()).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::error!(%error, "poll failed, the next one runs"),
                    Err(panic) => tracing::error!(panic, "poll panicked, the next one runs"),
                }
                stop.run_until_cancelled(sleep(inner.settings.interval)).await;
            }
        });
        *running = Some(task);
        Ok(())
    }

    /// One poll by hand; how many events the handler took.
    pub async fn poll(&self) -> Result<usize, StoreError> {
        self.inner.poll().await
    }

    /// Ends polling; a cycle under way is finished. Harmless when repeated.
    pub async fn close(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("the poller ended by a panic");
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Inner {
    async fn poll(&self) -> Result<usize, StoreError> {
        let rows = self.settings.batch.min(self.handler.available());
        if rows == 0 {
            return Ok(0);
        }
        let _polling = Polling::begin(&*self.handler);
        let (rows, now) = self.read(rows).await?;
        let mut taken = 0;
        let mut rows = rows.into_iter();
        for row in rows.by_ref() {
            let (seq, id, token) = (row.seq, row.id.clone(), row.token);
            let change = match deliverable(row, now).map(|polled| self.handler.handle(polled)) {
                Ok(true) => {
                    taken += 1;
                    continue;
                }
                Ok(false) => Change::Release,
                Err(error) => {
                    tracing::error!(event = %id, error, "event is dead");
                    Change::Dead { error, counts: Counts::None, blocks: None }
                }
            };
            let refused = change == Change::Release;
            self.settle(vec![Outcome { seq, id, token, change }]).await?;
            if refused {
                break;
            }
        }
        let back =
            rows.map(|row| Outcome { seq: row.seq, id: row.id, token: row.token, change: Change::Release });
        self.settle(back.collect()).await?;
        Ok(taken)
    }

    /// Rows, and the database's now. A claim tells no time: the oldest row is looked at before it.
    async fn read(&self, rows: usize) -> Result<(Vec<Row>, Timestamp), StoreError> {
        let skip_recent = self.settings.skip_recent;
        let claim = self.settings.claim.as_ref();
        let (look, total) = if claim.is_some() { (1, 1) } else { (rows, READ_BYTES_MAX) };
        let bytes = ByteLimits { total, row: ROW_BYTES_MAX };
        let fetch = Fetch { scope: Scope::Due, rows: look, bytes, skip_recent, now: None };
        let fetched = self.store.fetch(fetch).await?;
        let oldest = fetched.rows.iter().map(|row| row.created_at).min();
        let age = oldest.and_then(|oldest| fetched.now.duration_since(oldest).try_into().ok());
        self.settings.metrics.oldest_lag(age.unwrap_or_default());
        let Some(claim) = claim else {
            return Ok((fetched.rows, fetched.now));
        };
        let (owner, lease) = (claim.owner.clone(), claim.lease.length());
        let bytes = ByteLimits { total: READ_BYTES_MAX, ..bytes };
        let topics = Arc::default();
        let request =
            Claim { from: ClaimFrom::Events, topics, owner, lease, rows, bytes, skip_recent, now: None };
        Ok((claim_at_once(&*self.store, request).await?, fetched.now))
    }

    /// Claims are given back or ended; rows that were only read need nothing but their end.
    async fn settle(&self, outcomes: Vec<Outcome>) -> Result<(), StoreError> {
        let claim = self.settings.claim.as_ref();
        let kept =
            outcomes.into_iter().filter(|outcome| claim.is_some() || outcome.change != Change::Release);
        let outcomes: Arc<[Outcome]> = kept.collect();
        if outcomes.is_empty() {
            return Ok(());
        }
        let fence = claim.map_or(Fence::Open, |claim| Fence::Owner(claim.owner.clone()));
        settle_now(&*self.store, Settle { fence, outcomes, on_done: OnDone::Keep, now: None }).await.map(drop)
    }
}

/// The event of a row as a handler gets it, or why it must never be delivered.
fn deliverable(row: Row, now: Timestamp) -> Result<Polled, String> {
    let event = row.event.map_err(|why| why.error())?;
    if row.expires_at.is_some_and(|at| at <= now) {
        return Err("expired before it was delivered".to_owned());
    }
    Ok(Polled { event, attempts: row.attempts, seq: row.seq, token: row.token })
}
