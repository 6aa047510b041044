//! The supervisor of a worker: schedules polls of all databases, at most one per database at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Databases;
use super::database_worker::{DatabaseWorker, Signal};
use super::databases::Entry;
use super::select::{Selection, SelectionState};
use super::worker::Plan;
use crate::engine::{called, caught};
use crate::events::run_in_turn;
use crate::port::{ErrorKind, Reap, Store, StoreError};

/// A poll that takes longer is slow: it no longer counts as busy, so that it does not delay other databases.
const SLOW: Duration = Duration::from_secs(1);
/// Maximum number of concurrent polls, not counting slow ones.
const POLLS: usize = 32;
/// Number of consecutive empty polls after which a database is idle.
const IDLE_AFTER: u32 = 10;
/// Default poll interval of an idle database whose connections are closed between polls.
const IDLE_POLL: Duration = Duration::from_secs(5);
/// Default poll interval of an idle database whose connections stay open.
const KEPT_POLL: Duration = Duration::from_millis(800);
/// Backoff after a failed poll; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Maximum delay before a failed discovery is retried.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(10);
/// Maximum delay between the start and the first purge.
const FIRST_PURGE: Duration = Duration::from_secs(60);

/// Time between two reaps of a database, and from the start to the first one. Claims take messages whose claim
/// has expired anyway; reaps make their rows say so.
const REAP_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of messages of one reap.
const REAP_ROWS: usize = 1_000;

/// How idle a worker is, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Idleness {
    /// Messages are in memory, or a database has not been polled yet.
    Busy,
    /// No message is in memory.
    Idle,
    /// No message is in memory, and the last poll began idle and found no due message.
    Drained,
}

/// The scheduling state of one database.
struct DatabaseState<S> {
    entry: Arc<Entry<S>>,
    worker: Option<Arc<DatabaseWorker>>,
    /// Start of the poll in progress, if any.
    polling: Option<Instant>,
    /// Earliest time of the next poll.
    next: Instant,
    /// Number of consecutive empty polls.
    empty: u32,
    /// Number of consecutive failed polls.
    failures: u32,
    /// A signal arrived since the last poll began, so that poll may have missed messages.
    signalled: bool,
    /// Count of the database's wake-up that was processed last.
    heard: u64,
    /// Whether no message was in memory when the current or last poll began.
    began_idle: bool,
    /// Idleness after the last poll; `Busy` before the first poll.
    found: Idleness,
    /// Time of the next purge; `None` disables it.
    purge_at: Option<Instant>,
    purging: bool,
    /// Time of the next reap; `None` while one runs.
    reap_at: Option<Instant>,
}

impl<S> DatabaseState<S> {
    fn is_idle(&self) -> bool {
        self.worker.as_ref().is_none_or(|worker| worker.is_idle())
    }

    fn is_to_purge(&self, now: Instant) -> bool {
        !self.purging && self.purge_at.is_some_and(|at| at <= now)
    }

    fn idleness(&self) -> Idleness {
        if self.is_idle() { self.found } else { Idleness::Busy }
    }
}

/// The result of a background job of the supervisor.
enum JobResult<S> {
    Polled {
        name: String,
        entry: Arc<Entry<S>>,
        worker: Option<Arc<DatabaseWorker>>,
        taken: Result<(usize, usize), StoreError>,
    },
    Closed,
    Purged {
        name: String,
        entry: Arc<Entry<S>>,
        rows: Result<u64, StoreError>,
    },
    Reaped {
        name: String,
        entry: Arc<Entry<S>>,
        messages: Result<u64, StoreError>,
    },
    Discovered(Result<(), StoreError>),
}

pub(super) struct Supervisor<S: Store> {
    databases: Databases<S>,
    plan: Arc<Plan>,
    selection: Box<dyn Selection>,
    stop: CancellationToken,
    states: BTreeMap<String, DatabaseState<S>>,
    jobs: JoinSet<JobResult<S>>,
    signals: (mpsc::Sender<Signal>, mpsc::Receiver<Signal>),
    last: Option<(String, usize)>,
    discover_at: Option<Instant>,
    idleness: watch::Sender<Idleness>,
}

