//! The port common to both kinds of table: writing, settling, nodes and operators.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Admin, Facts, Heartbeat, ItemStore, Membership, Register, Settle, Settled, Store, StoreError};
use crate::model::{Layout, NewRow, NodeId, Written};

/// The future of a store's answer.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Whether events of one group keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Events are independent of each other.
    #[default]
    None,
    /// Events of one group are delivered one after another.
    PerGroup,
}

/// Rows to write in the store's own transaction.
#[derive(Debug, Clone)]
pub struct Write {
    /// The rows to write, all or none.
    pub rows: Vec<NewRow>,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Wake-ups: the value changes when rows were written, or when a node left. The value itself is opaque.
#[derive(Debug, Clone)]
pub struct Wakeups(pub watch::Receiver<u64>);

/// A table in one database from which events are delivered.
///
/// Two ports build on this one and differ in how rows are read: [`Store`] for the native table, and
/// [`ItemStore`] for tables of items, which belong to other programs.
///
/// Every call is atomic: one statement or one transaction. A call whose future is dropped either takes effect
/// completely or not at all, and leaves no connection in a transaction. The database's clock decides all
/// times, unless a test passes a `now`.
pub trait Table: Send + Sync + 'static {
    /// The capabilities and limits of the store.
    fn facts(&self) -> &Facts;

    /// The current time of the database.
    fn now(&self) -> StoreFuture<'_, Timestamp>;

    /// Writes rows in the store's own transaction.
    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>>;

    /// Applies outcomes if the fence holds. Rows that are no longer pending are left alone and reported.
    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled>;

    /// Registers a node and assigns its lane and its share of the free slots.
    fn register(&self, request: Register) -> StoreFuture<'_, Membership>;

    /// Renews a node's lease, evicts expired nodes, takes and releases slots. Returns `None` if this node was
    /// evicted.
    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>>;

    /// Stores the state that a node publishes about itself, at most 4 KiB, for the list of nodes. It is
    /// deleted with the node. By default nothing is stored.
    fn publish(&self, _node: NodeId, _state: String) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Removes a node that shuts down. Its slots and lane are free immediately.
    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()>;

    /// The operators' port.
    fn admin(&self) -> &dyn Admin;

    /// Notifies other nodes of committed rows that they may have to deliver, if the database supports it.
    /// Never blocks.
    fn notify(&self) {}

    /// Wake-ups for rows written elsewhere; `None` if the database does not send them.
    fn wakeups(&self) -> Option<Wakeups> {
        None
    }

    /// Signals that a node has left, so that its slots are free; `None` if the database does not send them: nodes
    /// then find out with their next heartbeat.
    fn departures(&self) -> Option<Wakeups> {
        None
    }

    /// Stops the store's background tasks and waits for them. Call it last, before the runtime shuts down;
    /// the store cannot be used afterwards.
    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// Lets a shared table serve as a table.
impl<S: Table + ?Sized> Table for Arc<S> {
    fn facts(&self) -> &Facts {
        (**self).facts()
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        (**self).now()
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        (**self).write(request)
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        (**self).settle(request)
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        (**self).register(request)
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        (**self).heartbeat(request)
    }

    fn publish(&self, node: NodeId, state: String) -> StoreFuture<'_, ()> {
        (**self).publish(node, state)
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        (**self).leave(node)
    }

    fn admin(&self) -> &dyn Admin {
        (**self).admin()
    }

    fn notify(&self) {
        (**self).notify();
    }

    fn wakeups(&self) -> Option<Wakeups> {
        (**self).wakeups()
    }

    fn departures(&self) -> Option<Wakeups> {
        (**self).departures()
    }

    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        (**self).shut_down()
    }
}

/// The kinds of tables, as type parameters of store handles.
pub trait TableKind: Send + Sync + 'static {
    /// The word for the kind in configuration.
    const LAYOUT: Layout;
}

impl TableKind for Native {
    const LAYOUT: Layout = Layout::Native;
}

impl TableKind for Items {
    const LAYOUT: Layout = Layout::Flowcatalyst;
}

/// Type parameter of a store handle for the native table.
#[derive(Debug, Clone, Copy)]
pub struct Native;

/// Type parameter of a store handle for a table of items.
#[derive(Debug, Clone, Copy)]
pub struct Items;

/// A table of either kind, for programs that learn the kind only when they open it.
#[derive(Clone)]
pub enum AnyTable {
    /// The native table.
    Native(Arc<dyn Store>),
    /// A table of items.
    Items(Arc<dyn ItemStore>),
}

impl AnyTable {
    /// The store, if this is the native table.
    #[must_use]
    pub fn native(&self) -> Option<&Arc<dyn Store>> {
        match self {
            Self::Native(store) => Some(store),
            Self::Items(_) => None,
        }
    }

    /// The store, if this is a table of items.
    #[must_use]
    pub fn items(&self) -> Option<&Arc<dyn ItemStore>> {
        match self {
            Self::Native(_) => None,
            Self::Items(store) => Some(store),
        }
    }
}

impl Deref for AnyTable {
    type Target = dyn Table;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Native(store) => &**store,
            Self::Items(store) => &**store,
        }
    }
}

impl fmt::Debug for AnyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyTable({})", self.facts().name)
    }
}

impl From<Arc<dyn Store>> for AnyTable {
    fn from(store: Arc<dyn Store>) -> Self {
        Self::Native(store)
    }
}

impl From<Arc<dyn ItemStore>> for AnyTable {
    fn from(store: Arc<dyn ItemStore>) -> Self {
        Self::Items(store)
    }
}
