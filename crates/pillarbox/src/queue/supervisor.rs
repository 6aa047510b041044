//! The supervisor of a worker: one look at a database at a time for each of them, none waiting for another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Databases;
use super::databases::Entry;
use super::select::{Selection, Standing};
use super::station::{Signal, Station};
use super::worker::Plan;
use crate::engine::{called, caught};
use crate::events::run_in_turn;
use crate::port::{ErrorKind, Store, StoreError};

/// A look that takes longer is not waited for by the choice of the next database.
const SLOW: Duration = Duration::from_secs(1);
/// At most so many databases are looked at at once, not counting slow ones.
const LOOKS: usize = 32;
/// A database that has had nothing for so many looks is idle.
const IDLE_AFTER: u32 = 10;
/// How often an idle one is looked at, by default: where connections are let go of, and where they are kept.
const IDLE_POLL: Duration = Duration::from_secs(5);
const KEPT_POLL: Duration = Duration::from_millis(800);
/// A database that fails is tried again after this, doubling.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Discovery that fails is tried again after this at the latest.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(10);
/// How soon after the start old messages are deleted for the first time.
const FIRST_PURGE: Duration = Duration::from_secs(60);

/// How much there is to do, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rest {
    /// Something is in hand, or some database was not looked at yet.
    Busy,
    /// Nothing is in hand.
    Quiet,
    /// And a look that began so found nothing.
    Empty,
}

/// One database as the worker sees it.
struct Place<S> {
    entry: Arc<Entry<S>>,
    station: Option<Arc<Station>>,
    /// Since when it is being looked at.
    looking: Option<Instant>,
    next: Instant,
    /// Looks in a row that found nothing.
    empty: u32,
    failures: u32,
    /// Something happened while it was being looked at.
    signalled: bool,
    /// How often its bell was heard.
    heard: u64,
    /// Nothing was in hand when the look began that is under way, or that was the last.
    began_quiet: bool,
    /// What the last look found: `Busy` before the first.
    found: Rest,
    /// When old messages are deleted next; none: never.
    purge_at: Option<Instant>,
    purging: bool,
}

impl<S> Place<S> {
    fn is_quiet(&self) -> bool {
        self.station.as_ref().is_none_or(|station| station.is_quiet())
    }

    fn is_to_purge(&self, now: Instant) -> bool {
        !self.purging && self.purge_at.is_some_and(|at| at <= now)
    }

    fn rest(&self) -> Rest {
        if self.is_quiet() { self.found } else { Rest::Busy }
    }
}

/// What ended.
enum Ended<S> {
    Looked {
        name: String,
        entry: Arc<Entry<S>>,
        station: Option<Arc<Station>>,
        taken: Result<(usize, usize), StoreError>,
    },
    Closed,
    Purged {
        name: String,
        entry: Arc<Entry<S>>,
        rows: Result<u64, StoreError>,
    },
    Discovered(Result<(), StoreError>),
}

pub(super) struct Supervisor<S: Store> {
    databases: Databases<S>,
    plan: Arc<Plan>,
    selection: Box<dyn Selection>,
    stop: CancellationToken,
    places: BTreeMap<String, Place<S>>,
    jobs: JoinSet<Ended<S>>,
    signals: (mpsc::Sender<Signal>, mpsc::Receiver<Signal>),
    last: Option<(String, usize)>,
    discover_at: Option<Instant>,
    rest: watch::Sender<Rest>,
}

impl<S: Store> Supervisor<S> {
    pub(super) fn new(
        databases: Databases<S>,
        plan: Plan,
        selection: Box<dyn Selection>,
        stop: CancellationToken,
        rest: watch::Sender<Rest>,
    ) -> Self {
        let discover_at = databases.refresh_every().map(|_| Instant::now());
        Self {
            databases,
            plan: Arc::new(plan),
            selection,
            stop,
            places: BTreeMap::new(),
            jobs: JoinSet::new(),
            signals: mpsc::channel(1_024),
            last: None,
            discover_at,
            rest,
        }
    }

