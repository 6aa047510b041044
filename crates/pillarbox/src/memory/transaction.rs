//! Transactions: numbers are drawn when rows are inserted, and rows appear when it commits, as on a server.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::state::State;
use super::store::Shared;
use super::write::Draft;
use crate::model::{EventId, NewRow, Written};
use crate::port::{Cancel, ErrorKind, StoreError};

/// An open transaction of a memory store. Dropped unfinished it is rolled back.
pub struct MemoryTransaction {
    shared: Arc<Shared>,
    /// Its number among the open ones; none before it has drawn a number, and after its end.
    open: Option<u64>,
    draft: Draft,
    cancels: Vec<Cancelled>,
}

/// An event that goes when the transaction commits.
struct Cancelled {
    id: EventId,
    by: String,
    at: Timestamp,
    /// Written by this transaction: it never gets into the table.
    own: bool,
}

impl MemoryTransaction {
    pub(super) fn begin(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), open: None, draft: Draft::default(), cancels: Vec::new() }
    }

    /// Whether it was begun on this store.
    pub(super) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    pub(super) fn insert(&mut self, rows: &[NewRow]) -> Result<Vec<Written>, StoreError> {
        let now = self.shared.now(None);
        let mut state = self.shared.lock();
        let written = self.draft.extend(&mut state, rows, now);
        let written = written.map_err(|taken| self.shared.taken("insert", &taken))?;
        if let (None, Some((lowest, _))) = (self.open, self.draft.rows.first()) {
            self.open = Some(state.open_from(*lowest));
        }
        Ok(written)
    }

    /// Takes events back: what this transaction wrote itself at once, what is in the table when it commits.
    pub(super) fn cancel(&mut self, request: &Cancel) -> Vec<EventId> {
        let at = self.shared.now(request.now);
        let mut state = self.shared.lock();
        let mut cancelled = Vec::new();
        for id in &request.ids {
            let before = self.cancels.iter().any(|cancel| cancel.id == *id);
            let own = self.draft.remove(&mut state, id);
            if own || (!before && state.may_cancel(id, at)) {
                self.cancels.push(Cancelled { id: id.clone(), by: request.by.clone(), at, own });
                cancelled.push(id.clone());
            }
        }
        cancelled
    }

    pub(super) fn commit(mut self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        self.check(&state)?;
        self.open.take().into_iter().for_each(|open| state.close(open));
        for cancel in self.cancels.drain(..) {
            if !cancel.own {
                state.cancel_one(&cancel.id);
            }
            state.record(cancel.at, &cancel.by, "cancel", cancel.id.as_str());
        }
        let added = std::mem::take(&mut self.draft).apply(&mut state);
        drop(state);
        shared.hint(added);
        Ok(())
    }

    /// A server's row locks would have made others wait; here the second to come is refused.
    fn check(&self, state: &State) -> Result<(), StoreError> {
        let gone = |one: &&Cancelled| !one.own && !state.may_cancel(&one.id, one.at);
        if let Some(gone) = self.cancels.iter().find(gone) {
            let detail = format!("event {} is no longer pending", gone.id);
            return Err(self.shared.error(ErrorKind::Conflict, "commit", detail));
        }
        self.shared.room_for(state, "commit", self.draft.rows.len())
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        if let Some(open) = self.open {
            let mut state = self.shared.lock();
            state.close(open);
            self.draft.withdraw(&mut state, 0);
        }
    }
}

impl fmt::Debug for MemoryTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTransaction({} rows)", self.draft.rows.len())
    }
}
