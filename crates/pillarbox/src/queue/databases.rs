//! Many databases: their discovery, and their queues by name, connected on demand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use uuid::Uuid;

use super::local_wakeup::LocalWakeup;
use super::{Queue, SchemaDeployment, WorkerBuilder};
use crate::port::{Store, StoreError, StoreFuture};

/// A database that contains an outbox table.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    /// Name of the database, used for routing and in logs. Must be stable and contain no secrets.
    pub name: String,
    /// Connection URL. If discovery returns another URL, the worker reconnects.
    pub url: String,
    /// Schema of its tables, for the function that connects it. Default: none.
    pub schema: Option<String>,
    /// Name of its table, for the function that connects it. Default: none.
    pub table: Option<String>,
}

impl Database {
    /// A database with the default schema and table.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self { name: name.into(), url: url.into(), schema: None, table: None }
    }

    /// Sets the schema of its tables.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Sets the name of its table.
    #[must_use]
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }
}

/// Leaves out the URL, which may contain a password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Discovers the databases of a service.
pub trait Discovery: Send + Sync + 'static {
    /// Returns all databases. After an error the previously discovered set stays.
    fn discover(&self) -> StoreFuture<'_, Vec<Database>>;
}

/// Opens the store of a database. Async closures `|database| …` implement it.
pub trait Connect<S>: Send + Sync + 'static {
    /// Opens the store.
    fn connect<'a>(&'a self, database: &'a Database) -> StoreFuture<'a, S>;
}

impl<S, F, Fut> Connect<S> for F
where
    F: Fn(Database) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, StoreError>> + Send + 'static,
{
    fn connect<'a>(&'a self, database: &'a Database) -> StoreFuture<'a, S> {
        Box::pin(self(database.clone()))
    }
}

/// The routing key of a queue: the name of its database, as text or UUID.
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

/// Reasons why a routing key gave no queue.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// No database has this name.
    #[error("there is no database for the key {0:?}")]
    Unknown(String),
    /// The database could not be connected.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One database, and its queue while it is connected.
pub(super) struct Entry<S> {
    pub(super) database: Database,
    queue: Mutex<Arc<OnceCell<Queue<S>>>>,
    pub(super) wakeup: LocalWakeup,
    /// Set once the tables are deployed, also by a queue whose connections were closed since.
    deployed: Arc<OnceCell<()>>,
    /// Created from an open store instead of a URL, so it cannot be reconnected and stays open.
    fixed: bool,
}

impl<S: Store> Entry<S> {
    fn fixed(database: Database, queue: Queue<S>) -> Arc<Self> {
        let wakeup = queue.wakeup().clone();
        let queue = Mutex::new(Arc::new(OnceCell::new_with(Some(queue))));
        Arc::new(Self { database, queue, wakeup, deployed: Arc::default(), fixed: true })
    }

    fn by_url(database: Database, wakeup: LocalWakeup) -> Arc<Self> {
        let (queue, deployed) = (Mutex::default(), Arc::default());
        Arc::new(Self { database, queue, wakeup, deployed, fixed: false })
    }

    fn cell(&self) -> Arc<OnceCell<Queue<S>>> {
        Arc::clone(&self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops the queue if it can be connected again. Other users keep their connections
    /// until they drop their clone.
    pub(super) fn let_go(&self) {
        if !self.fixed {
            *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        }
    }

    /// Changes what the queue of an open store does with its tables.
    fn deploy(&self, deployment: SchemaDeployment) {
        let mut cell = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = cell.get().cloned() {
            let deployed = self.deployed_by(deployment);
            *cell = Arc::new(OnceCell::new_with(Some(queue.deployed_by(deployed))));
        }
    }

    /// What a queue of this database needs to deploy its tables, if it is to.
    fn deployed_by(&self, deployment: SchemaDeployment) -> Option<Arc<OnceCell<()>>> {
        (deployment == SchemaDeployment::On).then(|| Arc::clone(&self.deployed))
    }

    /// The queue as a worker uses it, whose setting may differ from that of the queue or the set.
    pub(super) fn deploying(&self, queue: Queue<S>, deployment: Option<SchemaDeployment>) -> Queue<S> {
        match deployment {
            None => queue,
            Some(deployment) => queue.deployed_by(self.deployed_by(deployment)),
        }
    }

    /// Whether the database can be connected again by its URL.
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
    /// What a queue that is connected by its URL does with its tables.
    deployment: Mutex<SchemaDeployment>,
    /// Incremented when the set has changed.
    changes: watch::Sender<u64>,
    /// Notified when this process has enqueued messages to any of the databases.
    woken: Arc<watch::Sender<u64>>,
}

/// The databases of a service. Cheap to clone; all clones share one set.
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
        let (entries, changes, deployment) = (Mutex::new(entries), watch::Sender::new(0), Mutex::default());
        Self { inner: Arc::new(Inner { entries, connect, discovery, refresh, deployment, changes, woken }) }
    }

