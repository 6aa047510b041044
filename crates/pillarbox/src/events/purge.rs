//! The purger: deletes done and dead events after their retention time, on a schedule.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::StartError;
use crate::model::Invalid;
use crate::port::{Purge, PurgeStatus, StoreError, StoreFuture, Table};

/// Maximum number of batches in one run, so that a run ends even if rows arrive as fast as they are deleted.
const BATCHES_MAX: usize = 100_000;

/// Retention times and schedule of a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeSettings {
    /// Retention of done events; [`Duration::MAX`] keeps them forever. Default: 7 days.
    pub keep_done: Duration,
    /// Retention of dead events; [`Duration::MAX`] keeps them forever. Default: 30 days.
    pub keep_dead: Duration,
    /// Retention of all events regardless of status; replaces the other two.
    ///
    /// Deletes undelivered events, so it is only allowed for a writer-only outbox. Default: none.
    pub keep_any: Option<Duration>,
    /// Maximum number of rows deleted in one transaction. Default: 500.
    pub batch: usize,
    /// Time between two runs. Default: 1 hour.
    pub interval: Duration,
}

impl Default for PurgeSettings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { keep_done: DAY * 7, keep_dead: DAY * 30, keep_any: None, batch: 500, interval: DAY / 24 }
    }
}

impl PurgeSettings {
    pub(crate) fn problems(&self) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if !(1..=100_000).contains(&self.batch) {
            problems.push(Invalid::range("purge batch", self.batch, "1 to 100000"));
        }
        if self.interval < Duration::from_millis(100) {
            problems.push(Invalid::range("purge interval", format!("{:?}", self.interval), "100ms or more"));
        }
        problems
    }

    fn kinds(&self) -> Vec<(PurgeStatus, Duration)> {
        let kinds = match self.keep_any {
            Some(keep) => vec![(PurgeStatus::Any, keep)],
            None => vec![(PurgeStatus::Done, self.keep_done), (PurgeStatus::Dead, self.keep_dead)],
        };
        kinds.into_iter().filter(|(_, keep)| *keep < Duration::MAX).collect()
    }
}

/// Deletes old events: every table does, and a program may bring its own, which archives them first, say.
pub trait EventPurger: Send + Sync + 'static {
    /// Deletes at most `limit` events of the request, and returns their number. Fewer than `limit` means that
    /// none are left.
    fn purge(&self, request: Purge) -> StoreFuture<'_, u64>;

    /// Name of the store, for logs.
    fn name(&self) -> &str;
}

impl<T: Table + ?Sized> EventPurger for Arc<T> {
    fn purge(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.admin().purge(request)
    }

    fn name(&self) -> &str {
        &self.facts().name
    }
}

enum State {
    Ready,
    Running(JoinHandle<()>),
    Closed,
}

/// Deletes old events on a schedule. Usable without an outbox.
pub struct Purger {
    purger: Arc<dyn EventPurger>,
    settings: PurgeSettings,
    stop: CancellationToken,
    state: Mutex<State>,
}

impl Purger {
    /// Creates a purger that is not started; fails if a setting is out of range.
    pub fn new(store: Arc<dyn Table>, settings: PurgeSettings) -> Result<Self, Invalid> {
        Self::with(Arc::new(store), settings)
    }

    /// Creates a purger that deletes events in its own way.
    pub fn with(purger: Arc<dyn EventPurger>, settings: PurgeSettings) -> Result<Self, Invalid> {
        if let Some(problem) = settings.problems().into_iter().next() {
            return Err(problem);
        }
        let (stop, state) = (CancellationToken::new(), Mutex::new(State::Ready));
        Ok(Self { purger, settings, stop, state })
    }

    /// Starts the schedule; the first run follows after one interval. Fails after a close.
    pub fn start(&self) -> Result<(), StartError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Closed => return Err(StartError::Closed("the purger")),
            State::Running(_) => return Ok(()),
            State::Ready => {}
        }
        let (purger, settings, stop) = (Arc::clone(&self.purger), self.settings.clone(), self.stop.clone());
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and close waits for it")]
        let handle = tokio::spawn(async move {
            while stop.run_until_cancelled(sleep(settings.interval)).await.is_some() {
                match run_once(&*purger, &settings).await {
                    Ok(0) => {}
                    Ok(rows) => tracing::info!(store = purger.name(), rows, "purged"),
                    Err(error) => tracing::error!(%error, "purge failed; the schedule continues"),
                }
            }
        });
        *state = State::Running(handle);
        Ok(())
    }

    /// Runs a purge now, in batches until one is not full. Returns the number of deleted rows.
    pub async fn run_once(&self) -> Result<u64, StoreError> {
        run_once(&*self.purger, &self.settings).await
    }

    /// Stops the schedule after the run in progress. Idempotent.
    pub async fn close(&self) {
        self.stop.cancel();
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Running(handle) = state
            && handle.await.is_err()
        {
            tracing::error!("the purger panicked");
        }
    }
}

impl Drop for Purger {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run_once(purger: &dyn EventPurger, settings: &PurgeSettings) -> Result<u64, StoreError> {
    in_batches(settings, |request| purger.purge(request)).await
}

/// Runs a purge unless another process is purging. On `stop` it ends after the current batch.
pub(crate) async fn run_in_turn(
    store: &dyn Table,
    settings: &PurgeSettings,
    stop: &CancellationToken,
) -> Result<u64, StoreError> {
    in_batches(settings, |request| {
        if stop.is_cancelled() {
            return Box::pin(async { Ok(0) });
        }
        store.admin().purge_in_turn(request)
    })
    .await
}

async fn in_batches<'a>(
    settings: &PurgeSettings,
    purge: impl Fn(Purge) -> StoreFuture<'a, u64>,
) -> Result<u64, StoreError> {
    let mut total = 0;
    for (status, older_than) in settings.kinds() {
        for _ in 0..BATCHES_MAX {
            let request = Purge { status, older_than, limit: settings.batch, now: None };
            let rows = purge(request).await?;
            total += rows;
            if rows < settings.batch as u64 {
                break;
            }
        }
    }
    Ok(total)
}
