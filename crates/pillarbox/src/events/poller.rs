//! The poller: reads or claims due events at an interval and passes them to a handler.

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

/// Maximum size of one read in bytes.
const READ_BYTES_MAX: usize = 64 * 1_048_576;

/// An event that a poller passes to its handler.
#[derive(Debug, Clone)]
pub struct Polled {
    /// The event to deliver.
    pub event: Event,
    /// Failed attempts so far; under a claim, including the current one.
    pub attempts: u32,
    /// Sequence number of the row.
    pub seq: Seq,
    /// Token of the claim; zero if the row was only read.
    pub token: Token,
    /// Whether the last claim expired without an outcome and `attempts` does not count that as an attempt: the
    /// event may have crashed its process.
    pub lapsed: bool,
}

/// Receives the events that a poller finds, and settles them.
pub trait PollHandler: Send + Sync + 'static {
    /// Accepts an event. Returning false ends the poll; the event and the remaining ones
    /// stay for the next poll.
    fn handle(&self, polled: Polled) -> bool;

    /// Maximum number of events that the handler has room for; the poller reads no more than that.
    fn available(&self) -> usize {
        usize::MAX
    }

    /// Whether the handler records the attempts of events whose last claim expired. Otherwise the poller records
    /// them for all such events that it claims, since any of them may have crashed the process.
    fn records_lapsed(&self) -> bool {
        false
    }

    /// Called before rows are read.
    ///
    /// The read may return events that the handler settles between this call and `poll_over`; the handler
    /// must not deliver them again.
    fn poll_begins(&self) {}

    /// Called when all events of the poll have been passed to `handle`, or the poll failed.
    fn poll_over(&self) {}
}

/// A poll in progress. Calls `poll_over` when dropped, so also when the poll fails or panics.
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

/// Claim locking: the owner of the claims and their lease.
#[derive(Debug, Clone)]
pub struct ClaimLocking {
    /// Owner of the claims. Must be unique among concurrent pollers.
    pub owner: OwnerId,
    /// How long a claim is valid. After that another poller may claim the event, although its handler still holds it.
    pub lease: Lease,
}

impl ClaimLocking {
    /// Claims under a random owner id.
    #[must_use]
    pub fn new(lease: Lease) -> Self {
        Self { owner: OwnerId::random(), lease }
    }
}

/// Settings of a [`Poller`].
#[derive(Clone)]
pub struct PollerSettings {
    /// Pause between two polls. Default: 5 s.
    pub interval: Duration,
    /// Maximum number of rows in one poll. Default: 50.
    pub batch: usize,
    /// Minimum age of a row before a poll returns it. Default: zero.
    pub skip_recent: Duration,
    /// Claims rows instead of only reading them, so that several pollers can share a table. Default: none.
    pub claim: Option<ClaimLocking>,
    /// Receiver of the age of the oldest due row. Default: none.
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

/// Polls a store for a handler.
///
/// Usable without an outbox. An outbox does not poll this way: it reads the slots that its node holds.
pub struct Poller {
    inner: Arc<Inner>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    /// Creates a poller that is not started; fails if a setting is out of range.
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

    /// Starts polling at the interval. Has no effect if polling runs already; fails after a close.
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

    /// Polls once now. Returns the number of events that the handler accepted.
    pub async fn poll(&self) -> Result<usize, StoreError> {
        self.inner.poll().await
    }

    /// Stops polling after the poll in progress. Idempotent.
    pub async fn close(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("the poller panicked");
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
            let attempts = untried(&row);
            let back = given_back(&row);
            let change = match deliverable(row, now).map(|polled| self.handler.handle(polled)) {
                Ok(true) => {
                    taken += 1;
                    continue;
                }
                Ok(false) => back.clone(),
                Err(error) => {
                    tracing::error!(event = ?id, error, "event is dead");
                    Change::Dead { error, counts: Counts::NotMade(attempts), blocks: None }
                }
            };
            let refused = change == back;
            self.settle(vec![Outcome { seq, id, token, change }]).await?;
            if refused {
                break;
            }
        }
        let back = rows.map(|row| {
            let change = given_back(&row);
            Outcome { seq: row.seq, id: row.id, token: row.token, change }
        });
        self.settle(back.collect()).await?;
        Ok(taken)
    }

    /// Reads or claims rows, and returns them with the database's time.
    ///
    /// A claim does not return the time, so a fetch of one row runs before it; that
    /// fetch also measures the lag.
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
        if self.handler.records_lapsed() {
            return Ok((self.store.claim(request).await?, fetched.now));
        }
        let mut rows = claim_at_once(&*self.store, request).await?;
        rows.iter_mut().for_each(|row| row.lapsed = false);
        Ok((rows, fetched.now))
    }

    /// Settles outcomes. Releases are only sent for claimed rows: a row that was only read is still pending.
    async fn settle(&self, outcomes: Vec<Outcome>) -> Result<(), StoreError> {
        let claim = self.settings.claim.as_ref();
        let sent = |outcome: &Outcome| claim.is_some() || !matches!(outcome.change, Change::Release { .. });
        let outcomes: Arc<[Outcome]> = outcomes.into_iter().filter(sent).collect();
        if outcomes.is_empty() {
            return Ok(());
        }
        let fence = claim.map_or(Fence::Open, |claim| Fence::Owner(claim.owner.clone()));
        let on_done = OnDone::Keep;
        let request = Settle { fence, outcomes, on_done, repeats: None, now: None };
        settle_now(&*self.store, request).await.map(drop)
    }
}

/// The attempts of a row without the one that a claim has counted.
fn untried(row: &Row) -> u32 {
    row.attempts.saturating_sub(u32::from(row.token != Token::default()))
}

/// Returns a row to the store untried. If the last claim expired, this one is made to expire too: a release would
/// erase that fact.
fn given_back(row: &Row) -> Change {
    if row.lapsed {
        Change::Extend { lease: Duration::ZERO }
    } else {
        Change::Release { attempts: untried(row) }
    }
}

/// Converts a row for the handler, or returns the reason why its event is dead.
fn deliverable(row: Row, now: Timestamp) -> Result<Polled, String> {
    let event = row.event.map_err(|why| why.error())?;
    if row.expires_at.is_some_and(|at| at <= now) {
        return Err("expired before it was delivered".to_owned());
    }
    Ok(Polled { event, attempts: row.attempts, seq: row.seq, token: row.token, lapsed: row.lapsed })
}
