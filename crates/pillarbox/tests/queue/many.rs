//! Many databases: found, routed, looked at in turn, none slowed by another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use pillarbox::events::Failure;
use pillarbox::memory::{MemoryOptions, MemoryStore};
use pillarbox::model::{NodeId, Row, Written};
use pillarbox::port::{
    Admin, Change, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, Joins, Membership, Promote,
    Promoted, Reap, Register, Settle, Settled, Store, StoreError, StoreFuture, Table, Write,
};
use pillarbox::queue::{
    Database, Databases, Discovery, DrainFirst, Message, RouteError, Selection, SelectionState,
};
use uuid::Uuid;

use crate::kit::*;

fn named(name: &str) -> MemoryStore {
    MemoryStore::with(MemoryOptions { name: name.to_owned(), ..MemoryOptions::default() })
}

fn noting(
    seen: &Seen,
) -> impl Fn(Message) -> std::future::Ready<Result<(), Failure>> + Send + Sync + 'static {
    let seen = seen.clone();
    move |message| {
        seen.add(message);
        std::future::ready(Ok(()))
    }
}

/// Databases that live as long as the test, and how often each was connected.
#[derive(Clone, Default)]
struct Fleet {
    stores: Arc<Mutex<BTreeMap<String, MemoryStore>>>,
    connects: Arc<Mutex<BTreeMap<String, usize>>>,
    listed: Arc<Mutex<Vec<Database>>>,
    broken: Arc<AtomicBool>,
}

impl Fleet {
    fn add(&self, name: &str, url: &str) {
        self.remove(name);
        self.listed.lock().unwrap().push(Database::new(name, url));
    }

    fn remove(&self, name: &str) {
        self.listed.lock().unwrap().retain(|database| database.name != name);
    }

    fn connects(&self, url: &str) -> usize {
        self.connects.lock().unwrap().get(url).copied().unwrap_or_default()
    }

    fn store(&self, url: &str) -> MemoryStore {
        self.stores.lock().unwrap().entry(url.to_owned()).or_insert_with(|| named(url)).clone()
    }

    fn databases(&self, refresh: Duration) -> Databases<MemoryStore> {
        let fleet = self.clone();
        let connect = move |database: Database| {
            *fleet.connects.lock().unwrap().entry(database.url.clone()).or_default() += 1;
            std::future::ready(Ok(fleet.store(&database.url)))
        };
        Databases::discovered_every(refresh, self.clone(), connect)
    }
}

impl Discovery for Fleet {
    fn discover(&self) -> StoreFuture<'_, Vec<Database>> {
        let found = self.listed.lock().unwrap().clone();
        let broken = self.broken.load(Ordering::SeqCst);
        Box::pin(async move {
            if broken {
                return Err(StoreError::new(ErrorKind::Unavailable, "discover", "list", "down"));
            }
            Ok(found)
        })
    }
}

/// OBX-066, OBX-070, OBX-072, OBX-073, OBX-074, OBX-121
#[tokio::test(start_paused = true)]
async fn a_key_leads_to_its_database() {
    let tenant = Uuid::from_u128(7);
    let databases =
        Databases::stores([("acme".to_owned(), named("acme")), (tenant.to_string(), named("seven"))]);
    databases.queue("acme").await.unwrap().enqueue(message("a")).await.unwrap();
    databases.queue(tenant).await.unwrap().enqueue_all([message("b"), message("b")]).await.unwrap();
    let queued = async |key: &str| {
        databases.queue(key).await.unwrap().store().admin().stats().await.unwrap().queue.pending()
    };
    assert_eq!((queued("acme").await, queued(&tenant.to_string()).await), (1, 2));
    let unknown = databases.queue("nobody").await.err().unwrap();
    assert!(matches!(&unknown, RouteError::Unknown(key) if key == "nobody"));
    assert!(unknown.to_string().contains("nobody"));
    let (one, other) = (databases.queue("acme").await.unwrap(), databases.queue("acme").await.unwrap());
    assert!(Arc::ptr_eq(one.store(), other.store()), "connected once");
}

