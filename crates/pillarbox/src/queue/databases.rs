//! Many databases: which there are, by name, and their queues, connected when they are needed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use uuid::Uuid;

use super::local_wakeup::LocalWakeup;
use super::{Queue, WorkerBuilder};
use crate::port::{Answer, Store, StoreError};

/// A database with an outbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    /// Its name, stable and without secrets: what it is routed by, and what logs say.
    pub name: String,
    /// How it is reached. A database whose URL changes is connected anew.
    pub url: String,
}

/// The URL may hold a password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Finds the databases there are.
pub trait Discovery: Send + Sync + 'static {
    /// Every database. After an error the known ones are kept.
    fn discover(&self) -> Answer<'_, Vec<Database>>;
}

/// Connects a store to a database.
pub trait Connect<S>: Send + Sync + 'static {
    /// The store.
    fn connect<'a>(&'a self, database: &'a Database) -> Answer<'a, S>;
}

impl<S, F, Fut> Connect<S> for F
where
    F: Fn(Database) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, StoreError>> + Send + 'static,
{
    fn connect<'a>(&'a self, database: &'a Database) -> Answer<'a, S> {
        Box::pin(self(database.clone()))
    }
}

/// What a queue is routed by: text or a UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteKey(String);

impl From<&str> for RouteKey {
    fn from(key: &str) -> Self {
        Self(key.to_owned())
    }
}

impl From<String> for RouteKey {
    fn from(key: String) -> Self {
        Self(key)
    }
}

impl From<Uuid> for RouteKey {
    fn from(key: Uuid) -> Self {
        Self(key.to_string())
    }
}

/// Why a key led nowhere.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// No database has this name.
    #[error("there is no database for the key {0:?}")]
    Unknown(String),
    /// It could not be connected.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One database and its queue, while it is connected.
pub(super) struct Entry<S> {
    pub(super) database: Database,
    queue: Mutex<Arc<OnceCell<Queue<S>>>>,
    pub(super) wakeup: LocalWakeup,
    /// Given as a store, not by URL: it stays.
    fixed: bool,
}

impl<S: Store> Entry<S> {
    fn fixed(database: Database, queue: Queue<S>) -> Arc<Self> {
        let wakeup = queue.wakeup().clone();
        let queue = Mutex::new(Arc::new(OnceCell::new_with(Some(queue))));
        Arc::new(Self { database, queue, wakeup, fixed: true })
    }

    fn by_url(database: Database, wakeup: LocalWakeup) -> Arc<Self> {
        Arc::new(Self { database, queue: Mutex::default(), wakeup, fixed: false })
    }

