//! What a store brings to be tried: empty outboxes, and ways into its database that the port does not have.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{
    AnyTable, Cancel, ItemStore, JoinChange, JoinChanged, Settle, Settled, Store, StoreError,
};

/// Something that comes later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes outboxes of one kind of store.
pub trait Harness: Send + Sync {
    /// The store's name, the first part of the names of its tests.
    fn name(&self) -> &str;

    /// An empty outbox of its own. An error says why this store can't run here.
    fn fresh(&self) -> Later<'_, Result<Fixture, String>>;
}

/// One empty outbox, and the doors to it.
pub struct Fixture {
    /// The store, with its tables made.
    pub store: AnyTable,
    /// A second handle on the same outbox, as another process has one.
    pub beside: AnyTable,
    /// Rows that other programs write.
    pub foreign: Arc<dyn Foreign>,
    /// Transactions; needed where the facts have `transactions`.
    pub transactions: Option<Arc<dyn WorkInTransaction>>,
    /// Transactions that stay open beside others; needed where the facts have `concurrent_writers`.
    pub open: Option<Arc<dyn Transactions>>,
    /// A store of the same kind on a database without its tables; needed where the facts have `durable`.
    pub bare: Option<AnyTable>,
    /// What must live as long as the outbox, such as a folder.
    pub guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Fixture {
    /// The store of a case that needs the native table.
    #[must_use]
    pub fn native(&self) -> &Arc<dyn Store> {
        native(&self.store)
    }

    /// The store of a case that needs a table of another program.
    #[must_use]
    pub fn items(&self) -> &Arc<dyn ItemStore> {
        items(&self.store)
    }
}

/// The native table, which it must be.
#[must_use]
pub fn native(table: &AnyTable) -> &Arc<dyn Store> {
    table.native().unwrap_or_else(|| panic!("{table:?} holds items: the case must need the native table"))
}

/// The table of another program, which it must be.
#[must_use]
pub fn items(table: &AnyTable) -> &Arc<dyn ItemStore> {
    table.items().unwrap_or_else(|| panic!("{table:?} is the native table: the case must need items"))
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By a commit.
    Commit,
    /// By a rollback.
    Rollback,
}

/// What is done in one transaction, in this order.
#[derive(Debug, Clone)]
pub struct Work {
    /// Rows to insert.
    pub rows: Vec<NewRow>,
    /// Joins to change after that.
    pub joins: Vec<JoinChange>,
    /// Outcomes to settle after that.
    pub settle: Option<Settle>,
    /// Events to cancel after that.
    pub cancel: Option<Cancel>,
    /// How it ends.
    pub ending: Ending,
}

impl Work {
    /// Only rows.
    #[must_use]
    pub fn rows(rows: Vec<NewRow>, ending: Ending) -> Self {
        Self { rows, joins: Vec::new(), settle: None, cancel: None, ending }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Worked {
    /// The rows.
    pub written: Vec<Written>,
    /// What came of each change of a join.
    pub joins: Vec<JoinChanged>,
    /// What came of the settle.
    pub settled: Option<Settled>,
    /// The events that were cancelled.
    pub cancelled: Vec<EventId>,
}

/// Works in a transaction of the driver's.
pub trait WorkInTransaction: Send + Sync {
    /// Begins a transaction, works and ends it.
    fn work(&self, work: Work) -> Later<'_, Result<Worked, StoreError>>;
}

/// Opens transactions that stay open while others write.
pub trait Transactions: Send + Sync {
    /// Opens one.
    fn begin(&self) -> Later<'_, Result<Box<dyn OpenTransaction>, StoreError>>;
}

/// An open transaction.
pub trait OpenTransaction: Send {
    /// Cancels on it.
    fn cancel(&mut self, request: Cancel) -> Later<'_, Result<Vec<EventId>, StoreError>>;

    /// Settles on it.
    fn settle(&mut self, request: Settle) -> Later<'_, Result<Settled, StoreError>>;

    /// Changes a join on it.
    fn change_join(&mut self, request: JoinChange) -> Later<'_, Result<JoinChanged, StoreError>>;

    /// Inserts on it.
    fn insert(&mut self, rows: Vec<NewRow>) -> Later<'_, Result<Vec<Written>, StoreError>>;

    /// Ends it.
    fn end(self: Box<Self>, ending: Ending) -> Later<'static, Result<(), StoreError>>;
}

/// A row as a program writes it that knows the fifteen columns of the table and nothing of ours: new, no attempts,
/// created and available by the database's clock.
#[derive(Debug, Clone, Default)]
pub struct ForeignRow {
    /// Column `event_id`.
    pub event_id: String,
    /// Bytes that are no text to put into the column `event_id` instead.
    pub id_bytes: Option<Vec<u8>>,
    /// Column `event_type`.
    pub event_type: String,
    /// Column `aggregate_type`.
    pub aggregate_type: Option<String>,
    /// Column `aggregate_id`.
    pub aggregate_id: Option<String>,
    /// Column `payload`, as text.
    pub payload: Option<String>,
    /// Column `headers`, as text.
    pub headers: Option<String>,
    /// Text to put into the column `attempts`.
    pub attempts: Option<String>,
    /// Text to put into the column `created_at`.
    pub created_at: Option<String>,
    /// Text to put into the column `available_at`.
    pub available_at: Option<String>,
}

/// What the database did with a foreign row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Took it.
    Taken,
    /// Refused it: its columns can't hold that.
    Refused,
}

/// A row of the flowcatalyst layout, column by column, as other programs write and read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRow {
    /// Column `id`.
    pub id: String,
    /// Column `type`.
    pub item_type: String,
    /// Column `message_group`.
    pub message_group: Option<String>,
    /// Column `payload`; a database whose columns refuse NULL says so.
    pub payload: Option<String>,
    /// Column `status`.
    pub status: String,
    /// Column `retry_count`.
    pub retry_count: i32,
    /// Column `created_at`.
    pub created_at: Timestamp,
    /// Column `processed_at`.
    pub processed_at: Option<Timestamp>,
    /// Column `error_message`.
    pub error_message: Option<String>,
}

/// Ends a transaction that holds a row.
pub type Unlock = Box<dyn FnOnce() -> Later<'static, ()> + Send>;

/// Writes and locks rows past the port. The last three are owed by stores of the flowcatalyst layout.
pub trait Foreign: Send + Sync {
    /// Locks the row of an event in a transaction that stays open; `None` where the database has no such locks.
    fn lock<'a>(&'a self, _id: &'a str) -> Later<'a, Result<Option<Unlock>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether a locked row also keeps the row before it, by id, from being moved.
    fn locks_reach_neighbours(&self) -> bool {
        false
    }

    /// Writes one.
    fn write(&self, row: ForeignRow) -> Later<'_, Result<Planted, StoreError>>;

    /// Writes one of the flowcatalyst layout.
    fn plant(&self, _row: ItemRow) -> Later<'_, Result<Planted, StoreError>> {
        panic!("the harness brings no way to plant items");
    }

    /// Reads one of the flowcatalyst layout.
    fn look<'a>(&'a self, _id: &'a str) -> Later<'a, Result<Option<ItemRow>, StoreError>> {
        panic!("the harness brings no way to look at items");
    }

    /// Makes the tables of the flowcatalyst layout in the bare database, by [`ITEM_TABLES`] or the same in its words.
    fn make_item_tables(&self) -> Later<'_, Result<(), StoreError>> {
        panic!("the harness brings no way to make tables of items");
    }
}

/// The tables of the flowcatalyst layout, in the words of the document that describes them.
pub const ITEM_TABLES: &str = "
CREATE TABLE outbox_events (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX idx_outbox_events_status
    ON outbox_events(status, message_group, created_at);

CREATE TABLE outbox_dispatch_jobs (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX idx_outbox_dispatch_jobs_status
    ON outbox_dispatch_jobs(status, message_group, created_at);
";
