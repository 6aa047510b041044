//! The memory store's handle: implements the store port on the shared state.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::state::State;
use super::stored::Stored;
use super::time::cut;
use super::transaction::MemoryTransaction;
use super::write::{Draft, Taken};
use super::{MemoryClock, MemoryOptions};
use crate::model::{EventId, GroupKey, JoinId, JoinRecord, Malformed, NewRow, NodeId, Row, Seq, Written};
use crate::port::{
    self, Admin, Begin, Cancel, Claim, CommitError, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat,
    ItemStore, JoinChange, JoinChanged, JoinShown, Joins, ListJoins, Membership, Promote, Promoted, Reap,
    Recover, Register, Settle, Settled, Store, StoreError, StoreFuture, Table, Take, Wakeups, Write, WriteOn,
};
use crate::rules::SLOTS;

/// A store in memory. Cheap to clone; all clones share the same rows.
#[derive(Clone)]
pub struct MemoryStore(pub(super) Arc<Shared>);

/// A malformed row, as another writer might leave it, for tests.
#[derive(Debug, Clone)]
pub struct Unreadable {
    /// Id of the row.
    pub id: EventId,
    /// Event type of the row.
    pub event_type: String,
    /// Group of the row.
    pub group: Option<GroupKey>,
    /// Reason why the row cannot be decoded.
    pub reason: String,
}

/// The state shared by all clones.
pub(super) struct Shared {
    facts: Facts,
    clock: MemoryClock,
    max_rows: usize,
    state: Mutex<State>,
    written: watch::Sender<u64>,
    left: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self, now: Option<Timestamp>) -> Timestamp {
        now.map_or_else(|| self.clock.now(), cut)
    }

    pub(super) fn hint(&self, added: usize) {
        if added > 0 {
            self.written.send_modify(|count| *count += added as u64);
        }
    }

    pub(super) fn taken(&self, operation: &'static str, Taken(id): &Taken) -> StoreError {
        self.error(ErrorKind::Conflict, operation, format!("event {id} or its message id already exists"))
    }

    pub(super) fn room_for(
        &self,
        state: &State,
        operation: &'static str,
        rows: usize,
    ) -> Result<(), StoreError> {
        if state.rows.len().saturating_add(rows) <= self.max_rows {
            return Ok(());
        }
        let detail = format!("the store is full: {} rows", self.max_rows);
        Err(self.error(ErrorKind::Unavailable, operation, detail))
    }

    pub(super) fn error(&self, kind: ErrorKind, operation: &'static str, detail: String) -> StoreError {
        StoreError::new(kind, operation, &self.facts.name, detail)
    }

    fn write(&self, request: &Write) -> Result<Vec<Written>, StoreError> {
        let now = self.now(request.now);
        let mut state = self.lock();
        let mut draft = Draft::default();
        let written =
            draft.extend(&mut state, &request.rows, now).map_err(|taken| self.taken("write", &taken))?;
        if let Err(full) = self.room_for(&state, "write", draft.rows.len()) {
            draft.withdraw(&mut state, 0);
            return Err(full);
        }
        let added = draft.apply(&mut state);
        drop(state);
        self.hint(added);
        Ok(written)
    }
}

impl MemoryStore {
    /// Creates an empty store with the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::with(MemoryOptions::default())
    }

    /// Creates an empty store with these settings.
    #[must_use]
    pub fn with(options: MemoryOptions) -> Self {
        let facts = Facts {
            kind: "memory",
            name: options.name,
            slots: if options.has_leader { 1 } else { SLOTS },
            concurrent_writers: true,
            concurrent_claims: true,
            concurrent_settles: !options.has_leader,
            transactions: true,
            durable: false,
            shared: false,
            limits: options.limits,
        };
        Self(Arc::new(Shared {
            facts,
            clock: options.clock,
            max_rows: options.max_rows,
            state: Mutex::new(State::new(options.has_leader)),
            written: watch::Sender::new(0),
            left: watch::Sender::new(0),
        }))
    }

    /// The store's clock, which a test can move.
    #[must_use]
    pub fn clock(&self) -> &MemoryClock {
        &self.0.clock
    }

    /// Loses the newest rows and reuses their sequence numbers, like a server that fails
    /// over to a stale replica.
    ///
    /// For tests. Stops at the first dead row. Returns the ids of the lost rows. Has no effect while a
    /// transaction that has inserted rows is open, or on a store with a leader.
    pub fn put_back(&self, rows: usize) -> Vec<EventId> {
        self.0.lock().put_back(rows)
    }

    /// Adds a malformed row, for tests. Returns its sequence number.
    pub fn plant(&self, row: Unreadable) -> Seq {
        let now = self.0.now(None);
        let mut state = self.0.lock();
        let mut stored = Stored::unplaced(row.id, row.group, Err(Malformed::new(row.reason)), now);
        stored.unread_type = Some(row.event_type);
        let seq = state.draw();
        state.add(seq, Box::new(stored));
        drop(state);
        self.0.hint(1);
        Seq(seq)
    }

    fn own(&self, tx: &MemoryTransaction, operation: &'static str) -> Result<(), StoreError> {
        if tx.is_of(&self.0) {
            return Ok(());
        }
        let detail = "the transaction is of another store".to_owned();
        Err(self.0.error(ErrorKind::InvalidInput, operation, detail))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({}, {} rows)", self.0.facts.name, self.0.lock().rows.len())
    }
}