    pub(super) async fn run(mut self) {
        let (mut changes, mut rung) = (self.databases.changes(), self.databases.rung());
        self.sync();
        while !self.stop.is_cancelled() {
            self.tell_rest();
            self.begin();
            let wake = self.wake_at();
            let stop = self.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.jobs.join_next(), if !self.jobs.is_empty() => match ended {
                    Ok(ended) => self.ended(ended),
                    Err(error) => tracing::error!(%error, "closing a database ended by a panic"),
                },
                Some(signal) = self.signals.1.recv() => self.signalled(&signal.name),
                Ok(()) = changes.changed() => self.sync(),
                Ok(()) = rung.changed() => self.listen(),
                () = until(wake) => {}
            }
        }
        self.close().await;
    }

    /// Takes over what the set of databases is now. One that is gone or changed finishes what it has.
    fn sync(&mut self) {
        let entries: BTreeMap<String, Arc<Entry<S>>> =
            self.databases.all().into_iter().map(|entry| (entry.database.name.clone(), entry)).collect();
        let same = |name: &String, place: &Place<S>| {
            entries.get(name).is_some_and(|entry| Arc::ptr_eq(entry, &place.entry))
        };
        let gone: Vec<String> = self
            .places
            .iter()
            .filter(|(name, place)| !same(name, place))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(place) = self.places.remove(&name) {
                self.retire(place);
            }
        }
        let first_purge =
            self.plan.purge.as_ref().map(|purge| Instant::now() + purge.interval.min(FIRST_PURGE));
        for (name, entry) in entries {
            self.places.entry(name).or_insert_with(|| Place {
                entry,
                station: None,
                looking: None,
                next: Instant::now(),
                empty: 0,
                failures: 0,
                signalled: false,
                heard: 0,
                began_quiet: true,
                found: Rest::Busy,
                purge_at: first_purge,
                purging: false,
            });
        }
    }

    /// How things stand. What a look that is under way has taken shows when it is in hand.
    fn tell_rest(&self) {
        let rest = self.places.values().map(Place::rest).min().unwrap_or(Rest::Busy);
        self.rest.send_if_modified(|told| std::mem::replace(told, rest) != rest);
    }

    fn retire(&mut self, place: Place<S>) {
        if let Some(station) = place.station {
            self.jobs.spawn(async move {
                station.close().await;
                place.entry.let_go();
                Ended::Closed
            });
        }
    }

    /// Begins what there is to begin: discovery, looks.
    fn begin(&mut self) {
        let now = Instant::now();
        if self.discover_at.is_some_and(|at| at <= now) {
            self.discover_at = None;
            let databases = self.databases.clone();
            self.jobs.spawn(async move {
                let found = caught(databases.refresh()).await;
                Ended::Discovered(found.unwrap_or_else(|panic| Err(broken("discover", "databases", &panic))))
            });
        }
        loop {
            let quick = |place: &Place<S>| place.looking.is_some_and(|since| now - since < SLOW);
            let busy: Vec<&str> =
                self.places.iter().filter(|(_, place)| quick(place)).map(|(name, _)| name.as_str()).collect();
            if busy.len() >= LOOKS {
                return;
            }
            let free = |place: &Place<S>| place.looking.is_none() && place.next <= now;
            let ready: Vec<&str> =
                self.places.iter().filter(|(_, place)| free(place)).map(|(name, _)| name.as_str()).collect();
            if ready.is_empty() {
                return;
            }
            let last = self.last.as_ref().map(|(name, count)| (name.as_str(), *count));
            let standing = Standing { ready: &ready, busy: &busy, last };
            let chosen = called(|| self.selection.select(standing)).unwrap_or_else(|panic| {
                tracing::error!(panic, "the selection panicked: the first database is taken");
                Some(0)
            });
            let Some(chosen) = chosen else { return };
            let name = ready[chosen.min(ready.len() - 1)].to_owned();
            self.look(&name, now);
        }
    }

    fn look(&mut self, name: &str, now: Instant) {
        let Some(place) = self.places.get_mut(name) else { return };
        place.looking = Some(now);
        place.signalled = false;
        place.began_quiet = place.is_quiet();
        let (name, entry, station) = (name.to_owned(), Arc::clone(&place.entry), place.station.clone());
        let (databases, plan, signals) =
            (self.databases.clone(), Arc::clone(&self.plan), self.signals.0.clone());
        self.jobs.spawn(async move {
            let mut opened = station;
            let look = async {
                let station = match &opened {
                    Some(station) => Arc::clone(station),
                    None => {
                        let queue = databases.connected_queue(&entry).await?;
                        let station = Station::open(&name, &queue, &plan, signals);
                        opened = Some(Arc::clone(&station));
                        station
                    }
                };
                let taken = station.claim(&plan).await?;
                plan.unhandled.look(station.store(), &name).await;
                Ok(taken)
            };
            // Whoever connects a database may panic; it is looked at again like one that failed.
            let looked = caught(look).await;
            let taken = looked.unwrap_or_else(|panic| Err(broken("look", &name, &panic)));
            Ended::Looked { name, entry, station: opened, taken }
        });
    }

    fn ended(&mut self, ended: Ended<S>) {
        let now = Instant::now();
        match ended {
            Ended::Closed => {}
            Ended::Purged { name, entry, rows } => self.purged(&name, &entry, rows, now),
            Ended::Discovered(result) => {
                let interval = self.databases.refresh_every().unwrap_or(DISCOVERY_PAUSE);
                let pause = match result {
                    Ok(()) => interval,
                    Err(error) => {
                        tracing::warn!(%error, "databases could not be discovered: the last set stays");
                        interval.min(DISCOVERY_PAUSE)
                    }
                };
                self.discover_at = Some(now + pause);
            }
            Ended::Looked { name, entry, station, taken } => self.looked(&name, &entry, station, taken, now),
        }
    }

    fn looked(
        &mut self,
        name: &str,
        entry: &Arc<Entry<S>>,
        station: Option<Arc<Station>>,
        taken: Result<(usize, usize), StoreError>,
        now: Instant,
    ) {
        let known = self.places.get_mut(name).filter(|place| Arc::ptr_eq(&place.entry, entry));
        let Some(place) = known else {
            // Gone while it was looked at: what was claimed is finished.
            if let Some(station) = station {
                self.jobs.spawn(async move {
                    station.close().await;
                    Ended::Closed
                });
            }
            return;
        };
        place.looking = None;
        place.station = station;
        match taken {
            Ok((asked, taken)) => {
                place.failures = 0;
                let nothing = place.began_quiet && asked > 0 && taken == 0;
                place.found = if nothing { Rest::Empty } else { Rest::Quiet };
                place.empty = if taken > 0 || asked == 0 { 0 } else { place.empty.saturating_add(1) };
                place.next = match (asked, taken) {
                    // There was no room: a signal tells when there is.
                    (0, _) => now + self.plan.poll,
                    _ if taken == asked || place.signalled => now,
                    _ => now + pause(&self.plan, place.empty, place.entry.can_let_go()),
                };
                tracing::debug!(store = name, messages = taken, "claimed");
                self.last = Some((name.to_owned(), taken));
                self.purge(name, now);
                self.rest(name);
            }
            Err(error) => {
                place.failures = place.failures.saturating_add(1);
                let pause = (FIRST_PAUSE * 2_u32.pow(place.failures.min(7) - 1)).min(LONGEST_PAUSE);
                place.next = now + pause;
                tracing::warn!(store = name, %error, ?pause, "claiming failed, trying again");
                self.last = Some((name.to_owned(), 0));
            }
        }
    }

    /// Deletes old messages beside what else is done there, if it is time.
    fn purge(&mut self, name: &str, now: Instant) {
        let Some(place) = self.places.get_mut(name).filter(|place| place.is_to_purge(now)) else {
            return;
        };
        let (Some(settings), Some(station)) = (self.plan.purge.clone(), place.station.clone()) else {
            return;
        };
        place.purging = true;
        let (name, entry, stop) = (name.to_owned(), Arc::clone(&place.entry), self.stop.clone());
        self.jobs.spawn(async move {
            let purged = caught(run_in_turn(station.store(), &settings, &stop)).await;
            let rows = purged.unwrap_or_else(|panic| Err(broken("purge", &name, &panic)));
            Ended::Purged { name, entry, rows }
        });
    }

    fn purged(&mut self, name: &str, entry: &Arc<Entry<S>>, rows: Result<u64, StoreError>, now: Instant) {
        let interval = self.plan.purge.as_ref().map(|purge| purge.interval);
        let mut next = interval.map(|interval| now + interval);
        match rows {
            Ok(0) => {}
            Ok(rows) => tracing::info!(store = name, rows, "purged"),
            Err(error) if error.kind() == ErrorKind::Permission => {
                tracing::warn!(store = name, %error, "purge failed: nothing is purged without this right");
                next = None;
            }
            Err(error) => tracing::warn!(store = name, %error, "purge failed, trying again later"),
        }
        let known = self.places.get_mut(name).filter(|place| Arc::ptr_eq(&place.entry, entry));
        if let Some(place) = known {
            (place.purge_at, place.purging) = (next, false);
        }
    }

    /// A database that has been empty for a while needs no connections between looks, if others can be made.
    fn rest(&mut self, name: &str) {
        let Some(place) = self.places.get_mut(name) else { return };
        let idle =
            place.empty >= IDLE_AFTER && place.station.as_ref().is_some_and(|station| station.is_quiet());
        if !idle || place.purging || !place.entry.can_let_go() {
            return;
        }
        if let Some(station) = place.station.take() {
            place.entry.let_go();
            self.jobs.spawn(async move {
                station.close().await;
                Ended::Closed
            });
        }
    }

    /// Someone in this process has enqueued something: where?
    fn listen(&mut self) {
        let heard = |place: &mut Place<S>| std::mem::replace(&mut place.heard, place.entry.bell.count());
        let rung = self
            .places
            .iter_mut()
            .filter_map(|(name, place)| (heard(place) != place.heard).then(|| name.clone()));
        for name in rung.collect::<Vec<_>>() {
            self.signalled(&name);
        }
    }

    fn signalled(&mut self, name: &str) {
        if let Some(place) = self.places.get_mut(name)
            && place.failures == 0
        {
            place.signalled = true;
            place.next = place.next.min(Instant::now());
        }
    }

    /// When something is to be begun without anything happening before.
    fn wake_at(&self) -> Option<Instant> {
        let now = Instant::now();
        let looks = self.places.values().filter(|place| place.looking.is_none()).map(|place| place.next);
        // A look becomes slow without telling. What is ready and was not chosen waits for one that is busy.
        let slow = self.places.values().filter_map(|place| place.looking).map(|since| since + SLOW);
        let later = looks.chain(slow).filter(|at| *at > now);
        let idle = self.jobs.is_empty().then(|| now + self.plan.poll);
        later.chain(self.discover_at).chain(idle).min()
    }

    /// Claims nothing more, and lets every station finish.
    async fn close(mut self) {
        let stations: Vec<Arc<Station>> =
            self.places.values_mut().filter_map(|place| place.station.take()).collect();
        for station in stations {
            self.jobs.spawn(async move {
                station.close().await;
                Ended::Closed
            });
        }
        let late = Instant::now() + self.plan.settings.drain + LONGEST_PAUSE;
        while let Ok(Some(ended)) = tokio::time::timeout_at(late, self.jobs.join_next()).await {
            if let Ok(Ended::Looked { station: Some(station), .. }) = ended {
                self.jobs.spawn(async move {
                    station.close().await;
                    Ended::Closed
                });
            }
        }
    }
}

/// An empty queue is looked at less often; one whose connections are kept, so often that what falls due is not late.
fn pause(plan: &Plan, empty: u32, lets_go: bool) -> Duration {
    match (empty < IDLE_AFTER, plan.idle_poll) {
        (true, _) => plan.poll,
        (false, Some(idle)) => idle.max(plan.poll),
        (false, None) => (if lets_go { IDLE_POLL } else { KEPT_POLL }).max(plan.poll),
    }
}

/// A call that panicked.
fn broken(operation: &'static str, store: &str, panic: &str) -> StoreError {
    StoreError::new(ErrorKind::Unexpected, operation, store, format!("panicked: {panic}"))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
