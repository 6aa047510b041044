//! The port of the native table, used as `dyn`.

use super::{Answer, Claim, DueTopics, Fetch, Fetched, Joins, Promote, Promoted, Reap, Table};
use crate::model::Row;

/// The native table: its rows have numbers, slots and lanes, and it has a queue.
pub trait Store: Table {
    /// Reads pending rows in order, without locking them.
    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched>;

    /// Claims pending rows under a lease: rows that are due and that no one else has claimed. Counts the attempt.
    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>>;

    /// The topics of messages that are due and unclaimed, for the warning of workers that have no handler for them.
    fn due_topics(&self, request: DueTopics) -> Answer<'_, Vec<String>>;

    /// Frees rows whose claim has expired, and returns how many. Other claims take such rows anyway.
    fn reap(&self, request: Reap) -> Answer<'_, u64>;

    /// Moves delayed rows that are due to the end of the order, if the node is still registered.
    fn promote(&self, request: Promote) -> Answer<'_, Promoted>;

    /// Joins, where the store has them: they need transactions.
    fn joins(&self) -> Option<&dyn Joins> {
        None
    }
}

/// A shared store is a store.
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
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

    fn promote(&self, request: Promote) -> Answer<'_, Promoted> {
        (**self).promote(request)
    }

    fn joins(&self) -> Option<&dyn Joins> {
        (**self).joins()
    }
}
