//! The store handle: implements the ports over the writer thread and the reader threads.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use pillarbox::model::{NodeId, Row, Written};
use pillarbox::port::{
    Admin, Change, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, Items, Joins, Membership,
    Native, Promote, Promoted, Reap, Register, Settle, Settled, Store, StoreError, StoreFuture, Table,
    Wakeups, Write,
};
use pillarbox_store_kit::handle;
use tokio::sync::oneshot;

use crate::config::{Access, SqliteStoreBuilder};
use crate::error::DriverError;
use crate::insert::insert_rows;
use crate::job::{Call, Durability};
use crate::kind::Kind;
use crate::reader::Reader;
use crate::settle::settle;
use crate::sql::Sql;
use crate::time::now;
use crate::transaction::SqliteTransaction;
use crate::wakeups::Watcher;
use crate::writer::Writer;
use crate::{claim, fetch, membership, promote, rights};

/// An outbox table in an SQLite file: native (`Native`) or a table of items (`Items`).
///
/// Clones share one set of threads, which end when the last clone is dropped.
pub struct SqliteTable<K>(Arc<Shared>, PhantomData<K>);

/// A store over Pillarbox's own tables (the native layout) in an SQLite file.
pub type SqliteStore = SqliteTable<Native>;

/// A store over a table that belongs to another program (the flowcatalyst layout) in an SQLite file.
pub type SqliteItemStore = SqliteTable<Items>;

/// The state that all clones share.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) path: PathBuf,
    access: Access,
    pub(crate) name: Arc<str>,
    pub(crate) sql: Arc<Sql>,
    pub(crate) writer: Writer,
    fetcher: Reader,
    inspector: Reader,
    watcher: OnceLock<Watcher>,
}

impl SqliteStore {
    /// Opens a file with default settings, and creates it if it does not exist.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder(path).open()
    }

    /// Opens the file of a URL `sqlite:FILE`, with default settings.
    pub fn open_url(url: &str) -> Result<Self, StoreError> {
        Self::builder_from_url(url)?.open()
    }

    /// Returns a builder for a store in this file.
    pub fn builder(path: impl AsRef<Path>) -> SqliteStoreBuilder {
        SqliteStoreBuilder::new(path.as_ref())
    }

    /// Returns a builder for a store in the file of a URL `sqlite:FILE`.
    pub fn builder_from_url(url: &str) -> Result<SqliteStoreBuilder, StoreError> {
        SqliteStoreBuilder::from_url(url)
    }
}

impl SqliteStoreBuilder {
    pub(crate) fn start<K: Kind>(self) -> Result<SqliteTable<K>, StoreError> {
        let name: Arc<str> = self.settings.name.as_str().into();
        let path = self.path.clone();
        self.start_threads()
            .map_err(|failure| rights::explained(failure, &path).into_store_error("open", &name))
    }

    fn start_threads<K: Kind>(self) -> Result<SqliteTable<K>, DriverError> {
        let sql = Arc::new(self.sql::<K>());
        let Self { path, settings, synchronous, group_time, opening } = self;
        let store: Arc<str> = settings.name.as_str().into();
        let threads = |error: std::io::Error| {
            DriverError::Refused(ErrorKind::Unavailable, format!("cannot start a thread: {error}"))
        };
        let reader = |thread: &str| {
            let connection = opening.reader(&path)?;
            Reader::start(thread, connection, Arc::clone(&sql), Arc::clone(&store), opening.busy_timeout)
                .map_err(threads)
        };
        let tx = SqliteTransaction::new(opening.writer(&path, synchronous)?, Arc::clone(&sql))?;
        let shared = Shared {
            facts: Facts {
                concurrent_writers: false,
                concurrent_claims: false,
                concurrent_settles: false,
                ..settings.facts("sqlite", K::LAYOUT)
            },
            access: opening.access,
            fetcher: reader("pillarbox-fetch")?,
            inspector: reader("pillarbox-inspect")?,
            writer: Writer::start(tx, synchronous, group_time, opening.busy_timeout).map_err(threads)?,
            name: store,
            sql,
            path,
            watcher: OnceLock::new(),
        };
        Ok(SqliteTable(Arc::new(shared), PhantomData))
    }
}

impl<K> SqliteTable<K> {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// The reader for operators' queries.
    pub(crate) fn inspector(&self) -> &Reader {
        &self.0.inspector
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Refuses changes to a store that was opened read-only. SQLite itself would begin a write transaction
    /// and then refuse its statements one by one.
    pub(crate) fn refuse_read_only(&self, operation: &'static str) -> Result<(), StoreError> {
        match self.0.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => {
                let detail = "the store was opened read-only";
                Err(StoreError::new(ErrorKind::Permission, operation, self.name(), detail))
            }
        }
    }

    /// Runs a change in a transaction on the writer thread.
    pub(crate) fn change<T, F>(
        &self,
        operation: &'static str,
        durability: Durability,
        work: F,
    ) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&SqliteTransaction) -> Result<T, DriverError> + Send + 'static,
    {
        if let Err(error) = self.refuse_read_only(operation) {
            return Box::pin(async { Err(error) });
        }
        let (reply, answer) = oneshot::channel();
        let shared = self.shared();
        let store = Arc::clone(&shared.name);
        let job = Box::new(Call { store, operation, durability, work: Some(work), result: None, reply });
        Box::pin(async move {
            let detail = "the writer thread has ended";
            let gone = || Err(StoreError::new(ErrorKind::Unavailable, operation, &shared.name, detail));
            if !shared.writer.send(job).await {
                return gone();
            }
            answer.await.unwrap_or_else(|_| gone())
        })
    }
}

handle!(SqliteTable);

impl<K: Kind> Table for SqliteTable<K> {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        Box::pin(async { Ok(now(None)) })
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.change("write", Durability::Full, move |tx| {
            insert_rows::<K>(tx, &tx.sql, &request.rows, now(request.now))
        })
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        // If a power cut loses this commit, the events are delivered and settled again. Changes to joins are
        // in the same commit and are repeated as well. SQLite loses only its latest commits, so nobody has
        // seen a message that was lost together with its join.
        let all_done = request.outcomes.iter().all(|outcome| outcome.change == Change::Done);
        let durability = if all_done { Durability::Relaxed } else { Durability::Full };
        self.change("settle", durability, move |tx| settle::<K>(tx, &tx.sql, &request))
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        self.change("register", Durability::Full, move |tx| membership::register::<K>(tx, &request))
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        self.change("heartbeat", Durability::Full, move |tx| membership::heartbeat::<K>(tx, &request))
    }

    fn publish(&self, node: NodeId, state: String) -> StoreFuture<'_, ()> {
        self.change("publish", Durability::Full, move |tx| membership::publish(tx, node, &state))
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.change("leave", Durability::Full, move |tx| membership::leave(tx, node))
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    fn wakeups(&self) -> Option<Wakeups> {
        let watcher = self.0.watcher.get_or_init(|| Watcher::start(&self.0.path));
        watcher.wakeups()
    }
}

impl Store for SqliteStore {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.0.fetcher.read("fetch", move |connection, sql| fetch::fetch(connection, sql, &request))
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.change("claim", Durability::Full, move |tx| claim::claim(tx, &request))
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.0.fetcher.read("due topics", move |connection, sql| claim::due_topics(connection, sql, &request))
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.change("reap", Durability::Full, move |tx| claim::reap(tx, &request))
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.change("promote", Durability::Full, move |tx| promote::promote(tx, &request))
    }

    fn joins(&self) -> Option<&dyn Joins> {
        Some(self)
    }
}