/// OBX-066: what a list or a discovery says of a database reaches the function that connects it.
#[tokio::test(start_paused = true)]
async fn schema_and_table_of_a_database_reach_its_connection() {
    let connected = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&connected);
    let connect = move |database: Database| {
        let (schema, table) = (database.schema.clone(), database.table.clone());
        noted.lock().unwrap().push((database.name.clone(), schema, table));
        std::future::ready(Ok(named(&database.name)))
    };
    let plain = Database::new("plain", "mem:1");
    let own = Database::new("own", "mem:2").schema("acme").table("jobs");
    let databases = Databases::listed([plain, own.clone()], connect);
    databases.queue("plain").await.unwrap();
    databases.queue("own").await.unwrap();
    let some = |text: &str| Some(text.to_owned());
    let expected = [("plain".to_owned(), None, None), ("own".to_owned(), some("acme"), some("jobs"))];
    assert_eq!(*connected.lock().unwrap(), expected);
    assert_ne!(own, Database::new("own", "mem:2").schema("acme").table("other"), "another table is a change");
}

/// OBX-067, OBX-203
#[tokio::test(start_paused = true)]
async fn one_worker_works_for_all_of_them() {
    let databases = Databases::stores(["a", "b", "c"].map(|name| (name, named(name))));
    for name in ["a", "b", "c"] {
        let messages = (0..120).map(|_| message(name));
        databases.queue(name).await.unwrap().enqueue_all(messages).await.unwrap();
    }
    let seen = Seen::default();
    let mut worker = databases.worker();
    for name in ["a", "b", "c"] {
        worker = worker.handler(name, noting(&seen));
    }
    let worker = worker.start().unwrap();
    seen.until(360).await;
    worker.close().await;
}

/// Notes what was chosen.
struct Noted<T>(T, Arc<Mutex<Vec<String>>>);

impl<T: Selection> Selection for Noted<T> {
    fn select(&mut self, state: SelectionState<'_>) -> Option<usize> {
        let chosen = self.0.select(state);
        self.1.lock().unwrap().extend(chosen.map(|place| state.ready[place].to_owned()));
        chosen
    }
}

/// OBX-067, OBX-069
#[tokio::test(start_paused = true)]
async fn a_strategy_of_ones_own_chooses() {
    let databases = Databases::stores(["a", "b"].map(|name| (name, named(name))));
    for name in ["a", "b"] {
        databases.queue(name).await.unwrap().enqueue_all((0..30).map(|_| message("t"))).await.unwrap();
    }
    let (seen, chosen) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
    let selection = Noted(DrainFirst::default(), Arc::clone(&chosen));
    let worker = databases
        .worker()
        .selection(selection)
        .batch(10)
        .workers(64)
        .handler("t", noting(&seen))
        .start()
        .unwrap();
    seen.until(60).await;
    worker.close().await;
    let chosen = chosen.lock().unwrap().clone();
    let first_b = chosen.iter().position(|name| name == "b").unwrap();
    assert!(first_b >= 3, "a is drained first: {chosen:?}");
}

/// OBX-075, OBX-077, OBX-078, OBX-079, OBX-203
#[tokio::test(start_paused = true)]
async fn databases_come_and_go() {
    let fleet = Fleet::default();
    fleet.add("a", "mem:a");
    let databases = fleet.databases(secs(300));
    let seen = Seen::default();
    let worker = databases.worker().handler("t", noting(&seen)).start().unwrap();
    pass(secs(1)).await;
    databases.queue("a").await.unwrap().enqueue(message("t")).await.unwrap();
    seen.until(1).await;
    fleet.add("b", "mem:b");
    assert!(databases.queue("b").await.is_err(), "not discovered yet");
    pass(secs(300)).await;
    databases.queue("b").await.unwrap().enqueue(message("t")).await.unwrap();
    seen.until(2).await;
    let before = databases.queue("a").await.unwrap();
    let connected = fleet.connects("mem:a");
    databases.refresh().await.unwrap();
    let after = databases.queue("a").await.unwrap();
    assert!(Arc::ptr_eq(before.store(), after.store()), "what did not change is not made anew");
    assert_eq!(fleet.connects("mem:a"), connected);
    fleet.remove("a");
    pass(secs(300)).await;
    assert_eq!(databases.names(), ["b"]);
    pillarbox::Queue::new(fleet.store("mem:a")).enqueue(message("t")).await.unwrap();
    pass(secs(60)).await;
    assert_eq!(seen.all().len(), 2, "nobody works for it any more");
    fleet.add("b", "mem:elsewhere");
    pass(secs(300)).await;
    databases.queue("b").await.unwrap().enqueue(message("t")).await.unwrap();
    seen.until(3).await;
    worker.close().await;
    assert!(fleet.connects("mem:elsewhere") >= 1, "a new URL is a new connection");
}