impl Table for MemoryStore {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        Box::pin(async move { Ok(self.0.now(None)) })
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        Box::pin(async move { Ok(self.0.lock().settle(&request, self.0.now(request.now))) })
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        Box::pin(async move {
            let registered = self.0.lock().register(&request, self.0.now(request.now));
            registered.ok_or_else(|| {
                self.0.error(ErrorKind::Conflict, "register", format!("node {} already exists", request.node))
            })
        })
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        Box::pin(async move { Ok(self.0.lock().heartbeat(&request, self.0.now(request.now))) })
    }

    fn publish(&self, node: NodeId, state: String) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.0.lock().publish(node, state);
            Ok(())
        })
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.0.lock().leave(node);
            self.0.left.send_modify(|count| *count += 1);
            Ok(())
        })
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        Box::pin(async move { self.0.write(&request) })
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    fn wakeups(&self) -> Option<Wakeups> {
        Some(Wakeups(self.0.written.subscribe()))
    }

    fn departures(&self) -> Option<Wakeups> {
        Some(Wakeups(self.0.left.subscribe()))
    }
}

impl Store for MemoryStore {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        Box::pin(async move { Ok(self.0.lock().fetch(&request, self.0.now(request.now))) })
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        Box::pin(async move { Ok(self.0.lock().claim(&request, self.0.now(request.now))) })
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async move { Ok(self.0.lock().due_topics(&request, self.0.now(request.now))) })
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().reap(&request, self.0.now(request.now))) })
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        Box::pin(async move { Ok(self.0.lock().promote(&request, self.0.now(request.now))) })
    }

    fn joins(&self) -> Option<&dyn Joins> {
        Some(self)
    }
}

impl ItemStore for MemoryStore {
    fn take(&self, request: Take) -> StoreFuture<'_, port::Taken> {
        Box::pin(async move { Ok(self.0.lock().take_led(&request, self.0.now(request.now))) })
    }

    fn recover(&self, request: Recover) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().recover(&request, self.0.now(request.now))) })
    }
}

impl Joins for MemoryStore {
    fn change_join(&self, request: JoinChange) -> StoreFuture<'_, JoinChanged> {
        Box::pin(async move {
            let changed = self.0.lock().change_join(&request, self.0.now(request.now));
            self.0.hint(1);
            Ok(changed)
        })
    }

    fn show_join(&self, join: JoinId, members: usize) -> StoreFuture<'_, Option<JoinShown>> {
        Box::pin(async move { Ok(self.0.lock().joins.show(&join, members)) })
    }

    fn list_joins(&self, request: ListJoins) -> StoreFuture<'_, Vec<JoinRecord>> {
        Box::pin(async move { Ok(self.0.lock().joins.list(&request)) })
    }
}

impl WriteOn<MemoryTransaction> for MemoryStore {
    fn insert<'a>(
        &'a self,
        tx: &'a mut MemoryTransaction,
        rows: &'a [NewRow],
    ) -> StoreFuture<'a, Vec<Written>> {
        Box::pin(async move {
            self.own(tx, "insert")?;
            tx.insert(rows)
        })
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut MemoryTransaction,
        request: Cancel,
    ) -> StoreFuture<'a, Vec<EventId>> {
        Box::pin(async move {
            self.own(tx, "cancel")?;
            Ok(tx.cancel(&request))
        })
    }

    fn settle_on<'a>(&'a self, tx: &'a mut MemoryTransaction, request: Settle) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            self.own(tx, "settle")?;
            Ok(tx.settle(request))
        })
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut MemoryTransaction,
        request: JoinChange,
    ) -> StoreFuture<'a, JoinChanged> {
        Box::pin(async move {
            self.own(tx, "change a join")?;
            Ok(tx.change_join(request))
        })
    }
}

impl Begin for MemoryStore {
    type Tx = MemoryTransaction;
    type Conn = MemoryTransaction;

    fn conn(tx: &mut MemoryTransaction) -> &mut MemoryTransaction {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, MemoryTransaction> {
        Box::pin(async move { Ok(MemoryTransaction::begin(&self.0)) })
    }

    async fn commit(&self, tx: MemoryTransaction) -> Result<(), CommitError> {
        tx.commit().map_err(CommitError::Refused)
    }

    fn rollback(&self, tx: MemoryTransaction) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            drop(tx);
            Ok(())
        })
    }
}