impl<S: Store> Supervisor<S> {
    pub(super) fn new(
        databases: Databases<S>,
        plan: Plan,
        selection: Box<dyn Selection>,
        stop: CancellationToken,
        idleness: watch::Sender<Idleness>,
    ) -> Self {
        let discover_at = databases.refresh_every().map(|_| Instant::now());
        Self {
            databases,
            plan: Arc::new(plan),
            selection,
            stop,
            states: BTreeMap::new(),
            jobs: JoinSet::new(),
            signals: mpsc::channel(1_024),
            last: None,
            discover_at,
            idleness,
        }
    }

    pub(super) async fn run(mut self) {
        let (mut changes, mut woken) = (self.databases.changes(), self.databases.woken());
        self.sync();
        while !self.stop.is_cancelled() {
            self.publish_idleness();
            self.begin();
            let wake = self.wake_at();
            let stop = self.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.jobs.join_next(), if !self.jobs.is_empty() => match ended {
                    Ok(ended) => self.ended(ended),
                    Err(error) => tracing::error!(%error, "closing a database panicked"),
                },
                Some(signal) = self.signals.1.recv() => self.signalled(&signal.name),
                Ok(()) = changes.changed() => self.sync(),
                Ok(()) = woken.changed() => self.listen(),
                () = until(wake) => {}
            }
        }
        self.close().await;
    }

    /// Applies changes of the database set. The worker of a removed or
    /// changed database finishes its messages.
    fn sync(&mut self) {
        let entries: BTreeMap<String, Arc<Entry<S>>> =
            self.databases.all().into_iter().map(|entry| (entry.database.name.clone(), entry)).collect();
        let same = |name: &String, state: &DatabaseState<S>| {
            entries.get(name).is_some_and(|entry| Arc::ptr_eq(entry, &state.entry))
        };
        let gone: Vec<String> = self
            .states
            .iter()
            .filter(|(name, state)| !same(name, state))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(state) = self.states.remove(&name) {
                self.retire(state);
            }
        }
        let first_purge =
            self.plan.purge.as_ref().map(|purge| Instant::now() + purge.interval.min(FIRST_PURGE));
        for (name, entry) in entries {
            self.states.entry(name).or_insert_with(|| DatabaseState {
                entry,
                worker: None,
                polling: None,
                next: Instant::now(),
                empty: 0,
                failures: 0,
                signalled: false,
                heard: 0,
                began_idle: true,
                found: Idleness::Busy,
                purge_at: first_purge,
                purging: false,
                reap_at: Some(Instant::now() + REAP_EVERY),
            });
        }
    }

    /// Publishes the idleness of the worker. Messages of a poll in progress count once they are in memory.
    fn publish_idleness(&self) {
        let idleness = self.states.values().map(DatabaseState::idleness).min().unwrap_or(Idleness::Busy);
        self.idleness.send_if_modified(|told| std::mem::replace(told, idleness) != idleness);
    }

    fn retire(&mut self, state: DatabaseState<S>) {
        if let Some(worker) = state.worker {
            self.jobs.spawn(async move {
                worker.close().await;
                state.entry.let_go();
                JobResult::Closed
            });
        }
    }

    /// Starts the discovery if it is due, and polls of ready databases up to [`POLLS`].
    fn begin(&mut self) {
        let now = Instant::now();
        if self.discover_at.is_some_and(|at| at <= now) {
            self.discover_at = None;
            let databases = self.databases.clone();
            self.jobs.spawn(async move {
                let found = caught(databases.refresh()).await;
                JobResult::Discovered(
                    found.unwrap_or_else(|panic| Err(broken("discover", "databases", &panic))),
                )
            });
        }
        loop {
            let quick = |state: &DatabaseState<S>| state.polling.is_some_and(|since| now - since < SLOW);
            let busy: Vec<&str> =
                self.states.iter().filter(|(_, state)| quick(state)).map(|(name, _)| name.as_str()).collect();
            if busy.len() >= POLLS {
                return;
            }
            let free = |state: &DatabaseState<S>| state.polling.is_none() && state.next <= now;
            let ready: Vec<&str> =
                self.states.iter().filter(|(_, state)| free(state)).map(|(name, _)| name.as_str()).collect();
            if ready.is_empty() {
                return;
            }
            let last = self.last.as_ref().map(|(name, count)| (name.as_str(), *count));
            let state = SelectionState { ready: &ready, busy: &busy, last };
            let chosen = called(|| self.selection.select(state)).unwrap_or_else(|panic| {
                tracing::error!(panic, "the selection panicked: the first database is taken");
                Some(0)
            });
            let Some(chosen) = chosen else { return };
            let name = ready[chosen.min(ready.len() - 1)].to_owned();
            self.poll(&name, now);
        }
    }

    fn poll(&mut self, name: &str, now: Instant) {
        let Some(state) = self.states.get_mut(name) else { return };
        state.polling = Some(now);
        state.signalled = false;
        state.began_idle = state.is_idle();
        let (name, entry, worker) = (name.to_owned(), Arc::clone(&state.entry), state.worker.clone());
        let (databases, plan, signals) =
            (self.databases.clone(), Arc::clone(&self.plan), self.signals.0.clone());
        self.jobs.spawn(async move {
            let mut opened = worker;
            let poll = async {
                let worker = match &opened {
                    Some(worker) => Arc::clone(worker),
                    None => {
                        let queue = databases.connected_queue(&entry).await?;
                        let queue = entry.deploying(queue, plan.deployment);
                        queue.ready().await?;
                        let worker = DatabaseWorker::open(&name, &queue, &plan, signals);
                        opened = Some(Arc::clone(&worker));
                        worker
                    }
                };
                let taken = worker.claim(&plan).await?;
                plan.unhandled.check(worker.store(), &name).await;
                Ok(taken)
            };
            // User code that connects a database may panic. That counts as a failed poll, which is retried.
            let polled = caught(poll).await;
            let taken = polled.unwrap_or_else(|panic| Err(broken("poll", &name, &panic)));
            JobResult::Polled { name, entry, worker: opened, taken }
        });
    }

    fn ended(&mut self, ended: JobResult<S>) {
        let now = Instant::now();
        match ended {
            JobResult::Closed => {}
            JobResult::Purged { name, entry, rows } => self.purged(&name, &entry, rows, now),
            JobResult::Reaped { name, entry, messages } => self.reaped(&name, &entry, messages, now),
            JobResult::Discovered(result) => {
                let interval = self.databases.refresh_every().unwrap_or(DISCOVERY_PAUSE);
                let pause = match result {
                    Ok(()) => interval,
                    Err(error) => {
                        tracing::warn!(%error, "discovery failed: the last set of databases stays");
                        interval.min(DISCOVERY_PAUSE)
                    }
                };
                self.discover_at = Some(now + pause);
            }
            JobResult::Polled { name, entry, worker, taken } => {
                self.polled(&name, &entry, worker, taken, now)
            }
        }
    }

    fn polled(
        &mut self,
        name: &str,
        entry: &Arc<Entry<S>>,
        worker: Option<Arc<DatabaseWorker>>,
        taken: Result<(usize, usize), StoreError>,
        now: Instant,
    ) {
        let known = self.states.get_mut(name).filter(|state| Arc::ptr_eq(&state.entry, entry));
        let Some(state) = known else {
            // The database was removed or replaced during the poll: its worker finishes the claimed messages.
            if let Some(worker) = worker {
                self.jobs.spawn(async move {
                    worker.close().await;
                    JobResult::Closed
                });
            }
            return;
        };
        state.polling = None;
        state.worker = worker;
        match taken {
            Ok((asked, taken)) => {
                state.failures = 0;
                let nothing = state.began_idle && asked > 0 && taken == 0;
                state.found = if nothing { Idleness::Drained } else { Idleness::Idle };
                state.empty = if taken > 0 || asked == 0 { 0 } else { state.empty.saturating_add(1) };
                state.next = match (asked, taken) {
                    // Memory is full, or all topics are paused by their circuit breakers. A signal triggers
                    // an earlier poll when there is room again.
                    (0, _) => now + self.plan.poll,
                    // A full batch suggests more messages; a signal during the poll may
                    // announce messages that it missed.
                    _ if taken == asked || state.signalled => now,
                    _ => now + pause(&self.plan, state.empty, state.entry.can_let_go()),
                };
                tracing::debug!(store = name, messages = taken, "claimed");
                self.last = Some((name.to_owned(), taken));
                self.purge(name, now);
                self.reap(name, now);
                self.release_idle(name);
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let pause = (FIRST_PAUSE * 2_u32.pow(state.failures.min(7) - 1)).min(LONGEST_PAUSE);
                state.next = now + pause;
                tracing::warn!(store = name, %error, ?pause, "claiming failed, trying again");
                self.last = Some((name.to_owned(), 0));
            }
        }
    }

    /// Starts a purge of the database in the background, if it is due.
    fn purge(&mut self, name: &str, now: Instant) {
        let Some(state) = self.states.get_mut(name).filter(|state| state.is_to_purge(now)) else {
            return;
        };
        let (Some(settings), Some(worker)) = (self.plan.purge.clone(), state.worker.clone()) else {
            return;
        };
        state.purging = true;
        let (name, entry, stop) = (name.to_owned(), Arc::clone(&state.entry), self.stop.clone());
        self.jobs.spawn(async move {
            let purged = caught(run_in_turn(worker.store(), &settings, &stop)).await;
            let rows = purged.unwrap_or_else(|panic| Err(broken("purge", &name, &panic)));
            JobResult::Purged { name, entry, rows }
        });
    }

    fn purged(&mut self, name: &str, entry: &Arc<Entry<S>>, rows: Result<u64, StoreError>, now: Instant) {
        let interval = self.plan.purge.as_ref().map(|purge| purge.interval);
        let mut next = interval.map(|interval| now + interval);
        match rows {
            Ok(0) => {}
            Ok(rows) => tracing::info!(store = name, rows, "purged"),
            Err(error) if error.kind() == ErrorKind::Permission => {
                // Retrying cannot help without the permission, so the purge stays off for this database.
                tracing::warn!(store = name, %error, "purge failed: nothing is purged without this right");
                next = None;
            }
            Err(error) => tracing::warn!(store = name, %error, "purge failed, trying again later"),
        }
        let known = self.states.get_mut(name).filter(|state| Arc::ptr_eq(&state.entry, entry));
        if let Some(state) = known {
            (state.purge_at, state.purging) = (next, false);
        }
    }

    /// Frees messages whose claim has expired in the background, if it is time.
    fn reap(&mut self, name: &str, now: Instant) {
        let Some(state) = self.states.get_mut(name) else { return };
        let (Some(worker), true) = (state.worker.clone(), state.reap_at.is_some_and(|at| at <= now)) else {
            return;
        };
        state.reap_at = None;
        let (name, entry) = (name.to_owned(), Arc::clone(&state.entry));
        self.jobs.spawn(async move {
            let reap = Reap { older_than: Duration::ZERO, rows: REAP_ROWS, now: None };
            let reaped = caught(worker.store().reap(reap)).await;
            let messages = reaped.unwrap_or_else(|panic| Err(broken("reap", &name, &panic)));
            JobResult::Reaped { name, entry, messages }
        });
    }

    fn reaped(&mut self, name: &str, entry: &Arc<Entry<S>>, messages: Result<u64, StoreError>, now: Instant) {
        match messages {
            Ok(0) => {}
            Ok(messages) => tracing::info!(store = name, messages, "reaped"),
            Err(error) => tracing::warn!(store = name, %error, "reap failed, trying again later"),
        }
        let known = self.states.get_mut(name).filter(|state| Arc::ptr_eq(&state.entry, entry));
        if let Some(state) = known {
            state.reap_at = Some(now + REAP_EVERY);
        }
    }

    /// Closes the connections of an idle database between polls, if they can be opened again.
    fn release_idle(&mut self, name: &str) {
        let Some(state) = self.states.get_mut(name) else { return };
        let idle = state.empty >= IDLE_AFTER && state.worker.as_ref().is_some_and(|worker| worker.is_idle());
        if !idle || state.purging || state.reap_at.is_none() || !state.entry.can_let_go() {
            return;
        }
        if let Some(worker) = state.worker.take() {
            state.entry.let_go();
            self.jobs.spawn(async move {
                worker.close().await;
                JobResult::Closed
            });
        }
    }

    /// Finds the databases to which this process has enqueued messages, and schedules their polls.
    fn listen(&mut self) {
        let heard =
            |state: &mut DatabaseState<S>| std::mem::replace(&mut state.heard, state.entry.wakeup.count());
        let woken = self
            .states
            .iter_mut()
            .filter_map(|(name, state)| (heard(state) != state.heard).then(|| name.clone()));
        for name in woken.collect::<Vec<_>>() {
            self.signalled(&name);
        }
    }

    /// Schedules a poll now. A failing database keeps its backoff.
    fn signalled(&mut self, name: &str) {
        if let Some(state) = self.states.get_mut(name)
            && state.failures == 0
        {
            state.signalled = true;
            state.next = state.next.min(Instant::now());
        }
    }

    /// The next time at which the loop must run without a signal.
    fn wake_at(&self) -> Option<Instant> {
        let now = Instant::now();
        let polls = self.states.values().filter(|state| state.polling.is_none()).map(|state| state.next);
        // A poll that turns slow sends no signal but frees its place, so the loop wakes up at that time.
        // Times in the past are left out: a ready database that was not chosen waits for a busy one, whose
        // end wakes the loop.
        let slow = self.states.values().filter_map(|state| state.polling).map(|since| since + SLOW);
        let later = polls.chain(slow).filter(|at| *at > now);
        let idle = self.jobs.is_empty().then(|| now + self.plan.poll);
        later.chain(self.discover_at).chain(idle).min()
    }

    /// Stops claiming, and waits for all workers to drain.
    async fn close(mut self) {
        let workers: Vec<Arc<DatabaseWorker>> =
            self.states.values_mut().filter_map(|state| state.worker.take()).collect();
        for worker in workers {
            self.jobs.spawn(async move {
                worker.close().await;
                JobResult::Closed
            });
        }
        let late = Instant::now() + self.plan.settings.drain + LONGEST_PAUSE;
        while let Ok(Some(ended)) = tokio::time::timeout_at(late, self.jobs.join_next()).await {
            // A poll that was in progress may have opened this worker or claimed
            // messages after the close began.
            if let Ok(JobResult::Polled { worker: Some(worker), .. }) = ended {
                self.jobs.spawn(async move {
                    worker.close().await;
                    JobResult::Closed
                });
            }
        }
    }
}

/// Time until the next poll of a database without a full batch. Idle databases are polled less often.
///
/// An idle database with open connections is polled often enough that a message that becomes due is not late.
fn pause(plan: &Plan, empty: u32, lets_go: bool) -> Duration {
    match (empty < IDLE_AFTER, plan.idle_poll) {
        (true, _) => plan.poll,
        (false, Some(idle)) => idle.max(plan.poll),
        (false, None) => (if lets_go { IDLE_POLL } else { KEPT_POLL }).max(plan.poll),
    }
}

/// The error of a call that panicked.
fn broken(operation: &'static str, store: &str, panic: &str) -> StoreError {
    StoreError::new(ErrorKind::Unexpected, operation, store, format!("panicked: {panic}"))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
