//! What the tests of the SQLite store share: an outbox in a folder of its own, and small requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::model::{Event, NewRow, Placement, Seq, Slot, SlotSet, Written};
use pillarbox::port::{
    Admin, BlockingWriteOn, Body, Change, Cursor, Fence, Fetch, Fetched, OnDone, Outcome, Scope, Settle,
    Store, StoreError, Table, Transact, TransactError, Write,
};
use pillarbox_sqlite::{SqliteStore, SqliteTransaction};
use rusqlite::Connection;
use tempfile::TempDir;

pub(crate) struct Outbox {
    pub(crate) folder: TempDir,
    pub(crate) store: SqliteStore,
}

impl Outbox {
    /// An outbox with its tables, and a table of orders.
    pub(crate) async fn new() -> Self {
        let outbox = Self::bare();
        outbox.store.migrate().await.unwrap();
        outbox.connection().execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
        outbox
    }

    /// A database without tables.
    pub(crate) fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        // Whatever waits goes into one group, however slow the machine is.
        let store = SqliteStore::builder(path).group_time(Duration::from_secs(60)).open().unwrap();
        Self { folder, store }
    }

    /// Another handle on the same file, as another process has one.
    pub(crate) fn beside(&self) -> SqliteStore {
        SqliteStore::open(self.path()).unwrap()
    }

    /// A connection of someone else.
    pub(crate) fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("test.db")
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.connection().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// How many events and orders there are.
    pub(crate) fn counts(&self) -> (i64, i64) {
        (self.number("SELECT count(*) FROM outbox_event"), self.number("SELECT count(*) FROM orders"))
    }
}

pub(crate) fn event(id: &str) -> NewRow {
    let event = Event::text("OrderPlaced", "{\"total\":1}").id(id).build().unwrap();
    NewRow { event, placement: Placement::Slot }
}

pub(crate) async fn write(store: &SqliteStore, rows: Vec<NewRow>) -> Result<Vec<Written>, StoreError> {
    store.write(Write { rows, now: None }).await
}

pub(crate) async fn fetch_all(store: &dyn Store) -> Fetched {
    let scope = Scope::Slots { slots: SlotSet::new((0..100).map(Slot)), cursor: Cursor::default() };
    let request = Fetch {
        scope,
        rows: 10_000,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    };
    store.fetch(request).await.unwrap()
}

pub(crate) fn done(written: &[Written]) -> Settle {
    let outcome = |one: &Written| outcome(one.id.as_str(), one.seq, Change::Done);
    Settle {
        fence: Fence::Open,
        outcomes: written.iter().map(outcome).collect(),
        on_done: OnDone::Keep,
        repeats: None,
        now: None,
    }
}

pub(crate) fn outcome(id: &str, seq: Seq, change: Change) -> Outcome {
    let id = pillarbox::model::EventId::new(id).unwrap();
    Outcome { seq, id, token: Default::default(), change }
}

/// What became of a body, as its callbacks saw it.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<&'static str>>>);

impl Seen {
    pub(crate) fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

struct Once<F> {
    run: Option<F>,
    seen: Seen,
}

impl<T, F> Body<SqliteTransaction> for Once<F>
where
    T: Send + 'static,
    F: FnOnce(&SqliteTransaction) -> Result<T, StoreError> + Send + 'static,
{
    type Output = T;
    type Error = StoreError;

    fn run(&mut self, tx: &SqliteTransaction) -> Result<T, TransactError<StoreError>> {
        (self.run.take().unwrap())(tx).map_err(TransactError::Body)
    }

    fn committed(&mut self) {
        self.seen.0.lock().unwrap().push("committed");
    }

    fn failed(&mut self) {
        self.seen.0.lock().unwrap().push("failed");
    }

    fn unknown(&mut self) {
        self.seen.0.lock().unwrap().push("unknown");
    }
}

/// Runs a closure as a transaction.
pub(crate) fn transact<'a, T, F>(
    store: &'a SqliteStore,
    seen: &Seen,
    run: F,
) -> impl Future<Output = Result<T, TransactError<StoreError>>> + Send + use<'a, T, F>
where
    T: Send + 'static,
    F: FnOnce(&SqliteTransaction) -> Result<T, StoreError> + Send + 'static,
{
    store.transact(Once { run: Some(run), seen: seen.clone() })
}

/// An order and its event on one transaction.
pub(crate) fn place_order(
    store: &SqliteStore,
    id: i64,
) -> impl FnOnce(&SqliteTransaction) -> Result<Vec<Written>, StoreError> + Send + 'static {
    let store = store.clone();
    move |tx| {
        tx.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
        store.insert_blocking(tx, &[event(&format!("order-{id}"))])
    }
}
