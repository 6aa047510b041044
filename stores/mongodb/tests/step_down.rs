//! A primary that steps down in the middle of every operation, on a replica set of three of the test's own.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::{
    EventId, GroupKey, JoinId, Lane, NewRow, NodeId, Placement, Row, Seq, TableName, Token, Written,
};
use pillarbox::port::{
    Admin, Begin, ByteLimits, Cancel, Change, CommitError, Counts, Cursor, Discard, DueTopics, ErrorKind,
    Fence, GroupAction, GroupChange, Heartbeat, HeldGroups, ItemStore, JoinAction, JoinChange, List,
    ListJoins, OnDone, Order, Outcome, Promote, Purge, PurgeStatus, ReadScope, Reap, Recover, Register,
    Replay, Select, Settle, Store, StoreError, Table, Take, Wait, Write, WriteOn,
};
use pillarbox_mongodb::mongodb::Client;
use pillarbox_mongodb::{MongodbItemStore, MongodbStore};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

mod server;

use server::mongod::{MONGOD, STARTED, Three};
use server::{claim, read_from, rows, say};

const STEP_DOWNS: usize = 4;
/// Kinds of work that go on side by side.
const KINDS: usize = 6;
const COMMAND: Duration = Duration::from_secs(10);
/// A call ends at most 5 s after the time that its commands have.
const LIMIT: Duration = Duration::from_secs(16);
/// A node's lease: none is evicted while there is no primary.
const LEASE: Duration = Duration::from_secs(120);

/// What all operations run on, and what was said of their writes.
struct Fixture {
    store: MongodbStore,
    /// An outbox of items, in the same database.
    items: MongodbItemStore,
    node: NodeId,
    leader: NodeId,
    /// Written, and never deleted by anyone.
    kept: Mutex<BTreeSet<String>>,
    /// Rolled back.
    gone: Mutex<BTreeSet<String>>,
}

/// Waits for an answer, which comes in time; nothing where it is a failure that passes.
async fn tried<T>(what: &str, answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    let passes = |kind| {
        matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Conflict | ErrorKind::Unknown)
    };
    match timeout(LIMIT, answer).await.unwrap_or_else(|_| panic!("{what} does not end")) {
        Ok(answer) => Some(answer),
        Err(error) if passes(error.kind()) => None,
        Err(error) => panic!("{what}: {error}"),
    }
}

fn outcome(seq: Seq, id: &EventId, token: Token, change: Change) -> Outcome {
    Outcome { seq, id: id.clone(), token, change }
}

fn of_rows(rows: &[Row], change: &Change) -> Vec<Outcome> {
    rows.iter().map(|row| outcome(row.seq, &row.id, row.token, change.clone())).collect()
}

fn settle(fence: Fence, outcomes: Vec<Outcome>) -> Settle {
    Settle { fence, outcomes: outcomes.into(), on_done: OnDone::Keep, now: None }
}

fn join(node: NodeId) -> Register {
    Register { node, label: "node".to_owned(), lease: LEASE, reads: ReadScope::default(), now: None }
}

fn heartbeat(node: NodeId) -> Heartbeat {
    let (trusted, release) = (Vec::new(), Vec::new());
    Heartbeat { node, lease: LEASE, trusted, release, sweep: true, groups_seen: 0, after: Seq(0), now: None }
}

impl Fixture {
    fn keep(&self, written: &[Written], names: &[String]) {
        assert!(written.iter().all(|written| written.fresh), "{names:?} were there already");
        self.kept.lock().unwrap().extend(names.iter().cloned());
    }

    /// One round of one kind of work; none if something failed.
    async fn work(&self, kind: usize, round: usize) -> Option<()> {
        match kind {
            0 => self.write(round).await,
            1 => self.deliver(round).await,
            2 => self.queue(round).await,
            3 => self.operate(round).await,
            4 => self.look().await,
            _ => self.lead(round).await,
        }
    }

    /// Writes and transactions.
    async fn write(&self, round: usize) -> Option<()> {
        let store = &self.store;
        for count in 1..=2 {
            let names: Vec<String> = (0..count).map(|place| format!("w{round}-{count}-{place}")).collect();
            let written = tried("write", store.write(rows(names.clone()))).await?;
            self.keep(&written, &names);
        }
        let name = format!("t{round}");
        let mut tx = tried("begin", store.begin()).await?;
        let written =
            tried("insert", async { store.insert(&mut tx, &rows([name.clone()]).rows).await }).await?;
        match timeout(LIMIT, store.commit(tx)).await.expect("a commit ends") {
            Ok(()) => self.keep(&written, &[name]),
            Err(CommitError::Unknown(error) | CommitError::Refused(error)) => {
                tried("commit", async { Err::<(), _>(error) }).await?;
            }
        }
        let name = format!("r{round}");
        self.gone.lock().unwrap().insert(name.clone());
        let mut tx = tried("begin", store.begin()).await?;
        tried("insert", async { store.insert(&mut tx, &rows([name]).rows).await }).await?;
        tried("roll back", store.rollback(tx)).await
    }