/// OBX-075: the last set stays when discovery fails.
#[tokio::test(start_paused = true)]
async fn a_failed_discovery_takes_nothing_away() {
    let fleet = Fleet::default();
    fleet.add("a", "mem:a");
    let databases = fleet.databases(secs(60));
    let seen = Seen::default();
    let worker = databases.worker().handler("t", noting(&seen)).start().unwrap();
    pass(secs(1)).await;
    fleet.broken.store(true, Ordering::SeqCst);
    pass(secs(300)).await;
    databases.queue("a").await.unwrap().enqueue(message("t")).await.unwrap();
    seen.until(1).await;
    fleet.broken.store(false, Ordering::SeqCst);
    fleet.add("b", "mem:b");
    pass(secs(60)).await;
    assert_eq!(databases.names(), ["a", "b"], "and goes on when it works again");
    worker.close().await;
}

/// OBX-076
#[test]
fn databases_are_discovered_every_five_minutes() {
    let fleet = Fleet::default();
    let databases = Databases::discovered(fleet, |_: Database| async { Ok(MemoryStore::new()) });
    assert_eq!(databases.refresh_every(), Some(secs(300)));
}

/// OBX-078: one that is removed while a handler runs finishes it.
#[tokio::test(start_paused = true)]
async fn a_removed_database_finishes_what_is_in_flight() {
    let fleet = Fleet::default();
    fleet.add("a", "mem:a");
    let databases = fleet.databases(secs(10));
    let (running, go_on) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let handler = {
        let (running, go_on) = (Arc::clone(&running), Arc::clone(&go_on));
        move |_: Message| {
            let (running, go_on) = (Arc::clone(&running), Arc::clone(&go_on));
            async move {
                running.notify_one();
                go_on.notified().await;
                Ok::<_, Failure>(())
            }
        }
    };
    let worker = databases
        .worker()
        .drain_timeout(secs(600))
        .deadline(secs(3_000))
        .handler("t", handler)
        .start()
        .unwrap();
    pass(secs(1)).await;
    let queue = databases.queue("a").await.unwrap();
    let id = queue.enqueue(message("t")).await.unwrap().message;
    running.notified().await;
    fleet.remove("a");
    pass(secs(60)).await;
    assert!(databases.names().is_empty());
    go_on.notify_one();
    until(&queue, &id, pillarbox::model::Status::Done).await;
    worker.close().await;
}

/// OBX-066: idle databases cost no connections.
#[tokio::test(start_paused = true)]
async fn two_hundred_idle_databases_hold_no_connections() {
    let fleet = Fleet::default();
    for number in 0..200 {
        fleet.add(&format!("tenant-{number:03}"), &format!("mem:{number}"));
    }
    let databases = fleet.databases(secs(300));
    let seen = Seen::default();
    let worker = databases.worker().handler("t", noting(&seen)).start().unwrap();
    pass(secs(30)).await;
    let mut peak = 0;
    for _ in 0..200 {
        pass(Duration::from_millis(50)).await;
        peak = peak.max(databases.connected());
    }
    assert!(peak <= 32, "{peak} of 200 idle databases are connected at once");
    let kept = databases.queue("tenant-117").await.unwrap();
    pass(secs(30)).await;
    kept.enqueue(message("t")).await.unwrap();
    let began = tokio::time::Instant::now();
    seen.until(1).await;
    assert!(began.elapsed() < Duration::from_millis(100), "told at once: {:?}", began.elapsed());
    pillarbox::Queue::new(fleet.store("mem:3")).enqueue(message("t")).await.unwrap();
    seen.until(2).await;
    assert!(began.elapsed() <= secs(6), "another process' is found: {:?}", began.elapsed());
    worker.close().await;
    assert!(fleet.connects("mem:3") > 1, "it was looked at more than once");
}

/// What is wrong with a store's claims.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Fails,
    Hangs,
    /// Claims, and answers after this long.
    Slow(Duration),
    /// Claims, and can't renew them.
    NoRenewal,
    /// Claims that are made beside another one fail.
    FailsBeside,
    /// The first settle of an outcome fails.
    FirstSettle,
    /// The second claim never ends.
    SecondHangs,
}

