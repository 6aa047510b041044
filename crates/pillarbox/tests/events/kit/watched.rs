//! A memory store that counts its calls, and can be told to fail, to hold and to lose answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use pillarbox::memory::{MemoryOptions, MemoryStore, MemoryTransaction};
use pillarbox::model::{EventId, GroupKey, NewRow, NodeId, Record, Row, Status, Written};
use pillarbox::port::*;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::NEVER;

/// What a commit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    Truly,
    /// It committed, and the answer was lost.
    LostAfter,
    /// It did not commit, and the answer was lost.
    LostBefore,
}

/// Calls of one kind that wait.
#[derive(Clone)]
pub(crate) struct HeldCall {
    open: Arc<Semaphore>,
    waiting: Arc<watch::Sender<usize>>,
}

impl HeldCall {
    /// Waits until a call has come.
    pub(crate) async fn reached(&self) {
        let mut waiting = self.waiting.subscribe();
        timeout(NEVER, waiting.wait_for(|count| *count > 0)).await.expect("a call").unwrap();
    }

    /// Lets all calls through from now on.
    pub(crate) fn release(&self) {
        self.open.close();
    }
}

struct Watch {
    calls: Mutex<Vec<&'static str>>,
    failing: Mutex<BTreeSet<&'static str>>,
    held: Mutex<BTreeMap<&'static str, HeldCall>>,
    answered: Mutex<Answered>,
    changes: watch::Sender<u64>,
}

#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) inner: MemoryStore,
    watch: Arc<Watch>,
    /// Whether it sends wake-ups.
    tells: bool,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self::over(MemoryStore::new())
    }

    /// A store that sends no wake-ups, as most databases.
    pub(crate) fn silent() -> Self {
        Self { tells: false, ..Self::new() }
    }

    pub(crate) fn with(options: MemoryOptions) -> Self {
        Self::over(MemoryStore::with(options))
    }

    fn over(inner: MemoryStore) -> Self {
        let watch = Watch {
            calls: Mutex::default(),
            failing: Mutex::default(),
            held: Mutex::default(),
            answered: Mutex::new(Answered::Truly),
            changes: watch::Sender::new(0),
        };
        Self { inner, watch: Arc::new(watch), tells: true }
    }

    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.watch.calls.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|one| **one == call).count()
    }

    pub(crate) fn fail(&self, call: &'static str) {
        self.watch.failing.lock().unwrap().insert(call);
    }

    pub(crate) fn heal(&self) {
        self.watch.failing.lock().unwrap().clear();
    }

    /// Calls of this kind wait from now on; `committed` is the answer of a commit, `fetched` that of a fetch.
    pub(crate) fn hold(&self, call: &'static str) -> HeldCall {
        let held = HeldCall { open: Arc::new(Semaphore::new(0)), waiting: Arc::new(watch::Sender::new(0)) };
        self.watch.held.lock().unwrap().insert(call, held.clone());
        held
    }

    pub(crate) fn answer(&self, answered: Answered) {
        *self.watch.answered.lock().unwrap() = answered;
    }

    pub(crate) async fn record(&self, id: &str) -> Option<Record> {
        self.inner.admin().show(EventId::from_row(id)).await.unwrap().map(|shown| shown.record)
    }

    pub(crate) async fn status(&self, id: &str) -> Option<Status> {
        self.record(id).await.map(|record| record.status)
    }

    pub(crate) async fn rows(&self) -> u64 {
        self.inner.admin().count(Select::default()).await.unwrap()
    }

    /// Waits until a row stands so.
    pub(crate) async fn until(&self, id: &str, status: Status) -> Record {
        self.until_that(async || self.record(id).await.filter(|record| record.status == status)).await
    }

    /// Waits until a look at the store finds something; looks again after every call.
    pub(crate) async fn until_that<T>(&self, look: impl AsyncFn() -> Option<T>) -> T {
        let mut changes = self.watch.changes.subscribe();
        let found = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                changes.changed().await.unwrap();
            }
        };
        timeout(NEVER, found).await.expect("something that never came")
    }

    async fn pass(&self, call: &'static str) -> Result<(), StoreError> {
        self.watch.calls.lock().unwrap().push(call);
        self.wait(call).await;
        if self.watch.failing.lock().unwrap().contains(call) {
            self.changed();
            return Err(StoreError::new(ErrorKind::Unavailable, call, "watched", "told to fail"));
        }
        Ok(())
    }

    async fn wait(&self, call: &'static str) {
        let held = self.watch.held.lock().unwrap().get(call).cloned();
        if let Some(held) = held {
            held.waiting.send_modify(|count| *count += 1);
            let _ = held.open.acquire().await;
        }
    }

    fn changed(&self) {
        self.watch.changes.send_modify(|count| *count += 1);
    }

    fn through<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        answer: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.pass(call).await?;
            let result = answer.await;
            self.changed();
            result
        })
    }
}