    /// Nodes, and what they deliver.
    async fn deliver(&self, round: usize) -> Option<()> {
        let store = &self.store;
        tried("heartbeat", store.heartbeat(heartbeat(self.node))).await?.expect("its lease is long");
        let mut read = read_from(Cursor::default());
        read.rows = 20;
        let fetched = tried("fetch", store.fetch(read)).await?;
        let change = match round % 3 {
            0 => Change::Attempt,
            1 => Change::Retry {
                delay: Duration::ZERO,
                error: "no".into(),
                counts: Counts::One,
                wait: Wait::Delayed,
            },
            _ => Change::Done,
        };
        let settled = settle(Fence::Node(self.node), of_rows(&fetched.rows, &change));
        assert!(tried("settle", store.settle(settled)).await?.held, "its node is there");
        let promote =
            Promote { node: self.node, lane: Lane(64), order: Order::PerGroup, rows: 20, now: None };
        tried("promote", store.promote(promote)).await?;
        let other = NodeId::from_random(1_000 + round as u128);
        tried("join", store.register(join(other))).await?;
        tried("publish", store.publish(other, "well".to_owned())).await?;
        tried("leave", store.leave(other)).await
    }

    /// The queue, and joins.
    async fn queue(&self, round: usize) -> Option<()> {
        let store = &self.store;
        let rows = tried("claim", store.claim(claim("ann", 5))).await?;
        let owner = Fence::Owner(claim("ann", 0).owner);
        tried("settle", store.settle(settle(owner, of_rows(&rows, &Change::Release)))).await?;
        tried("due topics", store.due_topics(DueTopics { except: Arc::default(), limit: 5, now: None }))
            .await?;
        tried("reap", store.reap(Reap { older_than: LEASE, rows: 5, now: None })).await?;
        let name = format!("q{round}");
        let event = Event::text("step", "{}").id(name.clone()).build().unwrap();
        let write = Write { rows: vec![NewRow { event, placement: Placement::Queue }], now: None };
        let written = tried("write", store.write(write)).await?;
        self.keep(&written, std::slice::from_ref(&name));
        let id = JoinId::new(format!("j{round}")).unwrap();
        let messages = vec![EventId::from_row(name)];
        for action in [
            JoinAction::Start { grouping_key: None, expected: 1, metadata: None },
            JoinAction::Attach { messages },
            JoinAction::Cancel { by: "ann".to_owned() },
        ] {
            let joins = store.joins().expect("a replica set has them");
            tried("change join", joins.change_join(JoinChange { join: id.clone(), action, now: None }))
                .await?;
        }
        let joins = store.joins().expect("a replica set has them");
        tried("list joins", joins.list_joins(ListJoins { limit: 5, ..ListJoins::default() })).await?;
        tried("show join", joins.show_join(id, 5)).await.map(drop)
    }

    /// What people do.
    async fn operate(&self, round: usize) -> Option<()> {
        let store = &self.store;
        let (by, limit, now) = ("ann".to_owned(), 5, None);
        let name = format!("o{round}");
        let written = tried("write", store.write(rows([name.clone()]))).await?.remove(0);
        let dead = Change::Dead { error: "no".into(), counts: Counts::One, blocks: None };
        let select = Select { ids: vec![EventId::from_row(name)], ..Select::default() };
        let kill =
            || settle(Fence::Open, vec![outcome(written.seq, &written.id, Token::default(), dead.clone())]);
        tried("settle", store.settle(kill())).await?;
        tried("replay", store.replay(Replay { select: select.clone(), limit, by: by.clone(), now })).await?;
        tried("discard", store.discard(Discard { select: select.clone(), limit, by: by.clone(), now }))
            .await?;
        tried("cancel", store.cancel(Cancel { ids: select.ids.clone(), by: by.clone(), now })).await?;
        let purge = Purge { status: PurgeStatus::Done, older_than: LEASE, limit, now };
        tried("purge", store.purge(purge)).await?;
        for action in [GroupAction::Pause, GroupAction::Resume] {
            let group = GroupKey::new(format!("g{round}"));
            let change = GroupChange { group, action, reason: None, by: by.clone(), now };
            tried("change group", store.change_group(change)).await?;
        }
        Some(())
    }

