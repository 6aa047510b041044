//! The port that every kind of table has: writing, outcomes, nodes and operators.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Admin, Facts, Heartbeat, ItemStore, Membership, Register, Settle, Settled, Store, StoreError};
use crate::model::{NewRow, NodeId, Written};

/// The future of a store's answer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

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

/// Rows to write in a transaction of the store's own.
#[derive(Debug, Clone)]
pub struct Write {
    /// The rows; all or none are written.
    pub rows: Vec<NewRow>,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Wake-ups: rows were written. The value is opaque; only changes matter.
#[derive(Debug, Clone)]
pub struct Wakeups(pub watch::Receiver<u64>);

/// A table that events are delivered from, in one database.
///
/// How its rows are read is the matter of the two ports built on this one: [`Store`] for the native table, [`ItemStore`] for
/// tables of other programs.
///
/// Every call is atomic: one statement or one transaction. A call whose future is dropped either happens whole or
/// not at all, and leaves no connection in a transaction. Times are judged by the database's clock, unless a test
/// passes a `now`.
pub trait Table: Send + Sync + 'static {
    /// What the store can do.
    fn facts(&self) -> &Facts;

    /// The database's time.
    fn now(&self) -> Answer<'_, Timestamp>;

    /// Writes rows in a transaction of its own.
    fn write(&self, request: Write) -> Answer<'_, Vec<Written>>;

    /// Applies outcomes if the fence holds. Rows that are no longer pending are left alone and reported.
    fn settle(&self, request: Settle) -> Answer<'_, Settled>;

    /// Registers a node, and gives it its lane and its share of the free slots.
    fn register(&self, request: Register) -> Answer<'_, Membership>;

    /// Renews a node's lease, evicts expired nodes, takes and releases slots. `None`: this node was evicted.
    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, Option<Membership>>;

    /// Stores what a node publishes about itself, at most 4 KiB, for the list of nodes. It goes with the node. By default nothing
    /// is stored.
    fn publish(&self, _node: NodeId, _state: String) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Removes a node that shuts down. Its slots and lane are free immediately.
    fn leave(&self, node: NodeId) -> Answer<'_, ()>;

    /// Inspection and operation.
    fn admin(&self) -> &dyn Admin;

    /// Notifies other nodes, where the database can, that rows were committed which they may have to deliver. Never waits.
    fn notify(&self) {}

    /// Wake-ups for rows that others wrote, where the database sends them.
    fn wakeups(&self) -> Option<Wakeups> {
        None
    }

    /// Stops the store's background work and waits for its end: the last call before a program ends its runtime. The store can't be
    /// used afterwards.
    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// A shared table is a table.
impl<S: Table + ?Sized> Table for Arc<S> {
    fn facts(&self) -> &Facts {
        (**self).facts()
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        (**self).now()
    }

    fn write(&self, request: Write) -> Answer<'_, Vec<Written>> {
        (**self).write(request)
    }

    fn settle(&self, request: Settle) -> Answer<'_, Settled> {
        (**self).settle(request)
    }

    fn register(&self, request: Register) -> Answer<'_, Membership> {
        (**self).register(request)
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, Option<Membership>> {
        (**self).heartbeat(request)
    }

    fn publish(&self, node: NodeId, state: String) -> Answer<'_, ()> {
        (**self).publish(node, state)
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
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

    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        (**self).shut_down()
    }
}

/// The native table, as a parameter of the type of a store's handle.
#[derive(Debug, Clone, Copy)]
pub struct Native;

/// A table of another program, as a parameter of the type of a store's handle.
#[derive(Debug, Clone, Copy)]
pub struct Items;

/// A table of either kind, for programs that learn the kind when they open it.
#[derive(Clone)]
pub enum AnyTable {
    /// The native table.
    Native(Arc<dyn Store>),
    /// A table of another program.
    Items(Arc<dyn ItemStore>),
}

impl AnyTable {
    /// The store, if it is the native table.
    #[must_use]
    pub fn native(&self) -> Option<&Arc<dyn Store>> {
        match self {
            Self::Native(store) => Some(store),
            Self::Items(_) => None,
        }
    }

    /// The store, if it is a table of another program.
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
