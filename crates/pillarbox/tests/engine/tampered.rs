//! A memory store whose calls can be failed, robbed of their answers or held up, and are counted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use pillarbox::memory::MemoryStore;
use pillarbox::model::{NodeId, Row, Written};
use pillarbox::port::{
    Admin, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, Membership, Promote, Promoted,
    Reap, Register, Settle, Settled, Store, StoreError, StoreFuture, Table, Wakeups, Write,
};
use tokio::sync::Semaphore;

/// A call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Fetch,
    Settle,
    Register,
    Heartbeat,
    Leave,
    Promote,
}

/// What is done to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It fails and changes nothing.
    Fail,
    /// The call panics.
    Panic,
    /// It has its effect, and its answer is lost.
    Lose,
    /// It has its effect, and its answer waits for `release`.
    HoldAnswer,
    /// It waits for `release`, then goes its way.
    HoldRequest,
    /// A promotion finds every row locked by others, and moves none.
    MoveNothing,
}

#[derive(Debug, Default)]
struct Orders {
    next: BTreeMap<Call, VecDeque<How>>,
    always: BTreeMap<Call, How>,
    calls: BTreeMap<Call, usize>,
    rows_asked: Vec<usize>,
    rows_read: usize,
    passes_by: bool,
    locked: BTreeSet<String>,
}

/// The store as one node sees it.
pub(crate) struct Tampered {
    inner: MemoryStore,
    hints: bool,
    orders: Mutex<Orders>,
    held: Semaphore,
}

impl Tampered {
    pub(crate) fn new(inner: &MemoryStore) -> Arc<Self> {
        Arc::new(Self::over(inner, true))
    }

    /// One that gives no hints: what is new is found by heartbeats and polls.
    pub(crate) fn without_hints(inner: &MemoryStore) -> Arc<Self> {
        Arc::new(Self::over(inner, false))
    }

    fn over(inner: &MemoryStore, hints: bool) -> Self {
        Self { inner: inner.clone(), hints, orders: Mutex::default(), held: Semaphore::new(0) }
    }

    /// The next call of this kind, that has no order yet, goes so.
    pub(crate) fn next(&self, call: Call, how: How) {
        self.orders.lock().unwrap().next.entry(call).or_default().push_back(how);
    }

    /// Every call of this kind without an order of its own goes so.
    pub(crate) fn always(&self, call: Call, how: How) {
        self.orders.lock().unwrap().always.insert(call, how);
    }

    /// No more tampering.
    pub(crate) fn let_be(&self) {
        let mut orders = self.orders.lock().unwrap();
        orders.next.clear();
        orders.always.clear();
    }

    /// The next read that finds rows answers without them, as if its cursor had passed them.
    pub(crate) fn pass_by(&self) {
        self.orders.lock().unwrap().passes_by = true;
    }

    /// Whether it is still to pass rows by.
    pub(crate) fn is_to_pass_by(&self) -> bool {
        self.orders.lock().unwrap().passes_by
    }

    /// Somebody has locked the rows of these events: a settle finds them busy.
    pub(crate) fn lock(&self, ids: &[&str]) {
        self.orders.lock().unwrap().locked = ids.iter().map(|id| (*id).to_owned()).collect();
    }

    async fn settle_free(&self, request: Settle) -> Result<Settled, StoreError> {
        let locked = self.orders.lock().unwrap().locked.clone();
        let places = 0..request.outcomes.len();
        let (busy, free): (Vec<usize>, Vec<usize>) =
            places.partition(|place| locked.contains(request.outcomes[*place].id.as_str()));
        let outcomes = free.iter().map(|place| request.outcomes[*place].clone()).collect();
        let settled = self.inner.settle(Settle { outcomes, ..request }).await?;
        let stale = settled.stale.iter().map(|place| free[*place]).collect();
        Ok(Settled { stale, busy, ..settled })
    }

    /// Lets one held call go on.
    pub(crate) fn release(&self) {
        self.held.add_permits(1);
    }

    /// How often it was called since this was last asked.
    pub(crate) fn take_calls(&self) -> BTreeMap<Call, usize> {
        std::mem::take(&mut self.orders.lock().unwrap().calls)
    }

    /// How many rows each read asked for.
    pub(crate) fn rows_asked(&self) -> Vec<usize> {
        self.orders.lock().unwrap().rows_asked.clone()
    }

    /// How many rows all reads brought.
    pub(crate) fn rows_read(&self) -> usize {
        self.orders.lock().unwrap().rows_read
    }

    async fn tamper<T>(
        &self,
        call: Call,
        effect: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let how = {
            let mut orders = self.orders.lock().unwrap();
            *orders.calls.entry(call).or_default() += 1;
            let next = orders.next.get_mut(&call).and_then(VecDeque::pop_front);
            next.or_else(|| orders.always.get(&call).copied())
        };
        let fault = |kind| StoreError::new(kind, "call", "tampered", "as told");
        match how {
            None => effect.await,
            Some(How::Fail) => Err(fault(ErrorKind::Unavailable)),
            Some(How::Panic) => panic!("as told"),
            Some(How::Lose) => effect.await.and(Err(fault(ErrorKind::Timeout))),
            Some(How::MoveNothing) => effect.await,
            Some(How::HoldAnswer) => {
                let answer = effect.await;
                self.held.acquire().await.unwrap().forget();
                answer
            }
            Some(How::HoldRequest) => {
                self.held.acquire().await.unwrap().forget();
                effect.await
            }
        }
    }
}

impl Table for Tampered {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.inner.now()
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        Box::pin(self.tamper(Call::Settle, self.settle_free(request)))
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        Box::pin(self.tamper(Call::Register, self.inner.register(request)))
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        Box::pin(self.tamper(Call::Heartbeat, self.inner.heartbeat(request)))
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        Box::pin(self.tamper(Call::Leave, self.inner.leave(node)))
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.inner.write(request)
    }

    fn admin(&self) -> &dyn Admin {
        self.inner.admin()
    }

    fn wakeups(&self) -> Option<Wakeups> {
        self.inner.wakeups().filter(|_| self.hints)
    }
}

impl Store for Tampered {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.orders.lock().unwrap().rows_asked.push(request.rows);
        Box::pin(self.tamper(Call::Fetch, async move {
            let mut fetched = self.inner.fetch(request).await?;
            let mut orders = self.orders.lock().unwrap();
            orders.rows_read += fetched.rows.len();
            if orders.passes_by && !fetched.rows.is_empty() {
                orders.passes_by = false;
                fetched.rows.clear();
            }
            drop(orders);
            Ok(fetched)
        }))
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.inner.reap(request)
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.inner.claim(request)
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.inner.due_topics(request)
    }

    fn promote(&self, mut request: Promote) -> StoreFuture<'_, Promoted> {
        if self.orders.lock().unwrap().always.get(&Call::Promote) == Some(&How::MoveNothing) {
            request.rows = 0;
        }
        Box::pin(self.tamper(Call::Promote, self.inner.promote(request)))
    }
}