    /// A fixed set of open stores, by name.
    pub fn stores<N: Into<String>>(stores: impl IntoIterator<Item = (N, S)>) -> Self {
        let woken = Arc::default();
        let entry = |(name, store): (N, S)| {
            let database = Database::new(name, "");
            let (name, wakeup) = (Arc::from(database.name.as_str()), LocalWakeup::beside(&woken));
            Entry::fixed(database, Queue::with_wakeup(Arc::new(store), name, wakeup))
        };
        let entries: Vec<_> = stores.into_iter().map(entry).collect();
        Self::of(entries, None, None, Duration::MAX, woken)
    }

    /// A set that contains only this queue, for a worker on one queue.
    pub(super) fn one(queue: Queue<S>) -> Self {
        let database = Database::new(queue.name(), "");
        let woken = Arc::clone(queue.wakeup().any());
        Self::of([Entry::fixed(database, queue)], None, None, Duration::MAX, woken)
    }

    /// A fixed list of databases. A worker connects them on demand and disconnects them when they are idle.
    pub fn listed(databases: impl IntoIterator<Item = Database>, connect: impl Connect<S>) -> Self {
        let woken = Arc::default();
        let entry = |database| Entry::by_url(database, LocalWakeup::beside(&woken));
        let entries: Vec<_> = databases.into_iter().map(entry).collect();
        Self::of(entries, Some(Box::new(connect)), None, Duration::MAX, woken)
    }

    /// Databases that are discovered every 5 minutes.
    ///
    /// The set is empty until the first [`Databases::refresh`] or the first discovery of a worker.
    pub fn discovered(discovery: impl Discovery, connect: impl Connect<S>) -> Self {
        Self::discovered_every(Duration::from_secs(300), discovery, connect)
    }

    /// Databases that are discovered at this interval, which is at least 10 ms.
    pub fn discovered_every(refresh: Duration, discovery: impl Discovery, connect: impl Connect<S>) -> Self {
        let refresh = refresh.max(Duration::from_millis(10));
        Self::of([], Some(Box::new(connect)), Some(Box::new(discovery)), refresh, Arc::default())
    }

    /// Whether the tables of each database are created and upgraded when it is connected. Default: they are
    /// not. Applies to all clones.
    #[must_use]
    pub fn schema_deployment(self, deployment: SchemaDeployment) -> Self {
        *self.inner.deployment.lock().unwrap_or_else(PoisonError::into_inner) = deployment;
        self.all().iter().for_each(|entry| entry.deploy(deployment));
        self
    }

    fn deployment(&self) -> SchemaDeployment {
        *self.inner.deployment.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Interval of the discovery; `None` if the set is fixed.
    #[must_use]
    pub fn refresh_every(&self) -> Option<Duration> {
        self.inner.discovery.as_ref().map(|_| self.inner.refresh)
    }

    /// Names of all databases in the set.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.entries().keys().cloned().collect()
    }

    /// Number of databases that are connected now.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.all().iter().filter(|entry| entry.is_connected()).count()
    }

    /// Returns the queue of the database with this name. Connects it on first use
    /// and then shares the connection.
    pub async fn queue(&self, key: impl Into<RouteKey>) -> Result<Queue<S>, RouteError> {
        let RouteKey(key) = key.into();
        let entry = self.entries().get(&key).cloned();
        let Some(entry) = entry else { return Err(RouteError::Unknown(key)) };
        let queue = self.connected_queue(&entry).await?;
        queue.ready().await?;
        Ok(queue)
    }

    /// The queue of a database, connected if it is not. Deploys nothing yet.
    pub(super) async fn connected_queue(&self, entry: &Entry<S>) -> Result<Queue<S>, StoreError> {
        let cell = entry.cell();
        let queue = cell.get_or_try_init(async || {
            let Some(connect) = &self.inner.connect else {
                let detail = "there is no way to connect it";
                let kind = crate::port::ErrorKind::Unsupported;
                return Err(StoreError::new(kind, "connect", &entry.database.name, detail));
            };
            let store = Arc::new(connect.connect(&entry.database).await?);
            let queue = Queue::with_wakeup(store, entry.database.name.as_str().into(), entry.wakeup.clone());
            Ok(queue.deployed_by(entry.deployed_by(self.deployment())))
        });
        Ok(queue.await?.clone())
    }

    /// Runs the discovery now: adds new databases, removes missing ones, and
    /// replaces those whose URL changed.
    ///
    /// Unchanged databases keep their connections. After an error the set stays as it is.
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

    /// Configures a worker for all databases of the set.
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