    fn cell(&self) -> Arc<OnceCell<Queue<S>>> {
        Arc::clone(&self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the connections, if others can be made. Users of the queue keep theirs until they drop it.
    pub(super) fn let_go(&self) {
        if !self.fixed {
            *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        }
    }

    /// Whether connections can be made again.
    pub(super) fn can_let_go(&self) -> bool {
        !self.fixed
    }

    pub(super) fn is_connected(&self) -> bool {
        self.cell().initialized()
    }
}

struct Inner<S> {
    entries: Mutex<BTreeMap<String, Arc<Entry<S>>>>,
    connect: Option<Box<dyn Connect<S>>>,
    discovery: Option<Box<dyn Discovery>>,
    refresh: Duration,
    /// Grows when the set has changed.
    changes: watch::Sender<u64>,
    /// Heard when something was enqueued by this process, in any of them.
    woken: Arc<watch::Sender<u64>>,
}

/// The databases of a service. Cheap to clone; a clone is the same set.
pub struct Databases<S> {
    inner: Arc<Inner<S>>,
}

impl<S> Clone for Databases<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Store> Databases<S> {
    fn of(
        entries: impl IntoIterator<Item = Arc<Entry<S>>>,
        connect: Option<Box<dyn Connect<S>>>,
        discovery: Option<Box<dyn Discovery>>,
        refresh: Duration,
        woken: Arc<watch::Sender<u64>>,
    ) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.database.name.clone(), entry)).collect();
        let (entries, changes) = (Mutex::new(entries), watch::Sender::new(0));
        Self { inner: Arc::new(Inner { entries, connect, discovery, refresh, changes, woken }) }
    }

    /// Stores that are connected already, by name.
    pub fn stores<N: Into<String>>(stores: impl IntoIterator<Item = (N, S)>) -> Self {
        let woken = Arc::default();
        let entry = |(name, store): (N, S)| {
            let database = Database { name: name.into(), url: String::new() };
            Entry::fixed(database, Queue::with_wakeup(Arc::new(store), LocalWakeup::beside(&woken)))
        };
        let entries: Vec<_> = stores.into_iter().map(entry).collect();
        Self::of(entries, None, None, Duration::MAX, woken)
    }

    /// One queue, as a set of one: what a worker on it works for.
    pub(super) fn one(queue: Queue<S>) -> Self {
        let database = Database { name: queue.name().to_owned(), url: String::new() };
        let woken = Arc::clone(queue.wakeup().any());
        Self::of([Entry::fixed(database, queue)], None, None, Duration::MAX, woken)
    }

    /// A fixed list, each connected when it is needed and disconnected when it has been idle.
    pub fn listed(databases: impl IntoIterator<Item = Database>, connect: impl Connect<S>) -> Self {
        let woken = Arc::default();
        let entry = |database| Entry::by_url(database, LocalWakeup::beside(&woken));
        let entries: Vec<_> = databases.into_iter().map(entry).collect();
        Self::of(entries, Some(Box::new(connect)), None, Duration::MAX, woken)
    }

    /// Whatever is discovered, every 5 minutes. Empty until [`Databases::refresh`] or a worker has asked first.
    pub fn discovered(discovery: impl Discovery, connect: impl Connect<S>) -> Self {
        Self::discovered_every(Duration::from_secs(300), discovery, connect)
    }

    /// Whatever is discovered, at this interval.
    pub fn discovered_every(refresh: Duration, discovery: impl Discovery, connect: impl Connect<S>) -> Self {
        let refresh = refresh.max(Duration::from_millis(10));
        Self::of([], Some(Box::new(connect)), Some(Box::new(discovery)), refresh, Arc::default())
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Entry<S>>>> {
        self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<Arc<Entry<S>>> {
        self.entries().values().cloned().collect()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    pub(super) fn woken(&self) -> watch::Receiver<u64> {
        self.inner.woken.subscribe()
    }

    /// How often databases are asked for; none where the list is fixed.
    #[must_use]
    pub fn refresh_every(&self) -> Option<Duration> {
        self.inner.discovery.as_ref().map(|_| self.inner.refresh)
    }

    /// The names of the databases that are known.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.entries().keys().cloned().collect()
    }

    /// How many of them are connected now.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.all().iter().filter(|entry| entry.is_connected()).count()
    }

    /// The queue of a key: of the database with that name. Connected once, then shared.
    pub async fn queue(&self, key: impl Into<RouteKey>) -> Result<Queue<S>, RouteError> {
        let RouteKey(key) = key.into();
        let entry = self.entries().get(&key).cloned();
        let Some(entry) = entry else { return Err(RouteError::Unknown(key)) };
        Ok(self.connected_queue(&entry).await?)
    }

    pub(super) async fn connected_queue(&self, entry: &Entry<S>) -> Result<Queue<S>, StoreError> {
        let cell = entry.cell();
        let queue = cell.get_or_try_init(async || {
            let Some(connect) = &self.inner.connect else {
                let detail = "there is no way to connect it";
                let kind = crate::port::ErrorKind::Unsupported;
                return Err(StoreError::new(kind, "connect", &entry.database.name, detail));
            };
            let store = Arc::new(connect.connect(&entry.database).await?);
            Ok(Queue::with_wakeup(store, entry.wakeup.clone()))
        });
        Ok(queue.await?.clone())
    }

    /// Discovers databases: adds new ones, removes those that are gone, and leaves alone what has
    /// not changed. An error keeps everything as it is.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let Some(discovery) = &self.inner.discovery else { return Ok(()) };
        let found = discovery.discover().await?;
        let mut entries = self.entries();
        let mut changed = 0_u64;
        let gone: Vec<String> =
            entries.keys().filter(|name| found.iter().all(|one| one.name != **name)).cloned().collect();
        for name in gone {
            entries.remove(&name);
            changed += 1;
            tracing::info!(store = name, "database is gone");
        }
        for database in found {
            if entries.get(&database.name).is_some_and(|entry| entry.database == database) {
                continue;
            }
            changed += 1;
            tracing::info!(store = database.name, "database found");
            let wakeup = LocalWakeup::beside(&self.inner.woken);
            entries.insert(database.name.clone(), Entry::by_url(database, wakeup));
        }
        drop(entries);
        if changed > 0 {
            self.inner.changes.send_modify(|count| *count += changed);
        }
        Ok(())
    }

    /// A worker for all of them.
    pub fn worker(&self) -> WorkerBuilder<S> {
        WorkerBuilder::new(self.clone())
    }
}

impl<S> fmt::Debug for Databases<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(entries.keys()).finish()
    }
}
