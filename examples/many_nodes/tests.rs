//! Starts the program as processes of their own, ends one and kills one, and judges the ledger.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use super::fixture::Fixture;
use super::*;

/// Far more than a loaded machine needs; only a test that has failed waits so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// More than there will be: the test closes the accounts.
const BOOKINGS: i64 = 1_000_000;
const URL: &str = "MANY_NODES_TEST_URL";
const NAME: &str = "MANY_NODES_TEST_NAME";

/// What a node prints; none when it has ended.
type Line = (&'static str, Option<String>);

/// A process of the example; killed when it is dropped.
struct Node {
    name: &'static str,
    child: Child,
}

impl Node {
    fn start(name: &'static str, url: &str, lines: &SyncSender<Line>) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "tests::bookings_stay_in_order_while_nodes_join_stop_and_die"])
            .envs([(URL, url), (NAME, name)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (output, lines) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
        // Ends with the process, whose output it reads.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = lines.send((name, Some(line)));
            }
            let _ = lines.send((name, None));
        });
        Self { name, child }
    }

    /// Asks it to end, as a supervisor does.
    fn terminate(&self) {
        // By the shell: a small system has no program for it.
        let kill = format!("kill -s TERM {}", self.child.id());
        let told = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(told.success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until nodes have printed what is asked for.
#[track_caller]
fn wait(lines: &Receiver<Line>, what: &str, mut found: impl FnMut(&str, Option<&str>) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let (name, line) = lines.recv_timeout(left).unwrap_or_else(|_| panic!("waited in vain for {what}"));
        if found(name, line.as_deref()) {
            return;
        }
    }
}

/// What a process that the test starts does instead of testing.
async fn one_node(url: &str, name: &str) {
    let pool = PgPoolOptions::new().max_connections(3).connect(url).await.unwrap();
    run(pool, name, BOOKINGS).await.unwrap();
}

/// PBX-010, PBX-011, EVT-170: a node joins, one is stopped and one killed while all of them book; every booking is in the
/// ledger, in the order of its account, and without the killed node's nothing came twice.
#[tokio::test]
async fn bookings_stay_in_order_while_nodes_join_stop_and_die() {
    if let (Ok(url), Ok(name)) = (env::var(URL), env::var(NAME)) {
        return one_node(&url, &name).await;
    }
    let Some(fixture) = Fixture::new("many_nodes").await else { return };
    let (sender, lines) = sync_channel(10_000);
    let mut a = Node::start("a", &fixture.url(), &sender);
    let mut b = Node::start("b", &fixture.url(), &sender);
    let (mut delivered, mut again) = (HashSet::new(), Vec::new());
    let mut note = |line: Option<&str>| {
        if let Some((_, what)) = line.and_then(|line| line.split_once(" delivers ")) {
            let booking = what.trim_end_matches(" again");
            delivered.insert(booking.to_owned());
            again.extend(what.ends_with(" again").then(|| booking.to_owned()));
        }
        delivered.len() as i64
    };

    let mut delivering = HashSet::new();
    let mut who = |name: &str, line: Option<&str>| {
        if line.is_some_and(|line| line.contains(" delivers ")) {
            delivering.insert(name.to_owned());
        }
        delivering.len()
    };
    let two = |line: Option<&str>| line.is_some_and(|line| line.contains("sees") && line.contains(", "));
    wait(&lines, "two nodes that see each other", |name, line| {
        note(line);
        who(name, line);
        two(line)
    });
    let c = Node::start("c", &fixture.url(), &sender);
    wait(&lines, "deliveries of all three nodes", |name, line| {
        note(line);
        who(name, line) == 3
    });
    a.terminate();
    wait(&lines, "the end of the node that was stopped", |name, line| {
        note(line);
        name == a.name && line.is_none()
    });
    assert!(a.child.wait().unwrap().success(), "a stopped node ends well");
    b.child.kill().unwrap();
    let pool = fixture.pool().await;
    // Waits for bookings under way; after it there is none.
    sqlx::query("UPDATE account SET closed = true").execute(&pool).await.unwrap();
    let booked: Vec<(String, i64)> =
        sqlx::query_as("SELECT name, booked FROM account").fetch_all(&pool).await.unwrap();
    let all: i64 = booked.iter().map(|account| account.1).sum();
    wait(&lines, "all bookings", |_, line| note(line) == all);
    c.terminate();
    wait(&lines, "the end of the last node", |name, line| name == c.name && line.is_none());

    let ledger: Vec<(String, i64, String)> =
        sqlx::query_as("SELECT account, number, node FROM ledger ORDER BY id")
            .fetch_all(&pool)
            .await
            .unwrap();
    for (account, last) in booked {
        let numbers: Vec<i64> = ledger.iter().filter(|row| row.0 == account).map(|row| row.1).collect();
        assert_eq!(numbers, (1..=last).collect::<Vec<_>>(), "{account}");
    }
    for name in ["a", "b", "c"] {
        assert!(ledger.iter().any(|row| row.2 == name), "{name} delivered nothing");
    }
    let by_killed = |what: &String| {
        let killed = ledger.iter().filter(|row| row.2 == b.name);
        killed.map(|row| format!("{} {}", row.0, row.1)).any(|row| row == *what)
    };
    assert!(again.iter().all(by_killed), "came twice without a reason: {again:?}");
    // A killed node is there until its lease ends and another one heartbeats; the others have left.
    let nodes = PostgresStore::new(pool.clone()).nodes().await.unwrap();
    assert!(nodes.iter().all(|node| node.label == b.name), "{nodes:?}");
    pool.close().await;
    fixture.clear().await;
}
