//! The hot path against a reader that is quicker than the writer's own task.

use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::Outbox;
use pillarbox::model::{EventId, NewRow, NodeId, Row, Written};
use pillarbox::port::{
    Admin, Begin, Cancel, Claim, CommitError, DueTopics, Facts, Fetch, Fetched, Heartbeat, Membership,
    Promote, Promoted, Reap, Register, Settle, Settled, Store, StoreFuture, Table, Wakeups, Write, WriteOn,
};
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::{Postgres, Transaction};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::kit::{Fixture, NEVER, Seen, commit};

/// A store whose answers to commits and settles wait at a gate, and whose reads are counted.
struct Gated {
    store: PostgresStore,
    commits: Arc<Semaphore>,
    settles: Arc<Semaphore>,
    /// Reads that found a row, and reads that were begun after one of these.
    reads: Arc<watch::Sender<Reads>>,
}

#[derive(Default, Clone, Copy)]
struct Reads {
    found: usize,
    begun_after: usize,
}

impl Gated {
    fn new(store: PostgresStore) -> Self {
        let gate = || Arc::new(Semaphore::new(0));
        Self { store, commits: gate(), settles: gate(), reads: Arc::default() }
    }

    /// Makes the outbox read again and again until it has merged a read that found a row.
    async fn until_read(fixture: &Fixture, reads: &watch::Sender<Reads>) {
        let mut seen = reads.subscribe();
        let merged = async {
            while seen.borrow_and_update().begun_after == 0 {
                // Nobody in this test writes through the store: the hint comes from outside.
                fixture.execute("SELECT pg_notify('outbox_event', '')").await;
                let _ = timeout(NEVER / 100, seen.changed()).await;
            }
        };
        timeout(NEVER, merged).await.expect("no read found the row");
    }
}

async fn pass(gate: &Semaphore) {
    gate.acquire().await.unwrap().forget();
}

impl Store for Gated {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.reads.send_modify(|reads| reads.begun_after += usize::from(reads.found > 0));
        Box::pin(async move {
            let fetched = self.store.fetch(request).await?;
            self.reads.send_modify(|reads| reads.found += usize::from(!fetched.rows.is_empty()));
            Ok(fetched)
        })
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

impl Table for Gated {
    fn facts(&self) -> &Facts {
        self.store.facts()
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.store.now()
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        Box::pin(async move {
            pass(&self.settles).await;
            self.store.settle(request).await
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

type Tx = Transaction<'static, Postgres>;

impl WriteOn<Tx> for Gated {
    fn insert<'a>(&'a self, tx: &'a mut Tx, rows: &'a [NewRow]) -> StoreFuture<'a, Vec<Written>> {
        self.store.insert(tx, rows)
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut Tx, request: Cancel) -> StoreFuture<'a, Vec<EventId>> {
        self.store.cancel_on(tx, request)
    }
}

impl Begin for Gated {
    type Tx = Tx;
    type Conn = Tx;

    fn conn(tx: &mut Tx) -> &mut Tx {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, Tx> {
        self.store.begin()
    }

    async fn commit(&self, tx: Tx) -> Result<(), CommitError> {
        let ended = self.store.commit(tx).await;
        pass(&self.commits).await;
        ended
    }

    fn rollback(&self, tx: Tx) -> StoreFuture<'_, ()> {
        self.store.rollback(tx)
    }
}

/// PBX-012, EVT-181: the server has committed, and the outbox reads the row before the writer's task goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_read_before_its_writer_goes_on_is_delivered_once() {
    let Some(fixture) = Fixture::new().await else { return };
    let seen = Seen::new();
    let gated = Gated::new(fixture.store().await);
    let (commits, settles, reads) =
        (Arc::clone(&gated.commits), Arc::clone(&gated.settles), Arc::clone(&gated.reads));
    settles.add_permits(1_000);
    let outbox = seen.hear(Outbox::single_node(gated)).start().await.unwrap();
    let writing = commit(&outbox, "early", "1");
    let reading = async {
        Gated::until_read(&fixture, &reads).await;
        assert!(seen.ids().is_empty(), "the reader left the row to its writer");
        commits.add_permits(1);
    };
    tokio::join!(writing, reading);
    seen.wait(1).await;
    commits.add_permits(1);
    commit(&outbox, "later", "1").await;
    seen.wait(2).await;
    outbox.close().await;
    assert_eq!(seen.ids(), ["early", "later"]);
    assert_eq!(
        fixture.number("SELECT count(*) FROM outbox_event WHERE status = 1 AND attempts = 0").await,
        2
    );
}

/// PBX-012, PBX-015: the listener has taken the event, and the outbox reads its row before the settle is through.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_read_before_its_settle_is_delivered_once() {
    let Some(fixture) = Fixture::new().await else { return };
    let seen = Seen::new();
    let gated = Gated::new(fixture.store().await);
    let (commits, settles, reads) =
        (Arc::clone(&gated.commits), Arc::clone(&gated.settles), Arc::clone(&gated.reads));
    commits.add_permits(2);
    let outbox = seen.hear(Outbox::single_node(gated)).start().await.unwrap();
    commit(&outbox, "early", "1").await;
    seen.wait(1).await;
    Gated::until_read(&fixture, &reads).await;
    settles.add_permits(1_000);
    commit(&outbox, "later", "1").await;
    seen.wait(2).await;
    outbox.close().await;
    assert_eq!(seen.ids(), ["early", "later"]);
    assert_eq!(
        fixture.number("SELECT count(*) FROM outbox_event WHERE status = 1 AND attempts = 0").await,
        2
    );
}
