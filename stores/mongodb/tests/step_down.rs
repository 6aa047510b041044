//! A primary that steps down in the middle of every operation, on replica sets of three of the tests' own.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
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
use pillarbox_mongodb::mongodb::bson::{DateTime, Document, doc};
use pillarbox_mongodb::mongodb::error::ErrorKind as Driver;
use pillarbox_mongodb::mongodb::{Client, ClientSession, Collection};
use pillarbox_mongodb::{MongodbItemStore, MongodbStore};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

mod server;

use server::mongod::{MONGOD, STARTED, Three};
use server::{claim, read_from, rows, say};

/// At most so many, to have met every operation.
const STEP_DOWNS: usize = 80;
/// Kinds of work that go on side by side.
const KINDS: usize = 7;
/// What the clients of the work call themselves.
const NAME: &str = "work";
/// The commands that a primary holds up before it steps down, in turns: so it steps down at the first change of an operation, or
/// at its first command.
const HELD: [&[&str]; 2] = [
    &["insert", "update", "delete", "findAndModify", "commitTransaction", "abortTransaction"],
    &[
        "find",
        "aggregate",
        "distinct",
        "count",
        "listIndexes",
        "insert",
        "update",
        "delete",
        "findAndModify",
        "commitTransaction",
        "abortTransaction",
    ],
];
/// For how long; a step-down takes less, or it does not count.
const HELD_MS: i32 = 500;
/// Every operation that asks the server, except for `migrate`.
const OPERATIONS: [&str; 47] = [
    "adopt",
    "attach",
    "audit",
    "cancel",
    "cancel a join",
    "cancel on",
    "change a join on",
    "check",
    "claim",
    "commit",
    "count",
    "discard",
    "due topics",
    "fetch",
    "groups",
    "heartbeat",
    "held groups",
    "insert",
    "leave",
    "list",
    "list joins",
    "nodes",
    "now",
    "pause",
    "promote",
    "publish",
    "purge",
    "reap",
    "recover",
    "register",
    "replay",
    "resume",
    "roll back",
    "settle",
    "settle of a leader",
    "settle of a node",
    "settle of an owner",
    "settle on",
    "show",
    "show a join",
    "skip",
    "start a join",
    "stats",
    "take",
    "unblock",
    "write",
    "write an item",
];
const COMMAND: Duration = Duration::from_secs(10);
/// A call ends at most 5 s after the time that its commands have.
const LIMIT: Duration = Duration::from_secs(16);
/// A node's lease: none is evicted while there is no primary.
const LEASE: Duration = Duration::from_secs(3_600);
/// What is older may be purged: nothing is.
const AGE: Duration = Duration::from_secs(3_600);

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
    /// The events, past the store and its client.
    foreign: Collection<Document>,
    /// Step-downs that were ordered, and those that have happened.
    ordered: AtomicUsize,
    happened: AtomicUsize,
    /// Operations that were under way when a primary stepped down.
    met: Mutex<BTreeSet<&'static str>>,
    progress: watch::Sender<Progress>,
}

/// How far the work is.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// How often each kind has gone well.
    rounds: [usize; KINDS],
    /// Whether operations wait that no step-down has met yet, and how many do.
    is_closed: bool,
    waiting: usize,
    is_over: bool,
}