impl Table for Watched {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.inner.now()
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        self.through("settle", self.inner.settle(request))
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        self.through("register", self.inner.register(request))
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        self.through("heartbeat", self.inner.heartbeat(request))
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.through("leave", self.inner.leave(node))
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.through("write", self.inner.write(request))
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    fn wakeups(&self) -> Option<Wakeups> {
        self.inner.wakeups().filter(|_| self.tells)
    }

    fn departures(&self) -> Option<Wakeups> {
        self.inner.departures().filter(|_| self.tells)
    }
}

impl Store for Watched {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        Box::pin(async move {
            let fetched = self.through("fetch", self.inner.fetch(request)).await;
            self.wait("fetched").await;
            fetched
        })
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.through("claim", self.inner.claim(request))
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.inner.due_topics(request)
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.through("reap", self.inner.reap(request))
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.through("promote", self.inner.promote(request))
    }
}

impl WriteOn<MemoryTransaction> for Watched {
    fn insert<'a>(
        &'a self,
        tx: &'a mut MemoryTransaction,
        rows: &'a [NewRow],
    ) -> StoreFuture<'a, Vec<Written>> {
        self.through("insert", self.inner.insert(tx, rows))
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut MemoryTransaction,
        request: Cancel,
    ) -> StoreFuture<'a, Vec<EventId>> {
        self.through("cancel", self.inner.cancel_on(tx, request))
    }

    fn settle_on<'a>(&'a self, tx: &'a mut MemoryTransaction, request: Settle) -> StoreFuture<'a, Settled> {
        self.through("settle", self.inner.settle_on(tx, request))
    }
}

impl Begin for Watched {
    type Tx = MemoryTransaction;
    type Conn = MemoryTransaction;

    fn conn(tx: &mut MemoryTransaction) -> &mut MemoryTransaction {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, MemoryTransaction> {
        self.through("begin", self.inner.begin())
    }

    async fn commit(&self, tx: MemoryTransaction) -> Result<(), CommitError> {
        self.pass("commit").await.map_err(CommitError::Refused)?;
        let answered = *self.watch.answered.lock().unwrap();
        let lost = || StoreError::new(ErrorKind::Unavailable, "commit", "watched", "no answer");
        let result = match answered {
            Answered::Truly => self.inner.commit(tx).await,
            Answered::LostAfter => {
                self.inner.commit(tx).await.unwrap();
                Err(CommitError::Unknown(lost()))
            }
            Answered::LostBefore => Err(CommitError::Unknown(lost())),
        };
        self.changed();
        self.pass("committed").await.map_err(CommitError::Unknown)?;
        result
    }

    fn rollback(&self, tx: MemoryTransaction) -> StoreFuture<'_, ()> {
        self.through("rollback", self.inner.rollback(tx))
    }
}

impl Admin for Watched {
    fn migrate(&self) -> StoreFuture<'_, Migrated> {
        self.through("migrate", self.inner.migrate())
    }

    fn schema_sql(&self) -> String {
        self.inner.schema_sql()
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.through("check", self.inner.check())
    }

    fn stats(&self) -> StoreFuture<'_, Stats> {
        self.inner.stats()
    }

    fn list(&self, request: List) -> StoreFuture<'_, Vec<Record>> {
        self.through("list", self.inner.list(request))
    }

    fn show(&self, id: EventId) -> StoreFuture<'_, Option<Shown>> {
        self.inner.show(id)
    }

    fn count(&self, select: Select) -> StoreFuture<'_, u64> {
        self.through("count", Admin::count(&self.inner, select))
    }

    fn cancel(&self, request: Cancel) -> StoreFuture<'_, Vec<EventId>> {
        self.through("cancel", self.inner.cancel(request))
    }

    fn replay(&self, request: Replay) -> StoreFuture<'_, u64> {
        self.through("replay", self.inner.replay(request))
    }

    fn discard(&self, request: Discard) -> StoreFuture<'_, u64> {
        self.inner.discard(request)
    }

    fn purge(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.through("purge", self.inner.purge(request))
    }

    fn groups(&self, page: HeldGroups) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.inner.groups(page)
    }

    fn held(&self, groups: Vec<GroupKey>) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.inner.held(groups)
    }

    fn change_group(&self, request: GroupChange) -> StoreFuture<'_, bool> {
        self.inner.change_group(request)
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<NodeInfo>> {
        self.inner.nodes()
    }

    fn audit(&self, limit: usize) -> StoreFuture<'_, Vec<AuditEntry>> {
        self.inner.audit(limit)
    }
}
