//! The purger: deletes what is done or dead and old, on a schedule.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::StartError;
use crate::model::Invalid;
use crate::port::{Answer, Purge, PurgeStatus, StoreError, Table};

/// Batches in one run, so that a run ends even if rows come as fast as they go.
const BATCHES_MAX: usize = 100_000;

/// What is purged, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeSettings {
    /// Keep done events this long; [`Duration::MAX`]: for ever. Default: 7 days.
    pub keep_done: Duration,
    /// Keep dead events this long; [`Duration::MAX`]: for ever. Default: 30 days.
    pub keep_dead: Duration,
    /// Delete every event older than this, whatever its status: only where something else delivers. Default: none.
    pub keep_any: Option<Duration>,
    /// Rows deleted in one transaction. Default: 500.
    pub batch: usize,
    /// How often. Default: hourly.
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

enum State {
    Ready,
    Running(JoinHandle<()>),
    Closed,
}

/// Deletes old events. Usable alone.
pub struct Purger {
    store: Arc<dyn Table>,
    settings: PurgeSettings,
    stop: CancellationToken,
    state: Mutex<State>,
}

impl Purger {
    /// A purger that has not started.
    pub fn new(store: Arc<dyn Table>, settings: PurgeSettings) -> Result<Self, Invalid> {
        if let Some(problem) = settings.problems().into_iter().next() {
            return Err(problem);
        }
        let (stop, state) = (CancellationToken::new(), Mutex::new(State::Ready));
        Ok(Self { store, settings, stop, state })
    }

    /// Starts the schedule; the first run comes after one interval. After a close this is an error.
    pub fn start(&self) -> Result<(), StartError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Closed => return Err(StartError::Closed("the purger")),
            State::Running(_) => return Ok(()),
            State::Ready => {}
        }
        let (store, settings, stop) = (Arc::clone(&self.store), self.settings.clone(), self.stop.clone());
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and close waits for it")]
        let handle = tokio::spawn(async move {
            while stop.run_until_cancelled(sleep(settings.interval)).await.is_some() {
                match run_once(&*store, &settings).await {
                    Ok(0) => {}
                    Ok(rows) => tracing::info!(store = store.facts().name, rows, "purged"),
                    Err(error) => tracing::error!(%error, "purge failed, the schedule goes on"),
                }
            }
        });
        *state = State::Running(handle);
        Ok(())
    }

    /// One run now: batches until one comes back short. How many rows went.
    pub async fn run_once(&self) -> Result<u64, StoreError> {
        run_once(&*self.store, &self.settings).await
    }

    /// Ends the schedule; a run under way is finished. Harmless when repeated.
    pub async fn close(&self) {
        self.stop.cancel();
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Running(handle) = state
            && handle.await.is_err()
        {
            tracing::error!("the purger ended by a panic");
        }
    }
}

impl Drop for Purger {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run_once(store: &dyn Table, settings: &PurgeSettings) -> Result<u64, StoreError> {
    in_batches(settings, |request| store.admin().purge(request)).await
}

/// One run, unless another process is at it; it ends after the batch in which it is told to stop.
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
    purge: impl Fn(Purge) -> Answer<'a, u64>,
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