/// Waits for an answer, which comes in time; nothing where it is a failure that passes.
async fn answered<T>(what: &str, answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
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
    Settle { fence, outcomes: outcomes.into(), on_done: OnDone::Keep, repeats: None, now: None }
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

    /// Waits for the answer of an operation, as `answered` does, and notes it if a primary stepped down meanwhile.
    async fn tried<T>(
        &self,
        what: &'static str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<T> {
        let ordered = self.turn(what).await;
        let answer = answered(what, answer).await;
        if self.happened.load(Ordering::SeqCst) > ordered {
            self.met.lock().unwrap().insert(what);
        }
        answer
    }

    /// Waits for the next step-down if none has met this operation yet. Returns how many were ordered when the operation began.
    async fn turn(&self, what: &'static str) -> usize {
        let is_met = self.met.lock().unwrap().contains(what);
        if is_met || !self.progress.borrow().is_closed {
            return self.ordered.load(Ordering::SeqCst);
        }
        self.progress.send_modify(|progress| progress.waiting += 1);
        self.progress.subscribe().wait_for(|progress| !progress.is_closed).await.unwrap();
        let ordered = self.ordered.load(Ordering::SeqCst);
        self.progress.send_modify(|progress| progress.waiting -= 1);
        ordered
    }

    /// One round of one kind of work; none if something failed.
    async fn work(&self, kind: usize, round: usize) -> Option<()> {
        match kind {
            0 => self.write(round).await,
            1 => self.deliver(round).await,
            2 => self.queue(round).await,
            3 => self.operate(round).await,
            4 => self.look().await,
            5 => self.lead(round).await,
            _ => self.go_along(round).await,
        }
    }

    /// Writes and transactions.
    async fn write(&self, round: usize) -> Option<()> {
        let store = &self.store;
        for count in 1..=2 {
            let names: Vec<String> = (0..count).map(|place| format!("w{round}-{count}-{place}")).collect();
            let written = self.tried("write", store.write(rows(names.clone()))).await?;
            self.keep(&written, &names);
        }
        let name = format!("t{round}");
        let mut tx = answered("begin", store.begin()).await?;
        let written =
            self.tried("insert", async { store.insert(&mut tx, &rows([name.clone()]).rows).await }).await?;
        self.committed(tx).await?;
        self.keep(&written, &[name]);
        let name = format!("r{round}");
        self.gone.lock().unwrap().insert(name.clone());
        let mut tx = answered("begin", store.begin()).await?;
        self.tried("insert", async { store.insert(&mut tx, &rows([name]).rows).await }).await?;
        self.tried("roll back", store.rollback(tx)).await
    }

    async fn committed(&self, tx: ClientSession) -> Option<()> {
        let commit = async {
            let (CommitError::Unknown(error) | CommitError::Refused(error)) =
                match self.store.commit(tx).await {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                };
            Err(error)
        };
        self.tried("commit", commit).await
    }

    /// In transactions of the caller; and documents of other programs.
    async fn go_along(&self, round: usize) -> Option<()> {
        let (store, by, now) = (&self.store, "ann".to_owned(), None);
        let name = format!("f{round}");
        let document = doc! { "_id": &name, "event_type": "t", "payload": "{}", "aggregate_id": "7" };
        let mut read = read_from(Cursor::default());
        read.rows = 20;
        let adopt = async {
            if self.foreign.insert_one(document).await.is_ok() {
                self.kept.lock().unwrap().insert(name);
            }
            store.fetch(read).await
        };
        self.tried("adopt", adopt).await?;
        let names = [format!("s{round}"), format!("c{round}")];
        let written = answered("write", store.write(rows(names))).await?;
        let done = vec![outcome(written[0].seq, &written[0].id, Token::default(), Change::Done)];
        let mut tx = answered("begin", store.begin()).await?;
        self.tried("settle on", store.settle_on(&mut tx, settle(Fence::Open, done))).await?;
        self.committed(tx).await?;
        let mut tx = answered("begin", store.begin()).await?;
        let ids = vec![written[1].id.clone()];
        self.tried("cancel on", store.cancel_on(&mut tx, Cancel { ids, by, now })).await?;
        self.committed(tx).await?;
        let mut tx = answered("begin", store.begin()).await?;
        let action = JoinAction::Start { grouping_key: None, expected: 1, metadata: None };
        let join = JoinId::new(format!("k{round}")).unwrap();
        let change = JoinChange { join, action, now };
        self.tried("change a join on", store.change_join_on(&mut tx, change)).await?;
        self.committed(tx).await
    }

    /// Nodes, and what they deliver.
    async fn deliver(&self, round: usize) -> Option<()> {
        let store = &self.store;
        self.tried("heartbeat", store.heartbeat(heartbeat(self.node))).await?.expect("its lease is long");
        let mut read = read_from(Cursor::default());
        read.rows = 20;
        let fetched = self.tried("fetch", store.fetch(read)).await?;
        let change = match round % 3 {
            0 => Change::Attempt { attempts: 1 },
            1 => Change::Retry {
                delay: Duration::ZERO,
                error: "no".into(),
                counts: Counts::Made(1),
                wait: Wait::Delayed,
            },
            _ => Change::Done,
        };
        let settled = settle(Fence::Node(self.node), of_rows(&fetched.rows, &change));
        let settled = self.tried("settle of a node", store.settle(settled)).await?;
        assert!(settled.held, "its node is there");
        let promote =
            Promote { node: self.node, lane: Lane(64), order: Order::PerGroup, rows: 20, now: None };
        self.tried("promote", store.promote(promote)).await?;
        let other = NodeId::from_random(1_000 + round as u128);
        self.tried("register", store.register(join(other))).await?;
        self.tried("publish", store.publish(other, "well".to_owned())).await?;
        self.tried("leave", store.leave(other)).await
    }

    /// The queue, and joins.
    async fn queue(&self, round: usize) -> Option<()> {
        let store = &self.store;
        let rows = self.tried("claim", store.claim(claim("ann", 5))).await?;
        let owner = Fence::Owner(claim("ann", 0).owner);
        let released = settle(owner, of_rows(&rows, &Change::Release { attempts: 0 }));
        self.tried("settle of an owner", store.settle(released)).await?;
        self.tried("due topics", store.due_topics(DueTopics { except: Arc::default(), limit: 5, now: None }))
            .await?;
        self.tried("reap", store.reap(Reap { older_than: LEASE, rows: 5, now: None })).await?;
        let name = format!("q{round}");
        let event = Event::text("step", "{}").id(name.clone()).build().unwrap();
        let write = Write { rows: vec![NewRow { event, placement: Placement::Queue }], now: None };
        let written = self.tried("write", store.write(write)).await?;
        self.keep(&written, std::slice::from_ref(&name));
        let id = JoinId::new(format!("j{round}")).unwrap();
        let messages = vec![EventId::from_row(name)];
        let joins = store.joins().expect("a replica set has them");
        for (what, action) in [
            ("start a join", JoinAction::Start { grouping_key: None, expected: 1, metadata: None }),
            ("attach", JoinAction::Attach { messages }),
            ("cancel a join", JoinAction::Cancel { by: "ann".to_owned() }),
        ] {
            self.tried(what, joins.change_join(JoinChange { join: id.clone(), action, now: None })).await?;
        }
        self.tried("list joins", joins.list_joins(ListJoins { limit: 5, ..ListJoins::default() })).await?;
        self.tried("show a join", joins.show_join(id, 5)).await.map(drop)
    }

    /// What people do.
    async fn operate(&self, round: usize) -> Option<()> {
        let store = &self.store;
        let (by, limit, now) = ("ann".to_owned(), 5, None);
        let name = format!("o{round}");
        let written = self.tried("write", store.write(rows([name.clone()]))).await?.remove(0);
        let dead = Change::Dead { error: "no".into(), counts: Counts::Made(1), blocks: None };
        let select = Select { ids: vec![EventId::from_row(name)], ..Select::default() };
        let kill =
            || settle(Fence::Open, vec![outcome(written.seq, &written.id, Token::default(), dead.clone())]);
        self.tried("settle", store.settle(kill())).await?;
        self.tried("replay", store.replay(Replay { select: select.clone(), limit, by: by.clone(), now }))
            .await?;
        self.tried("discard", store.discard(Discard { select: select.clone(), limit, by: by.clone(), now }))
            .await?;
        self.tried("cancel", store.cancel(Cancel { ids: select.ids.clone(), by: by.clone(), now })).await?;
        let purge = Purge { status: PurgeStatus::Done, older_than: AGE, limit, now };
        self.tried("purge", store.purge(purge)).await?;
        for action in [GroupAction::Pause, GroupAction::Resume] {
            self.change_group(round, action).await?;
        }
        for action in [GroupAction::Unblock, GroupAction::Skip] {
            let blocks = Some(GroupKey::new(format!("g{round}")));
            let dead = Change::Dead { error: "no".into(), counts: Counts::Made(1), blocks };
            let name = format!("b{round}-{}", action.as_str());
            let written = answered("write", store.write(rows([name]))).await?.remove(0);
            let kill = vec![outcome(written.seq, &written.id, Token::default(), dead)];
            answered("settle", store.settle(settle(Fence::Open, kill))).await?;
            self.change_group(round, action).await?;
        }
        Some(())
    }

    async fn change_group(&self, round: usize, action: GroupAction) -> Option<()> {
        let (group, by) = (GroupKey::new(format!("g{round}")), "ann".to_owned());
        let change = GroupChange { group, action, reason: None, by, now: None };
        self.tried(action.as_str(), self.store.change_group(change)).await.map(drop)
    }

    /// What people look at.
    async fn look(&self) -> Option<()> {
        let store = &self.store;
        self.tried("now", store.now()).await?;
        self.tried("check", store.check()).await?;
        self.tried("stats", store.stats()).await?;
        self.tried("list", store.list(List { limit: 5, ..List::default() })).await?;
        self.tried("show", store.show(EventId::from_row("w0-1-0"))).await?;
        self.tried("count", store.count(Select::default())).await?;
        self.tried("groups", store.groups(HeldGroups::first())).await?;
        self.tried("held groups", store.held(vec![GroupKey::new("g0")])).await?;
        self.tried("nodes", store.nodes()).await?;
        self.tried("audit", store.audit(5)).await.map(drop)
    }

    /// The leader of the items.
    async fn lead(&self, round: usize) -> Option<()> {
        let (store, node) = (&self.items, self.leader);
        let event = Event::text("EVENT", "{}").id(format!("{round:013}")).build().unwrap();
        let write = Write { rows: vec![NewRow { event, placement: Placement::Slot }], now: None };
        self.tried("write an item", store.write(write)).await?;
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
        let taken = self.tried("take", store.take(take)).await?;
        assert!(taken.leads, "its lease is long");
        let settled = settle(Fence::Node(node), of_rows(&taken.rows, &Change::Done));
        let settled = self.tried("settle of a leader", store.settle(settled)).await?;
        assert!(settled.held, "its node is there");
        let recover = Recover { node, older_than: Duration::ZERO, except: Vec::new(), rows: 10, now: None };
        self.tried("recover", store.recover(recover)).await.map(drop)
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
    let url = format!("{}&appName={NAME}", set.url("shop"));
    let database = Client::with_uri_str(url).await.unwrap().database("shop");
    let builder = || MongodbStore::builder(database.clone()).command_timeout(COMMAND);
    let store = builder().open().await.unwrap();
    let items = builder().table(TableName::new("items").unwrap()).open_items().await.unwrap();
    let (node, leader) = (NodeId::from_random(1), NodeId::from_random(2));
    for (table, node) in [(&store as &dyn Table, node), (&items, leader)] {
        table.admin().migrate().await.unwrap();
        table.register(join(node)).await.unwrap();
    }
    let fixture = Arc::new(Fixture {
        store,
        items,
        node,
        leader,
        kept: Mutex::default(),
        gone: Mutex::default(),
        foreign: set.client.database("shop").collection("outbox_event"),
        ordered: AtomicUsize::new(0),
        happened: AtomicUsize::new(0),
        met: Mutex::default(),
        progress: watch::Sender::default(),
    });
    run_beside(&fixture, &set).await;
    let met = fixture.met.lock().unwrap().clone();
    assert_eq!(met, BTreeSet::from(OPERATIONS), "a step-down has met each");

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

/// Runs all operations again and again while primaries step down, until a step-down has met each operation.
async fn run_beside(fixture: &Arc<Fixture>, set: &Three) {
    let mut tasks = JoinSet::new();
    for kind in 0..KINDS {
        let fixture = Arc::clone(fixture);
        tasks.spawn(async move {
            let mut round = 0;
            while !fixture.progress.borrow().is_over {
                let went_well = fixture.work(kind, round).await.is_some();
                fixture.progress.send_modify(|progress| progress.rounds[kind] += usize::from(went_well));
                round += 1;
            }
        });
    }
    for stepped in 0..STEP_DOWNS {
        if fixture.met.lock().unwrap().len() == OPERATIONS.len() {
            break;
        }
        tokio::select! {
            gathered = timeout(STARTED, gather(fixture)) => gathered.expect("all of it goes on"),
            ended = tasks.join_next() => panic!("work has ended: {ended:?}"),
        }
        step_down(fixture, set, HELD[stepped % HELD.len()]).await;
    }
    let gone_on = async {
        let before = fixture.progress.borrow().rounds;
        let is_further = |now: &Progress| before.iter().zip(now.rounds).all(|(before, now)| now > before + 1);
        fixture.progress.subscribe().wait_for(is_further).await.map(drop)
    };
    timeout(STARTED, gone_on).await.expect("all of it goes on").unwrap();
    fixture.progress.send_modify(|progress| progress.is_over = true);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// Waits until every kind of work is about to begin an operation that no step-down has met, or has none such any more.
async fn gather(fixture: &Fixture) {
    let before = fixture.progress.borrow().rounds;
    fixture.progress.send_modify(|progress| progress.is_closed = true);
    // A kind that has gone through two rounds without a wait has gone through a whole one.
    let is_gathered = |now: &Progress| {
        let through = before.iter().zip(now.rounds).filter(|(before, now)| *now > *before + 1).count();
        through + now.waiting == KINDS
    };
    fixture.progress.subscribe().wait_for(is_gathered).await.unwrap();
}

/// Has the primary hold up commands, lets the operations begin that wait, and has the primary step down.
async fn step_down(fixture: &Fixture, set: &Three, held: &[&str]) {
    let primary = set.primary().await;
    let admin = primary.database("admin");
    let data =
        doc! { "failCommands": held, "appName": NAME, "blockConnection": true, "blockTimeMS": HELD_MS };
    let hold_up = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data };
    admin.run_command(hold_up).await.unwrap();
    fixture.progress.send_modify(|progress| progress.is_closed = false);
    fixture.progress.subscribe().wait_for(|progress| progress.waiting == 0).await.unwrap();
    fixture.ordered.fetch_add(1, Ordering::SeqCst);
    let stepped = admin.run_command(doc! { "replSetStepDown": 2, "secondaryCatchUpPeriodSecs": 1 }).await;
    match stepped {
        // No other member was ready in time.
        Err(error) if matches!(&*error.kind, Driver::Command(_)) => {
            fixture.ordered.fetch_sub(1, Ordering::SeqCst)
        }
        _ => fixture.happened.fetch_add(1, Ordering::SeqCst),
    };
    let go_on = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    while admin.run_command(go_on.clone()).await.is_err() {}
}

/// EVT-040, PBX-122: a member that becomes primary has applied the inserts of its predecessor several at a time, and holds them in
/// another order; what nobody had numbered by then gets its numbers by `created_at`.
#[tokio::test]
async fn documents_of_others_keep_their_order_when_the_primary_changes() {
    const DOCUMENTS: i64 = 2_000;
    const AT_ONCE: usize = 100;
    let Ok(program) = std::env::var(MONGOD) else {
        return say(&format!("could not run: mongodb that steps down: {MONGOD} is not set"));
    };
    let set = Three::start(&program).await.unwrap();
    let database = Client::with_uri_str(set.url("shop")).await.unwrap().database("shop");
    let store = MongodbStore::new(database.clone()).await.unwrap();
    store.migrate().await.unwrap();
    let events = database.collection::<Document>("outbox_event");
    let document = |number: i64| {
        doc! { "_id": Uuid::new_v4().to_string(), "event_type": "t", "payload": number.to_string(), "aggregate_id": "7",
        "created_at": DateTime::from_millis(1_700_000_000_000 + number) }
    };
    let documents: Vec<Document> = (0..DOCUMENTS).map(document).collect();
    for part in documents.chunks(AT_ONCE) {
        events.insert_many(part).await.unwrap();
    }
    set.step_down().await;
    while events.count_documents(doc! { "seq": null }).await.unwrap() > 0 {
        store.fetch(read_from(Cursor::default())).await.unwrap();
    }
    let mut numbers = Vec::new();
    let mut cursor = events.find(doc! {}).sort(doc! { "seq": 1 }).await.unwrap();
    while cursor.advance().await.unwrap() {
        let row = cursor.deserialize_current().unwrap();
        numbers.push(row.get_str("payload").unwrap().parse::<i64>().unwrap());
    }
    assert_eq!(numbers, (0..DOCUMENTS).collect::<Vec<_>>());
    store.close().await;
}
