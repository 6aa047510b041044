//! Five workers with short leases on one PostgreSQL, killed and stopped at random while messages and joins pass.
//!
//! The program is its own worker: started with the word `worker` it is one of the processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write as _, pipe};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use pillarbox::model::{JoinStatus, OwnerId, TableName};
use pillarbox::port::{Admin, Begin};
use pillarbox::queue::{JoinBuilder, Message, Waiting};
use pillarbox::rules::Fixed;
use pillarbox::{Event, Failure, Queue};
use pillarbox_postgres::sqlx::postgres::{PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{AssertSqlSafe, query_as, query_scalar, raw_sql};
use pillarbox_postgres::{Pooler, PostgresStore};
use uuid::Uuid;

const VARIABLE: &str = "PILLARBOX_TEST_POSTGRES_URL";
const WORKER: &str = "worker";
const WORKERS: usize = 5;
const MESSAGES: usize = 20_000;
const JOINS: usize = 500;
const STEPS: usize = 10;
/// So many messages are handled between one blow and the next.
const BETWEEN_BLOWS: usize = 700;
const LEASE: Duration = Duration::from_millis(1_500);
/// Nothing that is slow takes so long.
const LONG_LEASE: Duration = Duration::from_secs(60);
/// Nothing takes so long.
const NEVER: Duration = Duration::from_secs(300);
/// One handling in so many fails at first.
const BALKS_ONE_IN: u32 = 100;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, url, schema, owner, lease_ms] = words.iter().map(String::as_str).collect::<Vec<_>>()[..]
        && first == WORKER
    {
        return work(url, schema, owner, Duration::from_millis(lease_ms.parse().expect("a number")));
    }
    let trials = [
        (
            "workers_are_killed_and_stopped_and_nothing_is_lost",
            nothing_is_lost as fn(&str) -> Result<(), String>,
        ),
        ("healthy_workers_handle_each_message_once", each_is_handled_once),
    ];
    let trials = trials.map(|(name, run)| {
        Trial::ignorable_test(format!("postgres::{name}"), move || match std::env::var(VARIABLE) {
            Ok(url) => run(&url).map(|()| Completion::Completed).map_err(Failed::from),
            Err(_) => {
                let _ = writeln!(std::io::stdout(), "could not run: postgres: {VARIABLE} is not set");
                Ok(Completion::ignored_with(format!("could not run: {VARIABLE} is not set")))
            }
        })
    });
    let mut arguments = Arguments::from_args();
    // Others beside it would let claims run out.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn open(pool: &PgPool, schema: &str) -> PostgresStore {
    let schema = TableName::new(schema).expect("a plain name");
    PostgresStore::builder(pool.clone()).pooler(Pooler::None).schema(schema).open()
}

/// One of the processes: handles messages until its standard input ends.
fn work(url: &str, schema: &str, owner: &str, lease: Duration) -> ExitCode {
    let runtime = runtime();
    let worker = runtime.block_on(async {
        let pool = PgPoolOptions::new().max_connections(4).connect(url).await.expect("a pool");
        let queue = Queue::new(open(&pool, schema));
        let worker = queue.worker().owner(OwnerId::new(owner).expect("a name")).lease(lease).workers(4);
        let worker = worker.max_attempts(1_000).retry(Fixed(Duration::from_millis(20)));
        worker.handler("step", handle).handler("plain", handle).handler("next", handle).start()
    });
    let worker = worker.expect("a worker");
    // Ends with the process that started it.
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
    runtime.block_on(worker.close());
    ExitCode::SUCCESS
}

async fn handle(message: Message) -> Result<(), Failure> {
    if message.retry_count() == 0 && fastrand::u32(..BALKS_ONE_IN) == 0 {
        return Err(Failure::retry("not now"));
    }
    let line = format!("{}\n", message.message_id());
    std::io::stdout().lock().write_all(line.as_bytes())?;
    Ok(())
}

/// One process; killed when it is dropped.
struct Hand {
    owner: String,
    child: Child,
    input: Option<ChildStdin>,
}

