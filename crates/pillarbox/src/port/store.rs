//! The port of the native table, used as `dyn`.

use super::{Claim, DueTopics, Fetch, Fetched, Joins, Promote, Promoted, Reap, StoreFuture, Table};
use crate::model::Row;

/// The native table. Its rows have sequence numbers, slots and lanes, and it has a queue.
pub trait Store: Table {
    /// Reads pending rows in order, without locking them.
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched>;

    /// Claims due pending rows without a live claim, under a lease. Counts the attempt.
    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>>;

    /// The topics of due, unclaimed messages. Workers use them to warn of topics without a handler.
    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>>;

    /// Releases expired claims and returns how many. A claim takes such rows even without this.
    fn reap(&self, request: Reap) -> StoreFuture<'_, u64>;

    /// Moves due rows from lane −1 to the end of the order, if the node is still registered.
    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted>;

    /// The store's joins; `None` if the store has none, because joins need transactions.
    fn joins(&self) -> Option<&dyn Joins> {
        None
    }
}

/// Lets a shared store serve as a store.
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        (**self).fetch(request)
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        (**self).claim(request)
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        (**self).due_topics(request)
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        (**self).reap(request)
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        (**self).promote(request)
    }

    fn joins(&self) -> Option<&dyn Joins> {
        (**self).joins()
    }
}
