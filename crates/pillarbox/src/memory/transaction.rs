//! Transactions: an insert assigns sequence numbers, and the commit makes the rows visible, as on a server.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::joins::step_of;
use super::state::State;
use super::store::Shared;
use super::write::Draft;
use crate::model::{EventId, NewRow, Written};
use crate::port::{Cancel, ErrorKind, Fence, JoinChange, JoinChanged, Settle, Settled, StoreError};

/// An open transaction of a memory store. Dropping it without a commit rolls it back.
pub struct MemoryTransaction {
    shared: Arc<Shared>,
    /// Id among the open transactions; `None` before the first insert and after the end.
    open: Option<u64>,
    draft: Draft,
    cancels: Vec<Cancelled>,
    settles: Vec<(Settle, Settled)>,
    joins: Vec<(JoinChange, JoinChanged)>,
}

/// An event that is deleted when the transaction commits.
struct Cancelled {
    id: EventId,
    by: String,
    at: Timestamp,
    /// Whether this transaction wrote the event, so that it never enters the table.
    own: bool,
}

impl MemoryTransaction {
    pub(super) fn begin(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            open: None,
            draft: Draft::default(),
            cancels: Vec::new(),
            settles: Vec::new(),
            joins: Vec::new(),
        }
    }

    /// Whether the transaction was begun on this store.
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

    /// Cancels events: those written by this transaction immediately, those in the table at its commit.
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

    /// Settles at the commit, which is refused if the answer given here no longer holds then.
    pub(super) fn settle(&mut self, mut request: Settle) -> Settled {
        request.now = Some(self.shared.now(request.now));
        let settled = foreseen(&self.shared.lock(), &request);
        self.settles.push((request, settled.clone()));
        settled
    }

    /// Changes a join at the commit, which is refused if the answer given here no longer holds then.
    pub(super) fn change_join(&mut self, mut request: JoinChange) -> JoinChanged {
        request.now = Some(self.shared.now(request.now));
        self.joins.push((request, JoinChanged::Unchanged));
        let changed = self.foreseen_joins(&self.shared.lock()).pop().unwrap_or(JoinChanged::Unchanged);
        if let Some((_, answered)) = self.joins.last_mut() {
            answered.clone_from(&changed);
        }
        changed
    }

    /// Answers that the transaction's join changes would give now, one after another.
    fn foreseen_joins(&self, state: &State) -> Vec<JoinChanged> {
        let step = |id: &EventId| {
            let drafted = self.draft.rows.iter().find(|(_, row)| row.id == *id).map(|(_, row)| &**row);
            let row = drafted.or_else(|| state.find(id).map(|seq| &*state.rows[&seq]));
            row.and_then(step_of)
        };
        let mut joins = state.joins.clone();
        let changes = self.joins.iter().map(|(change, _)| change);
        changes.map(|change| joins.change(change, change.now.unwrap_or_default(), step).0).collect()
    }

    pub(super) fn commit(mut self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        self.check(&state)?;
        self.open.take().into_iter().for_each(|open| state.close(open));
        for cancel in self.cancels.drain(..) {
            if !cancel.own {
                let ended = state.cancel_one(&cancel.id);
                state.steps_ended(ended, cancel.at);
            }
            state.record(cancel.at, &cancel.by, "cancel", cancel.id.as_str());
        }
        let added = std::mem::take(&mut self.draft).apply(&mut state);
        for (settle, _) in self.settles.drain(..) {
            state.settle(&settle, settle.now.unwrap_or_default());
        }
        let mut ended = 0;
        for (change, _) in self.joins.drain(..) {
            state.change_join(&change, change.now.unwrap_or_default());
            ended += 1;
        }
        drop(state);
        shared.hint(added + ended);
        Ok(())
    }

    /// Checks for conflicts with other transactions. A server's row locks would make the second one wait;
    /// here its commit is refused.
    fn check(&self, state: &State) -> Result<(), StoreError> {
        let gone = |one: &&Cancelled| !one.own && !state.may_cancel(&one.id, one.at);
        if let Some(gone) = self.cancels.iter().find(gone) {
            let detail = format!("event {} is no longer pending", gone.id);
            return Err(self.shared.error(ErrorKind::Conflict, "commit", detail));
        }
        if self.settles.iter().any(|(settle, settled)| foreseen(state, settle) != *settled) {
            let detail = "what it settles was changed by another".to_owned();
            return Err(self.shared.error(ErrorKind::Conflict, "commit", detail));
        }
        let joins = self.foreseen_joins(state);
        if self.joins.iter().zip(joins).any(|((_, answered), foreseen)| *answered != foreseen) {
            let detail = "a join it changes was changed by another".to_owned();
            return Err(self.shared.error(ErrorKind::Conflict, "commit", detail));
        }
        self.shared.room_for(state, "commit", self.draft.rows.len())
    }
}

/// The answer that a settle would give now.
fn foreseen(state: &State, request: &Settle) -> Settled {
    let held = !matches!(&request.fence, Fence::Node(node) if !state.members.has(*node));
    let outcomes = request.outcomes.iter().enumerate();
    let stale = outcomes.filter(|(_, outcome)| !held || !state.may_settle(outcome, &request.fence));
    let stale = stale.map(|(place, _)| place).collect();
    Settled { held, stale, busy: Vec::new(), reused: held && state.reused(request) }
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
