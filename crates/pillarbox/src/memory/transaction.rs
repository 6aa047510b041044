//! Transactions: numbers are drawn when rows are inserted, and rows appear when it commits, as on a server.

use std::fmt;
use std::sync::Arc;

use super::store::Shared;
use super::write::{Draft, Taken};
use crate::model::{NewRow, Written};
use crate::port::StoreError;

/// An open transaction of a memory store. Dropped unfinished it is rolled back.
pub struct MemoryTransaction {
    shared: Arc<Shared>,
    id: u64,
    draft: Draft,
}

impl MemoryTransaction {
    pub(super) fn begin(shared: &Arc<Shared>) -> Self {
        let mut state = shared.lock();
        state.transactions += 1;
        Self { shared: Arc::clone(shared), id: state.transactions, draft: Draft::default() }
    }

    /// Whether it was begun on this store.
    pub(super) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    pub(super) fn insert(&mut self, rows: &[NewRow]) -> Result<Vec<Written>, StoreError> {
        let now = self.shared.now(None);
        let mut state = self.shared.lock();
        let written =
            self.draft.extend(&mut state, rows, now).map_err(|taken| self.shared.taken("insert", &taken))?;
        if let Some((lowest, _)) = self.draft.rows.first() {
            state.open.insert(self.id, *lowest);
        }
        Ok(written)
    }

    pub(super) fn commit(mut self) -> Result<(), StoreError> {
        let draft = std::mem::take(&mut self.draft);
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let checked = match draft.clash(&state) {
            Some(Taken(id)) => Err(shared.taken("commit", &Taken(id))),
            None => shared.room_for(&state, "commit", draft.rows.len()),
        };
        let added = checked.map(|()| draft.apply(&mut state));
        state.open.remove(&self.id);
        drop(state);
        shared.hint(added?);
        Ok(())
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        self.shared.lock().open.remove(&self.id);
    }
}

impl fmt::Debug for MemoryTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTransaction({}, {} rows)", self.id, self.draft.rows.len())
    }
}