/// A store whose claims fail, never end, or take long.
struct Bad {
    inner: MemoryStore,
    fault: Fault,
    claims: Arc<AtomicUsize>,
    /// Claims under way.
    under_way: Arc<AtomicUsize>,
    settles: AtomicUsize,
}

impl Bad {
    fn new(name: &str, fault: Fault, claims: &Arc<AtomicUsize>) -> Self {
        let (inner, claims) = (named(name), Arc::clone(claims));
        Self { inner, fault, claims, under_way: Arc::default(), settles: AtomicUsize::default() }
    }
}

impl Table for Bad {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.inner.now()
    }
    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        let renews = request.outcomes.iter().any(|outcome| matches!(outcome.change, Change::Extend { .. }));
        if renews && self.fault == Fault::NoRenewal {
            let down = StoreError::new(ErrorKind::Unavailable, "settle", "bad", "down");
            return Box::pin(async { Err(down) });
        }
        if self.fault == Fault::FirstSettle && !renews && self.settles.fetch_add(1, Ordering::SeqCst) == 0 {
            let down = StoreError::new(ErrorKind::Unavailable, "settle", "bad", "down");
            return Box::pin(async { Err(down) });
        }
        self.inner.settle(request)
    }
    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        self.inner.register(request)
    }
    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        self.inner.heartbeat(request)
    }
    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.inner.leave(node)
    }
    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.inner.write(request)
    }
    fn admin(&self) -> &dyn Admin {
        self.inner.admin()
    }
}

impl Store for Bad {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.inner.fetch(request)
    }
    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        let earlier = self.claims.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.fault {
                Fault::SecondHangs if earlier == 1 => std::future::pending().await,
                Fault::SecondHangs => self.inner.claim(request).await,
                Fault::Fails => Err(StoreError::new(ErrorKind::Unavailable, "claim", "bad", "down")),
                Fault::Hangs => std::future::pending().await,
                Fault::NoRenewal | Fault::FirstSettle => self.inner.claim(request).await,
                Fault::FailsBeside => {
                    let beside = self.under_way.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    self.under_way.fetch_sub(1, Ordering::SeqCst);
                    if beside > 0 {
                        return Err(StoreError::new(ErrorKind::Unavailable, "claim", "bad", "down"));
                    }
                    self.inner.claim(request).await
                }
                Fault::Slow(time) => {
                    let claimed = self.inner.claim(request).await;
                    pass(time).await;
                    claimed
                }
            }
        })
    }
    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.inner.due_topics(request)
    }
    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.inner.reap(request)
    }
    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.inner.promote(request)
    }
    fn joins(&self) -> Option<&dyn Joins> {
        self.inner.joins()
    }
}

/// OBX-099: one that is down or slow does not slow the others, and is not hammered.
#[tokio::test(start_paused = true)]
async fn a_bad_database_slows_nobody() {
    for drain_first in [false, true] {
        let claims = Arc::new(AtomicUsize::new(0));
        let bad = |fault| -> Arc<dyn Store> { Arc::new(Bad::new("bad", fault, &claims)) };
        let good: Arc<dyn Store> = Arc::new(named("good"));
        let databases =
            Databases::stores([("down", bad(Fault::Fails)), ("good", good), ("hangs", bad(Fault::Hangs))]);
        let queue = databases.queue("good").await.unwrap();
        queue.enqueue_all((0..500).map(|_| message("t"))).await.unwrap();
        let seen = Seen::default();
        let worker = databases.worker().workers(50).drain_timeout(secs(1)).handler("t", noting(&seen));
        let worker = if drain_first { worker.selection(DrainFirst::default()) } else { worker };
        let worker = worker.start().unwrap();
        let began = tokio::time::Instant::now();
        seen.until(500).await;
        assert!(began.elapsed() <= secs(3), "{:?} with drain first {drain_first}", began.elapsed());
        pass(secs(60)).await;
        let tried = claims.load(Ordering::SeqCst);
        assert!((2..=12).contains(&tried), "{tried} tries in a minute");
        drop(worker);
    }
}

