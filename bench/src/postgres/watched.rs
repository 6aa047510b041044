//! A store that notes when a commit was answered, and can be slow to settle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use pillarbox::model::{EventId, NewRow, NodeId, Row, Written};
use pillarbox::port::{
    Admin, Begin, Cancel, Claim, CommitError, DueTopics, Facts, Fetch, Fetched, Heartbeat, Membership,
    Promote, Promoted, Reap, Register, Settle, Settled, Store, StoreFuture, Table, Wakeups, Write, WriteOn,
};
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::{Postgres, Transaction};

/// How settles are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settling {
    AsIs,
    TenTimesSlower,
}

tokio::task_local! {
    /// The number of the event that this task is writing.
    pub(super) static WRITING: usize;
}

/// Nanoseconds since the beginning, for each event.
pub(super) struct Moments {
    began: Instant,
    nanos: Vec<AtomicU64>,
}

impl Moments {
    pub(super) fn new(began: Instant, events: usize) -> Self {
        Self { began, nanos: (0..events).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn note(&self, event: usize) {
        if let Some(moment) = self.nanos.get(event) {
            moment.store(self.began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Microseconds from the beginning; none if it was not noted.
    pub(super) fn micros(&self, event: usize) -> Option<f64> {
        let nanos = self.nanos.get(event)?.load(Ordering::Relaxed);
        (nanos > 0).then(|| nanos as f64 / 1e3)
    }
}

/// The store.
pub(super) struct Watched {
    pub(super) store: PostgresStore,
    pub(super) settling: Settling,
    pub(super) committed: Arc<Moments>,
}

impl Table for Watched {
    fn facts(&self) -> &Facts {
        self.store.facts()
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.store.now()
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        Box::pin(async move {
            let began = Instant::now();
            let settled = self.store.settle(request).await?;
            if self.settling == Settling::TenTimesSlower {
                tokio::time::sleep(began.elapsed() * 9).await;
            }
            Ok(settled)
        })
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        self.store.register(request)
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        self.store.heartbeat(request)
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.store.leave(node)
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.store.write(request)
    }

    fn admin(&self) -> &dyn Admin {
        self.store.admin()
    }

    fn notify(&self) {
        self.store.notify();
    }

    fn wakeups(&self) -> Option<Wakeups> {
        self.store.wakeups()
    }
}

impl Store for Watched {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.store.fetch(request)
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.store.claim(request)
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.store.due_topics(request)
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.store.reap(request)
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.store.promote(request)
    }
}

type Tx = Transaction<'static, Postgres>;

impl WriteOn<Tx> for Watched {
    fn insert<'a>(&'a self, tx: &'a mut Tx, rows: &'a [NewRow]) -> StoreFuture<'a, Vec<Written>> {
        self.store.insert(tx, rows)
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut Tx, request: Cancel) -> StoreFuture<'a, Vec<EventId>> {
        self.store.cancel_on(tx, request)
    }
}

impl Begin for Watched {
    type Tx = Tx;
    type Conn = Tx;

    fn conn(tx: &mut Tx) -> &mut Tx {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, Tx> {
        self.store.begin()
    }

    async fn commit(&self, tx: Tx) -> Result<(), CommitError> {
        self.store.commit(tx).await?;
        // Transactions that nobody measures are written outside of the scope.
        let _ = WRITING.try_with(|event| self.committed.note(*event));
        Ok(())
    }

    fn rollback(&self, tx: Tx) -> StoreFuture<'_, ()> {
        self.store.rollback(tx)
    }
}
