//! The database's clock alone judges: a node whose own clock is a day wrong neither steals, stalls nor hurries.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, SystemTime};

use pillarbox::model::Event;
use pillarbox::{Failure, Outbox};
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::postgres::PgPool;
use pillarbox_postgres::sqlx::query;

use crate::kit::{ACCOUNT, Fixture, MAIN, ORDER_PLACED, could_not_run};
use crate::server::wait_until;

/// Names libfaketime.
const LIBRARY: &str = "PILLARBOX_TEST_LIBFAKETIME";
/// Tells a process that it is the other node, and of which schema.
const SCHEMA: &str = "PILLARBOX_TEST_CLOCK_SCHEMA";
/// So wrong is its clock, in seconds.
const WRONG: &str = "PILLARBOX_TEST_CLOCK_WRONG";
const DAY: i64 = 86_400;
const LEASE: Duration = Duration::from_secs(9);
const SOON: Duration = Duration::from_millis(50);
const DUE: Duration = Duration::from_secs(1);
const EVENTS: i64 = 40;

const DELIVERED: &str = "SELECT count(*) FROM seen";
const TWICE: &str = "SELECT count(*) - count(DISTINCT id) FROM seen";
const EARLY: &str = "SELECT count(*) FROM seen JOIN outbox_event ON event_id = id WHERE at < due_at";
const SHARED: &str = "SELECT count(DISTINCT holder) FROM outbox_slot WHERE slot < 64";
/// Nodes whose lease does not lie between now and the longest that it can be.
const ODD: &str = "SELECT count(*) FROM outbox_node \
                   WHERE expires_at NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '9 seconds'";
/// A node that was evicted comes back under another id.
const RENEWED: &str =
    "SELECT count(*) FROM outbox_node n JOIN before b USING (node_id) WHERE n.expires_at > b.expires_at";

/// The library that changes a process's clock.
fn library() -> Option<PathBuf> {
    if let Some(library) = std::env::var_os(LIBRARY) {
        return Some(library.into());
    }
    let folders = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let all = folders.chain(["/usr/lib".into(), "/usr/lib64".into()]);
    all.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|library| library.exists())
}

/// A process of this test with another clock; it leaves when its input ends.
struct Other {
    child: Child,
    input: Option<ChildStdin>,
}

impl Other {
    fn start(library: PathBuf, test: &str, schema: &str, wrong: i64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(SCHEMA, schema)
            .env(WRONG, now().saturating_add(wrong).to_string())
            .env("LD_PRELOAD", library)
            .env("FAKETIME", format!("{wrong:+}"))
            // Only what people call the time: waits are measured as ever.
            .env("DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .stdin(Stdio::piped())
            // Its summary is not ours; what goes wrong it says elsewhere.
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        Self { child, input }
    }

    fn leave(mut self) {
        self.input = None;
        let mut end = None;
        wait_until(|| {
            end = self.child.try_wait().unwrap();
            end.is_some()
        });
        assert!(end.is_some_and(|end| end.success()), "the other process: {end:?}");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn now() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() as i64)
}

/// A node that writes down, by the database's clock, when it delivered what.
async fn node(fixture: &Fixture, label: &'static str) -> Outbox<PostgresStore> {
    let pool = fixture.pool.clone();
    let listener = move |event: Event| {
        let pool: PgPool = pool.clone();
        async move {
            let seen =
                query("INSERT INTO seen (id, node) VALUES ($1, $2)").bind(event.id().to_string()).bind(label);
            seen.execute(&pool).await.map(drop).map_err(Failure::retry)
        }
    };
    let outbox = Outbox::ordered(fixture.beside()).label(label).lease(LEASE).poll_interval(SOON).no_purge();
    outbox.listener(ORDER_PLACED, listener).start().await.unwrap()
}

/// Every other event is due later.
async fn write(outbox: &Outbox<PostgresStore>, name: &str) {
    for number in 0..EVENTS {
        let mut tx = outbox.begin().await.unwrap();
        let event = Event::text(ORDER_PLACED, "{}").id(format!("{name}-{number}"));
        let event = event.aggregate(ACCOUNT, format!("{name}-{number}"));
        tx.write(if number % 2 == 0 { event } else { event.due(DUE) }).unwrap();
        tx.commit().await.unwrap();
    }
}

/// The other process: it writes and delivers until its input ends.
async fn be_the_other(schema: String) {
    let said: i64 = std::env::var(WRONG).unwrap().parse().unwrap();
    assert!((now() - said).abs() < DAY / 24, "the clock is right, or another one than was said");
    let fixture = Fixture::again(&std::env::var(MAIN).unwrap(), schema);
    let outbox = node(&fixture, "wrong").await;
    write(&outbox, "wrong").await;
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    end.await.unwrap().unwrap();
    outbox.close().await;
}

/// Waits until both nodes, and still the same, have renewed their leases.
async fn until_renewed(fixture: &Fixture) {
    fixture
        .execute(
            "DROP TABLE IF EXISTS before; CREATE TABLE before AS SELECT node_id, expires_at FROM outbox_node",
        )
        .await;
    assert_eq!(fixture.number("SELECT count(*) FROM before").await, 2);
    fixture.until(RENEWED, 2).await;
    assert_eq!(fixture.number(ODD).await, 0);
}

async fn beside_a_node_whose_clock_is_wrong(test: &str, wrong: i64) {
    if let Ok(schema) = std::env::var(SCHEMA) {
        return be_the_other(schema).await;
    }
    let Some(library) = library() else {
        return could_not_run(
            "pillarbox-postgres with wrong clocks",
            "libfaketime is not installed, and PILLARBOX_TEST_LIBFAKETIME is not set",
        );
    };
    let Some(fixture) = Fixture::new().await else { return };
    fixture.store().await;
    fixture.execute("CREATE TABLE seen (id text, node text, at timestamptz DEFAULT clock_timestamp())").await;
    let outbox = node(&fixture, "right").await;
    let other = Other::start(library, test, &fixture.schema, wrong);
    fixture.until("SELECT count(*) FROM outbox_node", 2).await;
    write(&outbox, "right").await;
    until_renewed(&fixture).await;
    until_renewed(&fixture).await;
    fixture.until(SHARED, 2).await;
    write(&outbox, "again").await;
    fixture.until(DELIVERED, 3 * EVENTS).await;
    until_renewed(&fixture).await;
    assert_eq!(fixture.number("SELECT count(DISTINCT node) FROM seen").await, 2);
    other.leave();
    outbox.close().await;
    assert_eq!(fixture.number(TWICE).await, 0);
    assert_eq!(fixture.number(EARLY).await, 0);
    assert_eq!(
        fixture.number("SELECT count(*) FROM outbox_event WHERE status <> 1 OR attempts > 0").await,
        0
    );
}

/// PBX-014: it would evict all others and deliver what is due tomorrow.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_a_day_ahead_changes_nothing() {
    beside_a_node_whose_clock_is_wrong("clock::a_clock_a_day_ahead_changes_nothing", DAY).await;
}

/// PBX-014: it would be evicted by all others, and deliver nothing before tomorrow.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_a_day_behind_changes_nothing() {
    beside_a_node_whose_clock_is_wrong("clock::a_clock_a_day_behind_changes_nothing", -DAY).await;
}