/// OBX-050: what a claim brings after the worker has closed is given back at once.
#[tokio::test(start_paused = true)]
async fn a_claim_that_comes_too_late_is_given_back() {
    let claims = Arc::new(AtomicUsize::new(0));
    let slow = Bad::new("slow", Fault::Slow(secs(2)), &claims);
    let queue = pillarbox::Queue::new(slow);
    let seen = Seen::default();
    let worker = queue.worker().lease(secs(3_600)).handler("t", noting(&seen)).start().unwrap();
    // The first look is through.
    pass(Duration::from_millis(2_100)).await;
    let id = queue.enqueue(message("t")).await.unwrap().message;
    pass(secs(1)).await;
    assert!(record(&queue, &id).await.locked_by.is_some(), "the claim is under way");
    worker.close().await;
    let record = record(&queue, &id).await;
    assert_eq!((record.locked_by, record.attempts, seen.all().len()), (None, 0, 0));
}

/// OBX-059: a handler whose claim can't be renewed is dropped before another may have its message.
#[tokio::test(start_paused = true)]
async fn a_handler_ends_before_its_claim_does() {
    struct Ends(Arc<Mutex<Option<tokio::time::Instant>>>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.lock().unwrap().get_or_insert_with(tokio::time::Instant::now);
        }
    }
    let faulty = Bad::new("away", Fault::NoRenewal, &Arc::default());
    let queue = pillarbox::Queue::new(faulty);
    let ended = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&ended);
    let stuck = move |_: Message| {
        let ends = Ends(Arc::clone(&noted));
        async move {
            let _ends = ends;
            std::future::pending::<Result<(), Failure>>().await
        }
    };
    let worker = queue.worker().lease(secs(8)).deadline(secs(600)).handler("t", stuck).start().unwrap();
    let began = tokio::time::Instant::now();
    let id = queue.enqueue(message("t")).await.unwrap().message;
    let retry = until(&queue, &id, pillarbox::model::Status::Retry).await;
    assert_eq!(retry.last_error.as_deref(), Some("its claim ran out before it was finished"));
    let ended = ended.lock().unwrap().unwrap();
    assert!(ended - began <= secs(7) + Duration::from_millis(100), "{:?} of a lease of 8 s", ended - began);
    worker.close().await;
}

/// PBX-133: of two claims at once, neither waits for the other: while one is under way, the other is made again and
/// again, as long as there is room.
#[tokio::test(start_paused = true)]
async fn a_claim_does_not_wait_for_the_one_beside_it() {
    let claims = Arc::new(AtomicUsize::new(0));
    let queue = pillarbox::Queue::new(Bad::new("beside", Fault::SecondHangs, &claims));
    queue.enqueue_all((0..1_500).map(|_| message("t"))).await.unwrap();
    let seen = Seen::default();
    let worker = queue.worker().handler("t", noting(&seen)).start().unwrap();
    seen.until(1_500).await;
    assert!(claims.load(Ordering::SeqCst) >= 5, "the first, one that hangs, and three of 500 beside it");
    drop(worker);
}

/// PBX-133: a backlog is claimed by two claims at once. If one of them fails, what the other has claimed is handled,
/// and the rest follows.
#[tokio::test(start_paused = true)]
async fn a_backlog_is_claimed_by_two_claims_at_once() {
    let claims = Arc::new(AtomicUsize::new(0));
    let faulty = Bad::new("beside", Fault::FailsBeside, &claims);
    let queue = pillarbox::Queue::new(faulty);
    queue.enqueue_all((0..2_500).map(|_| message("t"))).await.unwrap();
    let seen = Seen::default();
    let worker = queue.worker().batch(1_000).handler("t", noting(&seen)).start().unwrap();
    seen.until(1_500).await;
    assert_eq!(claims.load(Ordering::SeqCst), 3, "one of 1,000, then two of 500, of which one failed");
    seen.until(2_500).await;
    worker.close().await;
    assert_eq!(seen.all().len(), 2_500, "each once");
}

/// PBX-220: no time has passed since the message became due, so the time alone does not tell that it was not settled.
#[tokio::test(start_paused = true)]
async fn an_outcome_of_a_claim_that_was_not_settled_is_settled_by_the_next_call() {
    let queue = pillarbox::Queue::new(Bad::new("once", Fault::FirstSettle, &Arc::default()));
    let seen = Seen::default();
    let noted = seen.clone();
    let refuses = move |message: Message| {
        noted.add(message);
        std::future::ready(Err(Failure::permanent("no")))
    };
    let worker = queue.worker().handler("t", refuses).start().unwrap();
    pass(secs(1)).await;
    let id = queue.enqueue(message("t")).await.unwrap().message;
    until(&queue, &id, pillarbox::model::Status::Dead).await;
    assert_eq!(seen.all().len(), 1);
    worker.close().await;
}