    /// What people look at.
    async fn look(&self) -> Option<()> {
        let store = &self.store;
        tried("check", store.check()).await?;
        tried("stats", store.stats()).await?;
        tried("list", store.list(List { limit: 5, ..List::default() })).await?;
        tried("show", store.show(EventId::from_row("w0-1-0"))).await?;
        tried("count", store.count(Select::default())).await?;
        tried("groups", store.groups(HeldGroups::first())).await?;
        tried("held groups", store.held(vec![GroupKey::new("g0")])).await?;
        tried("nodes", store.nodes()).await?;
        tried("audit", store.audit(5)).await.map(drop)
    }

    /// The leader of the items.
    async fn lead(&self, round: usize) -> Option<()> {
        let (store, node) = (&self.items, self.leader);
        let event = Event::text("EVENT", "{}").id(format!("{round:013}")).build().unwrap();
        let write = Write { rows: vec![NewRow { event, placement: Placement::Slot }], now: None };
        tried("write", store.write(write)).await?;
        let take = Take {
            node,
            after: None,
            except: Vec::new(),
            rows: 10,
            bytes: ByteLimits::NONE,
            each: 1,
            ungrouped: 5,
            ungrouped_order: Order::None,
            now: None,
        };
        let taken = tried("take", store.take(take)).await?;
        assert!(taken.leads, "its lease is long");
        let settled = settle(Fence::Node(node), of_rows(&taken.rows, &Change::Done));
        assert!(tried("settle", store.settle(settled)).await?.held, "its node is there");
        let recover = Recover { node, older_than: Duration::ZERO, except: Vec::new(), rows: 10, now: None };
        tried("recover", store.recover(recover)).await.map(drop)
    }
}

/// PBX-126: whatever is under way when the primary steps down ends in time, with a failure that passes or none, and
/// nothing that was confirmed is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_steps_down_loses_nothing_and_every_operation_ends_in_time() {
    let Ok(program) = std::env::var(MONGOD) else {
        return say(&format!("could not run: mongodb that steps down: {MONGOD} is not set"));
    };
    let set = Three::start(&program).await.unwrap();
    let database = Client::with_uri_str(set.url("shop")).await.unwrap().database("shop");
    let builder = || MongodbStore::builder(database.clone()).command_timeout(COMMAND);
    let store = builder().open().await.unwrap();
    let items = builder().table(TableName::new("items").unwrap()).open_items().await.unwrap();
    let (node, leader) = (NodeId::from_random(1), NodeId::from_random(2));
    for (table, node) in [(&store as &dyn Table, node), (&items, leader)] {
        table.admin().migrate().await.unwrap();
        table.register(join(node)).await.unwrap();
    }
    let (kept, gone) = (Mutex::default(), Mutex::default());
    let fixture = Arc::new(Fixture { store, items, node, leader, kept, gone });
    run_beside(&fixture, &set).await;

    let store = &fixture.store;
    let records = store.list(List { limit: 1_000_000, ..List::default() }).await.unwrap();
    let there: BTreeSet<String> = records.iter().map(|record| record.id.to_string()).collect();
    assert_eq!(there.len(), records.len(), "each is there once");
    let (kept, gone) = (fixture.kept.lock().unwrap().clone(), fixture.gone.lock().unwrap().clone());
    let lost: Vec<&String> = kept.difference(&there).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), kept.len());
    assert_eq!(there.intersection(&gone).count(), 0, "what was rolled back is not there");
    fixture.items.close().await;
    store.close().await;
}

/// How often each kind of work has gone well, and whether it may end.
#[derive(Clone, Copy, Default)]
struct Progress {
    rounds: [usize; KINDS],
    over: bool,
}

/// Runs all operations again and again while the primary steps down; between two of these each has gone well.
async fn run_beside(fixture: &Arc<Fixture>, set: &Three) {
    let progress = Arc::new(watch::Sender::new(Progress::default()));
    let mut tasks = JoinSet::new();
    for kind in 0..KINDS {
        let (fixture, progress) = (Arc::clone(fixture), Arc::clone(&progress));
        tasks.spawn(async move {
            let mut round = 0;
            while !progress.borrow().over {
                let went_well = fixture.work(kind, round).await.is_some();
                progress.send_modify(|progress| progress.rounds[kind] += usize::from(went_well));
                round += 1;
            }
        });
    }
    for stepped in 0..=STEP_DOWNS {
        let before = progress.borrow().rounds;
        let is_further = |now: &Progress| before.iter().zip(now.rounds).all(|(before, now)| now > before + 1);
        let all = async { progress.subscribe().wait_for(is_further).await.map(drop) };
        tokio::select! {
            gone_on = timeout(STARTED, all) => gone_on.expect("all of it goes on").unwrap(),
            ended = tasks.join_next() => panic!("work has ended: {ended:?}"),
        }
        if stepped < STEP_DOWNS {
            set.step_down().await;
        }
    }
    progress.send_modify(|progress| progress.over = true);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}