impl Hand {
    fn signal(&self, signal: &str) {
        // By the shell: a small system has no program for it.
        let sent = Command::new("sh").args(["-c", &format!("kill -s {signal} {}", self.child.id())]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal {signal} can't be sent");
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes, and the messages they say to have handled.
struct Crew<'a> {
    url: &'a str,
    schema: &'a str,
    lease: Duration,
    pipe: PipeWriter,
    handled: Receiver<String>,
    hands: Vec<Hand>,
    started: usize,
    /// Every message that was handled, and how often.
    counts: BTreeMap<String, usize>,
}

impl<'a> Crew<'a> {
    fn new(url: &'a str, schema: &'a str, lease: Duration) -> Result<Self, String> {
        let (reader, pipe) = pipe().map_err(|error| error.to_string())?;
        let handled = lines(reader);
        let mut crew = Self {
            url,
            schema,
            lease,
            pipe,
            handled,
            hands: Vec::new(),
            started: 0,
            counts: BTreeMap::new(),
        };
        for _ in 0..WORKERS {
            let hand = crew.start()?;
            crew.hands.push(hand);
        }
        Ok(crew)
    }

    fn start(&mut self) -> Result<Hand, String> {
        self.started += 1;
        let owner = format!("worker-{}", self.started);
        let spawn = || {
            let mut child = Command::new(std::env::current_exe()?)
                .args([WORKER, self.url, self.schema, &owner, &self.lease.as_millis().to_string()])
                .stdin(Stdio::piped())
                .stdout(self.pipe.try_clone()?)
                .spawn()?;
            let input = child.stdin.take();
            std::io::Result::Ok(Hand { owner: owner.clone(), child, input })
        };
        spawn().map_err(|error| format!("a worker can't be started: {error}"))
    }

    /// Waits until so many more messages were handled, or all were.
    fn until_handled(&mut self, more: usize, all: usize) -> Result<bool, String> {
        for _ in 0..more {
            if self.counts.len() >= all {
                return Ok(true);
            }
            let id = self.handled.recv_timeout(NEVER).map_err(|_| {
                format!("{} of {all} messages were handled, and nothing goes on", self.counts.len())
            })?;
            *self.counts.entry(id).or_default() += 1;
        }
        Ok(self.counts.len() >= all)
    }
}

impl Crew<'_> {
    /// Lets everyone stop in order; how many messages were handled more than once.
    fn end(&mut self) -> Result<usize, String> {
        for hand in &mut self.hands {
            hand.input = None;
            let ended = hand.child.wait().map_err(|error| error.to_string())?;
            assert!(ended.success(), "{} ended with {ended}", hand.owner);
        }
        for id in self.handled.try_iter() {
            *self.counts.entry(id).or_default() += 1;
        }
        Ok(self.counts.values().filter(|count| **count > 1).count())
    }
}

fn lines(reader: PipeReader) -> Receiver<String> {
    let (sender, lines) = sync_channel(10_000);
    std::thread::spawn(move || {
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// OBX-053, OBX-059, OBX-100, OBX-101, OBX-118: no message is lost, none is settled by two owners, every join fires once.
fn nothing_is_lost(url: &str) -> Result<(), String> {
    let schema = format!("t_{}", Uuid::now_v7().simple());
    let runtime = runtime();
    let (pool, queue) = runtime.block_on(prepare(url, &schema)).map_err(|error| error.to_string())?;
    let mut crew = Crew::new(url, &schema, LEASE)?;
    let mut rng = fastrand::Rng::with_seed(6);
    let mut stopped: Option<usize> = None;
    let (mut kills, mut stops) = (0, 0);
    while !crew.until_handled(BETWEEN_BLOWS, MESSAGES + JOINS)? {
        let victim = rng.usize(..WORKERS);
        if let Some(asleep) = stopped.take() {
            // Long enough for others to have taken over what it held.
            let held = format!("locked_by = '{}' AND status IN (0, 2)", crew.hands[asleep].owner);
            runtime.block_on(until_none(&pool, &schema, &held))?;
            crew.hands[asleep].signal("CONT");
        } else if rng.bool() {
            crew.hands[victim].signal("STOP");
            (stopped, stops) = (Some(victim), stops + 1);
            continue;
        }
        crew.hands[victim] = crew.start()?;
        kills += 1;
    }
    if let Some(asleep) = stopped {
        crew.hands[asleep].signal("CONT");
    }
    runtime.block_on(until_none(&pool, &schema, "status IN (0, 2)"))?;
    let twice = crew.end()?;
    let _ =
        writeln!(std::io::stdout(), "{kills} kills, {stops} stops, {twice} messages handled more than once");
    assert!(kills >= 5 && stops >= 5, "{kills} kills and {stops} stops are too few");
    runtime.block_on(check(&pool, &queue, &schema)).map_err(|error| error.to_string())
}

/// OBX-059, OBX-101: without a fault no message comes twice, also not where settles are slow.
fn each_is_handled_once(url: &str) -> Result<(), String> {
    let schema = format!("t_{}", Uuid::now_v7().simple());
    let runtime = runtime();
    let (pool, queue) = runtime.block_on(prepare(url, &schema)).map_err(|error| error.to_string())?;
    let mut crew = Crew::new(url, &schema, LONG_LEASE)?;
    assert!(crew.until_handled(usize::MAX, MESSAGES + JOINS)?);
    runtime.block_on(until_none(&pool, &schema, "status IN (0, 2)"))?;
    assert_eq!(crew.end()?, 0, "messages were handled more than once");
    runtime.block_on(check(&pool, &queue, &schema)).map_err(|error| error.to_string())
}

type Anything = Box<dyn std::error::Error>;

/// Tables, a witness of every settle, and all messages, some of them steps of joins.
async fn prepare(url: &str, schema: &str) -> Result<(PgPool, Queue<PostgresStore>), Anything> {
    let pool = PgPoolOptions::new().max_connections(4).connect(url).await?;
    raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&pool).await?;
    let store = open(&pool, schema);
    store.migrate().await?;
    let witness = format!(
        "CREATE TABLE {schema}.settled (event_id text NOT NULL, owner text);
         CREATE FUNCTION {schema}.witness() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO {schema}.settled VALUES (NEW.event_id, NEW.processed_by); RETURN NULL; END $$;
         CREATE TRIGGER witness AFTER UPDATE ON {schema}.outbox_event FOR EACH ROW
         WHEN (NEW.status = 1) EXECUTE FUNCTION {schema}.witness();"
    );
    raw_sql(AssertSqlSafe(witness)).execute(&pool).await?;
    let queue = Queue::new(store);
    for number in 0..JOINS {
        let mut tx = queue.store().begin().await?;
        let steps = (0..STEPS).map(|step| Event::text("step", "{}").id(format!("j{number}-{step}")));
        let steps = queue.enqueue_on(&mut tx, steps).await?;
        let steps: Vec<_> = steps.into_iter().map(|one| one.message).collect();
        let join = queue.joins().start_on(&mut tx, JoinBuilder::of(STEPS as u32)).await?;
        queue.joins().attach_on(&mut tx, &join, &steps).await?;
        let next = Waiting::new().on_complete("next", format!("{number}"));
        queue.joins().wait_on(&mut tx, &join, next).await?;
        queue.store().commit(tx).await?;
    }
    let plain = MESSAGES - JOINS * STEPS;
    for page in (0..plain).collect::<Vec<_>>().chunks(500) {
        let messages = page.iter().map(|number| Event::text("plain", "{}").id(format!("p{number}")));
        queue.enqueue_all(messages).await?;
    }
    Ok((pool, queue))
}

/// Waits until no message is like that.
async fn until_none(pool: &PgPool, schema: &str, like: &str) -> Result<(), String> {
    let count = format!("SELECT count(*) FROM {schema}.outbox_event WHERE {like}");
    let looking = async {
        while query_scalar::<_, i64>(AssertSqlSafe(count.as_str())).fetch_one(pool).await? > 0 {}
        Ok::<_, pillarbox_postgres::sqlx::Error>(())
    };
    match tokio::time::timeout(NEVER, looking).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("there are still messages with {like}")),
    }
}

async fn check(pool: &PgPool, queue: &Queue<PostgresStore>, schema: &str) -> Result<(), Anything> {
    let stats = queue.store().stats().await?;
    let all = (MESSAGES + JOINS) as u64;
    assert_eq!(stats.by_status(), [0, all, 0, 0], "everything is done, and nothing else is there");
    let settled: Vec<(String, i64, Option<String>)> = query_as(AssertSqlSafe(format!(
        "SELECT event_id, count(*), min(owner) FROM {schema}.settled GROUP BY event_id"
    )))
    .fetch_all(pool)
    .await?;
    assert_eq!(settled.len() as u64, all);
    let twice: Vec<_> = settled.iter().filter(|(_, count, _)| *count != 1).collect();
    assert!(twice.is_empty(), "settled more than once: {twice:?}");
    assert!(settled.iter().all(|(_, _, owner)| owner.is_some()), "an owner is on record");
    let joins = queue.joins().list(None, None, JOINS + 1).await?;
    assert_eq!(joins.len(), JOINS);
    for join in &joins {
        assert_eq!((join.status, join.completed, join.failed), (JoinStatus::Completed, STEPS as u32, 0));
    }
    let fired: BTreeSet<_> = joins.iter().filter_map(|join| join.fired.clone()).collect();
    assert_eq!(fired.len(), JOINS, "each ended in a message of its own");
    let next: i64 = query_scalar(AssertSqlSafe(format!(
        "SELECT count(*) FROM {schema}.outbox_event WHERE event_type = 'next'"
    )))
    .fetch_one(pool)
    .await?;
    assert_eq!(next, JOINS as i64);
    raw_sql(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(pool).await?;
    Ok(())
}
