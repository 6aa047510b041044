//! The store port: one outbox in one database, used as `dyn`.

use std::future::Future;
use std::pin::Pin;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    Admin, Claim, DueTopics, Facts, Fetch, Fetched, Heartbeat, Joins, Lead, Membership, Promote, Promoted,
    Reap, Register, Settle, Settled, StoreError,
};
use crate::model::{NewRow, NodeId, Row, Written};

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

/// One outbox in one database.
///
/// Every call is atomic: one statement or one transaction. A call whose future is dropped either happens whole or
/// not at all, and leaves no connection in a transaction. Times are judged by the database's clock, unless a test
/// passes a `now`.
pub trait Store: Send + Sync + 'static {
    /// What the store can do.
    fn facts(&self) -> &Facts;

    /// Reads pending rows in order, without locking them.
    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched>;

    /// Claims pending rows under a lease: rows that are due and that no one else has claimed. Counts the attempt.
    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>>;

    /// The topics of messages that are due and unclaimed, for the warning of workers that have no handler for them.
    fn due_topics(&self, _request: DueTopics) -> Answer<'_, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Frees rows whose claim has expired, and returns how many. Where claims carry their end, other claims take such rows anyway.
    fn reap(&self, request: Reap) -> Answer<'_, u64>;

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

    /// Moves delayed rows that are due to the end of the order, if the node is still registered.
    fn promote(&self, request: Promote) -> Answer<'_, Promoted>;

    /// Writes rows in a transaction of its own.
    fn write(&self, request: Write) -> Answer<'_, Vec<Written>>;

    /// Joins, where the store has them: they need transactions.
    fn joins(&self) -> Option<&dyn Joins> {
        None
    }

    /// The operations of a leader, where rows have no numbers and one node at a time takes them: the flowcatalyst layout.
    fn lead(&self) -> Option<&dyn Lead> {
        None
    }

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

/// A shared store is a store.
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn facts(&self) -> &Facts {
        (**self).facts()
    }

    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched> {
        (**self).fetch(request)
    }

    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>> {
        (**self).claim(request)
    }

    fn due_topics(&self, request: DueTopics) -> Answer<'_, Vec<String>> {
        (**self).due_topics(request)
    }

    fn reap(&self, request: Reap) -> Answer<'_, u64> {
        (**self).reap(request)
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

    fn promote(&self, request: Promote) -> Answer<'_, Promoted> {
        (**self).promote(request)
    }

    fn write(&self, request: Write) -> Answer<'_, Vec<Written>> {
        (**self).write(request)
    }

    fn joins(&self) -> Option<&dyn Joins> {
        (**self).joins()
    }

    fn lead(&self) -> Option<&dyn Lead> {
        (**self).lead()
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
