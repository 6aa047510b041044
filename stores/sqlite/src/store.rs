//! The handle: the store port over the writer and the readers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pillarbox::model::{Layout, NodeId, Row, Written};
use pillarbox::port::{
    Admin, Answer, Change, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, Joins, Lead,
    Membership, Promote, Promoted, Reap, Register, Settle, Settled, Store, StoreError, Wakeups, Write,
};
use tokio::sync::oneshot;

use crate::config::{Access, SqliteStoreBuilder};
use crate::error::Failure;
use crate::hints::Watcher;
use crate::insert::insert_rows;
use crate::job::{Call, Durability};
use crate::reader::Reader;
use crate::settle::settle;
use crate::sql::Sql;
use crate::time::now;
use crate::transaction::SqliteTransaction;
use crate::writer::Writer;
use crate::{claim, fetch, flowcatalyst, membership, promote, rights};

/// An outbox in an SQLite file. A clone is the same outbox; its threads end with the last one.
#[derive(Clone)]
pub struct SqliteStore(Arc<Shared>);

/// What all clones share.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) path: PathBuf,
    access: Access,
    pub(crate) name: Arc<str>,
    pub(crate) sql: Arc<Sql>,
    pub(crate) writer: Writer,
    fetcher: Reader,
    pub(crate) inspector: Reader,
    watcher: OnceLock<Watcher>,
}

impl SqliteStore {
    /// Opens a file with the default settings; an empty one is made if it is not there.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder(path).open()
    }

    /// Opens the file of a URL `sqlite:FILE`.
    pub fn open_url(url: &str) -> Result<Self, StoreError> {
        Self::builder_from_url(url)?.open()
    }

    /// Settings for a file.
    pub fn builder(path: impl AsRef<Path>) -> SqliteStoreBuilder {
        SqliteStoreBuilder::new(path.as_ref())
    }

    /// Settings for the file of a URL `sqlite:FILE`.
    pub fn builder_from_url(url: &str) -> Result<SqliteStoreBuilder, StoreError> {
        SqliteStoreBuilder::from_url(url)
    }

    pub(crate) fn start(builder: SqliteStoreBuilder) -> Result<Self, StoreError> {
        let name: Arc<str> = builder.settings.name.as_str().into();
        let path = builder.path.clone();
        Self::start_threads(builder)
            .map_err(|failure| rights::explained(failure, &path).into_store_error("open", &name))
    }

    fn start_threads(builder: SqliteStoreBuilder) -> Result<Self, Failure> {
        let names = builder.names();
        let SqliteStoreBuilder { path, settings, synchronous, group_time, opening } = builder;
        let sql = Arc::new(Sql::new(&names));
        let store: Arc<str> = settings.name.as_str().into();
        let threads = |error: std::io::Error| {
            Failure::Refused(ErrorKind::Unavailable, format!("a thread can't be started: {error}"))
        };
        let reader = |thread: &str| {
            let connection = opening.reader(&path)?;
            Reader::start(thread, connection, Arc::clone(&sql), Arc::clone(&store), opening.busy_timeout)
                .map_err(threads)
        };
        let tx = SqliteTransaction::new(opening.writer(&path, synchronous)?, Arc::clone(&sql))?;
        Ok(Self(Arc::new(Shared {
            facts: Facts { concurrent_writers: false, ..settings.facts("sqlite") },
            access: opening.access,
            fetcher: reader("pillarbox-fetch")?,
            inspector: reader("pillarbox-inspect")?,
            writer: Writer::start(tx, synchronous, group_time, opening.busy_timeout).map_err(threads)?,
            name: store,
            sql,
            path,
            watcher: OnceLock::new(),
        })))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// SQLite itself would begin a writing transaction on such a file and refuse its statements one by one.
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
    ) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&SqliteTransaction) -> Result<T, Failure> + Send + 'static,
    {
        if let Err(error) = self.refuse_read_only(operation) {
            return Box::pin(async { Err(error) });
        }
        let (reply, answer) = oneshot::channel();
        let store = Arc::clone(&self.0.name);
        let job = Box::new(Call { store, operation, durability, work: Some(work), result: None, reply });
        Box::pin(async move {
            let detail = "the writer thread has ended";
            let gone = || Err(StoreError::new(ErrorKind::Unavailable, operation, self.name(), detail));
            if !self.0.writer.send(job).await {
                return gone();
            }
            answer.await.unwrap_or_else(|_| gone())
        })
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.name())
    }
}

impl Store for SqliteStore {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched> {
        self.0.fetcher.read("fetch", move |connection, sql| {
            let now = now(request.now);
            match sql.layout {
                Layout::Native => fetch::fetch(connection, sql, &request, now),
                Layout::Flowcatalyst => flowcatalyst::fetch(connection, sql, &request, now),
            }
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>> {
        self.change("claim", Durability::Full, move |tx| match tx.sql.layout {
            Layout::Native => claim::claim(tx, &request, now(request.now)),
            Layout::Flowcatalyst => flowcatalyst::claim(tx, &request, now(request.now)),
        })
    }

    fn due_topics(&self, request: DueTopics) -> Answer<'_, Vec<String>> {
        self.0.fetcher.read("due topics", move |connection, sql| match sql.layout {
            Layout::Native => claim::due_topics(connection, sql, &request, now(request.now)),
            Layout::Flowcatalyst => Ok(Vec::new()),
        })
    }

    fn reap(&self, request: Reap) -> Answer<'_, u64> {
        self.change("reap", Durability::Full, move |tx| match tx.sql.layout {
            Layout::Native => claim::reap(tx, &request, now(request.now)),
            Layout::Flowcatalyst => flowcatalyst::reap(tx, &request, now(request.now)),
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, Settled> {
        // Lost in a power cut, it is done again, and so is all that it did for joins: that is in the same commit, and the
        // log loses its last commits only, so nobody has seen a message that was lost with its join.
        let all_done = request.outcomes.iter().all(|outcome| outcome.change == Change::Done);
        let durability = if all_done { Durability::Relaxed } else { Durability::Full };
        self.change("settle", durability, move |tx| settle(tx, &tx.sql, &request, now(request.now)))
    }

    fn register(&self, request: Register) -> Answer<'_, Membership> {
        self.change("join", Durability::Full, move |tx| membership::join(tx, &request, now(request.now)))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, Option<Membership>> {
        self.change("heartbeat", Durability::Full, move |tx| {
            membership::heartbeat(tx, &request, now(request.now))
        })
    }

    fn publish(&self, node: NodeId, state: String) -> Answer<'_, ()> {
        self.change("publish", Durability::Full, move |tx| membership::publish(tx, node, &state))
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.change("leave", Durability::Full, move |tx| membership::leave(tx, node))
    }

    fn promote(&self, request: Promote) -> Answer<'_, Promoted> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Err(StoreError::no_numbers("promote", self.name())) });
        }
        self.change("promote", Durability::Full, move |tx| promote::promote(tx, &request, now(request.now)))
    }

    fn write(&self, request: Write) -> Answer<'_, Vec<Written>> {
        self.change("write", Durability::Full, move |tx| {
            insert_rows(tx, &tx.sql, &request.rows, now(request.now))
        })
    }

    fn joins(&self) -> Option<&dyn Joins> {
        (self.0.facts.layout() == Layout::Native).then_some(self as &dyn Joins)
    }

    fn lead(&self) -> Option<&dyn Lead> {
        self.leading()
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    fn wakeups(&self) -> Option<Wakeups> {
        let watcher = self.0.watcher.get_or_init(|| Watcher::start(&self.0.path));
        watcher.wakeups()
    }
}
