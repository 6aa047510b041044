//! The store port: one outbox in one database, used as `dyn`.

use std::future::Future;
use std::pin::Pin;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    Admin, Beat, Claim, DueTopics, Facts, Fetch, Fetched, Join, Joins, Lead, Membership, Promote, Promoted,
    Reap, Settle, Settled, StoreError,
};
use crate::model::{NewRow, NodeId, Row, Written};

/// What a store answers, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Whether events of one group keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Every event for itself.
    #[default]
    None,
    /// One after another within a group.
    PerGroup,
}

/// Rows to write in a transaction of the store's own.
#[derive(Debug, Clone)]
pub struct Write {
    /// The rows; all or none are written.
    pub rows: Vec<NewRow>,
    /// A test's now; by default the database's.
    pub now: Option<Timestamp>,
}

/// Hints that rows were written: the number changes, what it counts is the store's own business.
#[derive(Debug, Clone)]
pub struct Hints(pub watch::Receiver<u64>);

/// One outbox in one database.
///
/// Every call is atomic: one statement or one transaction. A call whose future is dropped either happens whole or
/// not at all, and leaves no connection in a transaction. Times are judged by the database's clock, unless a test
/// passes a `now`.
pub trait Store: Send + Sync + 'static {
    /// What it can do.
    fn facts(&self) -> &Facts;

    /// Reads pending rows in order, without locking them.
    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched>;

    /// Takes pending rows under a lease: due, not held by anyone else; counts the attempt.
    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>>;

    /// The topics of messages that are due and unclaimed, for the warning of workers that have no handler for them.
    fn due_topics(&self, _request: DueTopics) -> Answer<'_, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Gives rows back whose claim has run out; how many. Claims take them anyway where they carry their end.
    fn reap(&self, request: Reap) -> Answer<'_, u64>;

    /// Applies outcomes if the fence holds; what is no longer pending is left alone and reported.
    fn settle(&self, request: Settle) -> Answer<'_, Settled>;

    /// Adds a node, and gives it its lane and the share of slots that is free.
    fn join(&self, request: Join) -> Answer<'_, Membership>;

    /// Renews a node, buries expired ones, takes and releases slots. `None`: this node was buried.
    fn beat(&self, request: Beat) -> Answer<'_, Option<Membership>>;

    /// Keeps what a node tells of itself, at most 4 KiB, for whoever lists the nodes; a node that is gone tells nothing. By
    /// default nothing is kept.
    fn publish(&self, _node: NodeId, _state: String) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Removes a node that has stopped; its slots and lane are free at once.
    fn leave(&self, node: NodeId) -> Answer<'_, ()>;

    /// Moves delayed rows whose time has come to the end of the order, if the node is still a member.
    fn promote(&self, request: Promote) -> Answer<'_, Promoted>;

    /// Writes rows in a transaction of its own.
    fn write(&self, request: Write) -> Answer<'_, Vec<Written>>;

    /// Joins, where the store has them: they need transactions.
    fn joins(&self) -> Option<&dyn Joins> {
        None
    }

    /// What its leader may do, where rows have no numbers and one node at a time takes them: the flowcatalyst layout.
    fn lead(&self) -> Option<&dyn Lead> {
        None
    }

    /// Inspection and operation.
    fn admin(&self) -> &dyn Admin;

    /// Rows were committed that another node may have to deliver: tells it, where the database can. Never waits.
    fn announce(&self) {}

    /// Hints of new rows written elsewhere, where the database can tell.
    fn hints(&self) -> Option<Hints> {
        None
    }

    /// Ends what the store does in the background, and waits for it: the last thing before a program ends its runtime. The
    /// store is of no use afterwards.
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

    fn join(&self, request: Join) -> Answer<'_, Membership> {
        (**self).join(request)
    }

    fn beat(&self, request: Beat) -> Answer<'_, Option<Membership>> {
        (**self).beat(request)
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

    fn announce(&self) {
        (**self).announce();
    }

    fn hints(&self) -> Option<Hints> {
        (**self).hints()
    }

    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        (**self).shut_down()
    }
}
