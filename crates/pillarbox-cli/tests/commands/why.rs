//! `events why`: each reason in a real situation, on SQLite and on PostgreSQL.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use pillarbox::model::{Event, NewRow, NodeId, Placement};
use pillarbox::port::{Change, Counts, Heartbeat, ReadScope, Register, Wait, Write};
use pillarbox_postgres::sqlx::postgres::PgConnection;
use pillarbox_postgres::sqlx::{AssertSqlSafe, Connection, Executor, Row as _};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::outbox::Outbox;
use crate::postgres::Fixture;

/// Whatever is waited for has come by then, or never comes.
const PATIENCE: Duration = Duration::from_secs(120);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Two owners of claims.
const FIRST: &str = "0b6c3b9e-6e0b-4c4b-9c1f-0c9a7c0d1e2f";
const SECOND: &str = "1b6c3b9e-6e0b-4c4b-9c1f-0c9a7c0d1e2f";

/// Produces the same situation on each kind of database.
fn each(scenario: impl Fn(&Outbox)) {
    scenario(&Outbox::new());
    if let Some(fixture) = Fixture::new() {
        scenario(&fixture.outbox());
    }
}

#[track_caller]
fn why(outbox: &Outbox, id: &str) -> Value {
    outbox.run(&["events", "why", id, "--json"]).done().json()
}

#[track_caller]
fn reason(outbox: &Outbox, id: &str) -> String {
    why(outbox, id)["reason"].as_str().unwrap().to_owned()
}

/// Asks until the answer is so.
#[track_caller]
fn why_at_last(outbox: &Outbox, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let asked_at = Instant::now();
    loop {
        let told = why(outbox, id);
        if is_so(&told) {
            return told;
        }
        assert!(asked_at.elapsed() < PATIENCE, "{told:#}");
    }
}

fn further(told: &Value) -> Vec<&str> {
    told["further"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect()
}

fn chain(told: &Value) -> Vec<(&str, &str)> {
    let links = told["chain"].as_array().unwrap().iter();
    links.map(|one| (one["event"].as_str().unwrap(), one["reason"].as_str().unwrap())).collect()
}

fn retry(error: &str, wait: Wait) -> Change {
    Change::Retry { delay: HOUR, error: error.to_owned(), counts: Counts::Made(1), wait }
}

/// PBX-297
#[test]
fn events_that_have_ended_are_explained() {
    each(|outbox| {
        let done = outbox.delivered(&["--type", "t"]);
        assert_eq!(reason(outbox, &done), "delivered");

        let dead = outbox.dead_head("Order/7", "no such currency\nsecret words");
        let told = why(outbox, &dead);
        assert_eq!(told["reason"], "dead");
        assert!(told["sentence"].as_str().unwrap().contains("no such currency"), "{told:#}");
        assert!(!told.to_string().contains("secret words"), "{told:#}");
        assert_eq!(told["advice"][1], format!("then replay it: pillarbox dead replay {dead}"));
        assert!(told["advice"][2].as_str().unwrap().ends_with("pillarbox groups skip Order/7"), "{told:#}");

        outbox.run(&["dead", "discard", &dead, "--yes"]).done();
        assert_eq!(reason(outbox, &dead), "discarded");
        let cancelled = outbox.write(&["--type", "t"]);
        outbox.run(&["events", "cancel", &cancelled]).done();
        let told = why(outbox, &cancelled);
        assert_eq!(told["reason"], "cancelled");
        assert!(told["sentence"].as_str().unwrap().contains("cancelled by cli/tester"), "{told:#}");
    });
}

/// PBX-298
#[test]
fn an_id_that_nobody_knows_has_its_own_exit_code() {
    each(|outbox| {
        outbox.run(&["events", "why", "nope"]).exits(3).complains("there is no event \"nope\"");
        let error = outbox.run(&["events", "why", "nope", "--json"]).exits(3).error();
        assert_eq!(error["kind"], "not-found");
        assert!(error["hint"].as_str().unwrap().contains("has not committed"), "{error:#}");
    });
}

/// PBX-297
#[test]
fn times_that_an_event_waits_for_are_explained() {
    each(|outbox| {
        let expired = outbox.write(&["--type", "t", "--expires", "1ms"]);
        why_at_last(outbox, &expired, |told| told["reason"] == "expired");
        let later = outbox.write(&["--type", "t", "--due", "1h"]);
        assert_eq!(reason(outbox, &later), "not_due");
        let failed = outbox.write(&["--type", "t"]);
        outbox.settle(&failed, retry("timed out", Wait::Delayed));
        let told = why(outbox, &failed);
        assert_eq!((&told["reason"], &further(&told)[..]), (&json!("retry"), &["no_node"][..]));
        assert!(told["sentence"].as_str().unwrap().starts_with("Attempt 1 failed: timed out."), "{told:#}");
    });
}

/// PBX-297
#[test]
fn what_a_group_waits_for_is_explained_down_to_the_root() {
    each(|outbox| {
        let first = outbox.write(&["--type", "t", "--group", "a"]);
        let second = outbox.write(&["--type", "t", "--group", "a"]);
        let third = outbox.write(&["--type", "t", "--group", "a"]);
        outbox.settle(&first, retry("timed out", Wait::InPlace));
        for waiting in [&second, &third] {
            let told = why(outbox, waiting);
            assert_eq!(chain(&told), [(waiting.as_str(), "behind_event"), (first.as_str(), "retry")]);
            assert!(told["chain"][1]["sentence"].as_str().unwrap().contains("timed out"), "{told:#}");
        }
        assert_eq!(reason(outbox, &first), "retry");

        let dead = outbox.dead_head("b", "no such currency");
        let behind = outbox.write(&["--type", "t", "--group", "b"]);
        let told = why(outbox, &behind);
        assert_eq!(chain(&told), [(behind.as_str(), "group_blocked"), (dead.as_str(), "dead")]);
        outbox.run(&["groups", "pause", "b", "--reason", "under review"]).done();
        let told = why(outbox, &behind);
        assert_eq!(told["reason"], "group_paused");
        assert!(told["sentence"].as_str().unwrap().ends_with(": under review."), "{told:#}");
        assert!(told["sentence"].as_str().unwrap().contains("paused by cli/tester since"), "{told:#}");
    });
}

/// PBX-297
#[test]
fn messages_of_the_queue_are_explained() {
    each(|outbox| {
        let id = outbox
            .run(&["queue", "enqueue", "--topic", "mail", "--payload", "{}"])
            .done()
            .stdout
            .trim_end()
            .to_owned();
        assert_eq!(reason(outbox, &id), "next_read");
        outbox.claim(FIRST, "300ms");
        why_at_last(outbox, &id, |told| told["reason"] == "claim_expired");
        outbox.claim(SECOND, "1h");
        let told = why(outbox, &id);
        assert_eq!(told["reason"], "claimed");
        let claimed = format!("{SECOND} has claimed it until ");
        assert!(told["sentence"].as_str().unwrap().starts_with(&claimed), "{told:#}");

        let old = written_a_minute_ago(outbox, Placement::Queue);
        assert_eq!(reason(outbox, &old), "unclaimed");
    });
}

/// Writes an event whose times are a minute ago.
fn written_a_minute_ago(outbox: &Outbox, placement: Placement) -> String {
    outbox.with_store(async |store| {
        let event = Event::text("t", "{}").build().unwrap();
        let now = store.now().await.unwrap().checked_sub(MINUTE).unwrap();
        let rows = vec![NewRow { event, placement }];
        let written = store.write(Write { rows, now: Some(now) }).await.unwrap();
        written[0].id.to_string()
    })
}

/// Registers a node that stops at once and lets its lease run from this time on.
fn register(outbox: &Outbox, number: u128, at: Timestamp, lease: Duration) -> NodeId {
    let node = NodeId::from_random(number);
    let label = format!("node-{number}");
    let request = Register { node, label, reads: ReadScope::Share, lease, now: Some(at) };
    outbox.with_store(async |store| store.register(request).await).unwrap();
    node
}

/// A heartbeat of a node; without slots to trust it keeps their quarantine.
fn heartbeat(outbox: &Outbox, node: NodeId, is_trusting: bool) {
    outbox.with_store(async |store| {
        let mut request = Heartbeat {
            node,
            lease: HOUR,
            trusted: Vec::new(),
            release: Vec::new(),
            groups_seen: 0,
            after: pillarbox::model::Seq(0),
            sweep: false,
            now: None,
        };
        let membership = store.heartbeat(request.clone()).await.unwrap().unwrap();
        if is_trusting {
            request.trusted = membership.held.iter().map(|held| held.slot).collect();
            store.heartbeat(request).await.unwrap().unwrap();
        }
    });
}

/// PBX-297
#[test]
fn nodes_that_died_and_what_follows_are_explained() {
    each(|outbox| {
        let id = outbox.write(&["--type", "t"]);
        assert_eq!(reason(outbox, &id), "no_node");
        let now = outbox.with_store(async |store| store.now().await).unwrap();
        let before = now.checked_sub(MINUTE).unwrap();
        register(outbox, 1, before, MINUTE);
        let told = why(outbox, &id);
        assert_eq!(told["reason"], "no_node");
        assert!(told["sentence"].as_str().unwrap().contains("the last one, node-1, ended at "), "{told:#}");

        // Registered before the lease of the first ended, so that nobody has evicted it yet.
        let second = register(outbox, 2, before, HOUR);
        let told = why(outbox, &id);
        assert_eq!(told["reason"], "node_died");
        let sentence = told["sentence"].as_str().unwrap();
        assert!(sentence.starts_with("The node node-1 held it and died"), "{sentence}");
        assert!(sentence.contains("node-2 takes over"), "{sentence}");

        heartbeat(outbox, second, false);
        let told = why(outbox, &id);
        assert_eq!(told["reason"], "quarantined");
        assert!(told["sentence"].as_str().unwrap().contains("node-2 sends such events"), "{told:#}");
        heartbeat(outbox, second, true);
        let fresh = outbox.write(&["--type", "t"]);
        let told = why(outbox, &fresh);
        assert_eq!(told["reason"], "next_read");
        assert!(told["sentence"].as_str().unwrap().contains("node-2 delivers it with its next read"));
        let old = written_a_minute_ago(outbox, Placement::Slot);
        assert_eq!(reason(outbox, &old), "held_by_node");
    });
}

/// PBX-297
#[test]
fn a_slot_that_nobody_has_taken_yet_is_explained() {
    each(|outbox| {
        let now = outbox.with_store(async |store| store.now().await).unwrap();
        let first = register(outbox, 1, now, HOUR);
        register(outbox, 2, now, HOUR);
        let id = outbox.write(&["--type", "t"]);
        outbox.with_store(async |store| store.leave(first).await).unwrap();
        assert_eq!(reason(outbox, &id), "slot_free");
    });
}

/// PBX-297
#[test]
fn a_type_without_a_listener_is_explained() {
    each(|outbox| {
        let id = outbox.write(&["--type", "order.placed"]);
        outbox.with_store(async |store| {
            let store = std::sync::Arc::clone(store.native().unwrap());
            let builder = pillarbox::Outbox::single_node(store);
            let delivering = builder
                .listener("other", |_: Event| async { Ok::<(), pillarbox::Failure>(()) })
                .no_purge()
                .start()
                .await
                .unwrap();
            let told = tokio::task::block_in_place(|| {
                why_at_last(outbox, &id, |told| told["reason"] == "no_listener")
            });
            assert!(told["sentence"].as_str().unwrap().contains("no listener for"), "{told:#}");
            delivering.close().await;
        });
    });
}

/// An endpoint that answers the first request of every connection with this status.
fn endpoint(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
            let lower = head.to_ascii_lowercase();
            let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            // A body that is not read would end the connection before the answer.
            let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
            let _ = reader.read_exact(&mut body);
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// Runs a relay to this address while `asking` runs.
fn with_relay<T>(outbox: &Outbox, address: SocketAddr, asking: impl FnOnce() -> T) -> T {
    let url = format!("http://{address}");
    // Five failures in a row open the circuit breaker, which would take half a minute by default.
    let quick = ["--retry-min", "100ms", "--retry-max", "200ms"];
    let mut relay = outbox.command(&[&["relay", "--api-base-url", &url][..], &quick].concat());
    let mut child = relay.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let told = asking();
    child.kill().unwrap();
    child.wait().unwrap();
    told
}

/// PBX-297, PBX-090
#[test]
fn a_sink_that_fails_is_explained_with_its_cause() {
    each(|outbox| {
        let id = outbox.write(&["--type", "order.placed", "--group", "a"]);
        // Bound and closed: nobody listens there.
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let told = with_relay(outbox, refusing, || {
            why_at_last(outbox, &id, |told| told["reason"] == "breaker_open")
        });
        let sentence = told["sentence"].as_str().unwrap();
        assert!(sentence.contains("(refused)") && sentence.contains("The next probe is at "), "{sentence}");
        assert!(told["advice"][0].as_str().unwrap().contains("check that the endpoint runs"), "{told:#}");
    });
}

/// PBX-297, PBX-090: an endpoint that asks for fewer requests opens no circuit breaker.
#[test]
fn a_sink_that_throttles_is_explained() {
    each(|outbox| {
        let id = outbox.write(&["--type", "order.placed", "--group", "a"]);
        let throttling = endpoint("429 Too Many Requests");
        let told = with_relay(outbox, throttling, || {
            why_at_last(outbox, &id, |told| told["reason"] == "sink_failing")
        });
        assert!(told["sentence"].as_str().unwrap().contains("(throttled)"), "{told:#}");
    });
}

/// PBX-299: transactions of others are seen on PostgreSQL alone.
#[test]
fn open_transactions_are_explained_on_postgresql() {
    let Some(fixture) = Fixture::new() else { return };
    let outbox = fixture.outbox();
    let table = format!("{}.outbox_event", fixture.schema);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let run = |connection: &mut PgConnection, sql: String| {
        runtime.block_on(connection.execute(AssertSqlSafe(sql))).unwrap();
    };
    let mut other = runtime.block_on(PgConnection::connect(&fixture.server)).unwrap();
    let pid = runtime.block_on(other.fetch_one("SELECT pg_backend_pid()")).unwrap().get::<i32, _>(0);

    let id = outbox.write(&["--type", "t"]);
    run(&mut other, format!("BEGIN; SELECT 1 FROM {table} WHERE event_id = '{id}' FOR UPDATE"));
    let told = why_at_last(&outbox, &id, |told| told["reason"] == "transaction_open");
    assert!(told["sentence"].as_str().unwrap().contains(&format!("session {pid}")), "{told:#}");
    assert!(
        told["advice"][1].as_str().unwrap().ends_with(&format!("pg_terminate_backend({pid})")),
        "{told:#}"
    );
    run(&mut other, "ROLLBACK".to_owned());
    assert_ne!(reason(&outbox, &id), "transaction_open");

    run(
        &mut other,
        format!(
            "BEGIN; INSERT INTO {table} (event_id, event_type, payload) VALUES ('uncommitted', 't', '{{}}')"
        ),
    );
    let id = outbox.write(&["--type", "t"]);
    why_at_last(&outbox, &id, |told| further(told).contains(&"transaction_open"));
    let error = outbox.run(&["events", "why", "uncommitted", "--json"]).exits(3).error();
    assert!(error["hint"].as_str().unwrap().contains(&format!("session {pid}")), "{error:#}");
    run(&mut other, "ROLLBACK".to_owned());
    runtime.block_on(other.close()).unwrap();
}

/// PBX-297: items have no numbers, but nodes and groups all the same.
#[test]
fn items_of_other_programs_are_explained() {
    let outbox = Outbox::of_items();
    let id = outbox.write(&["--type", "EVENT", "--group", "a"]);
    assert_eq!(reason(&outbox, &id), "no_node");
    outbox.run(&["groups", "pause", "a"]).done();
    assert_eq!(reason(&outbox, &id), "group_paused");
    if let Some(fixture) = Fixture::new() {
        fixture.run(&["migrate", "--layout", "flowcatalyst"]).done();
        let id = fixture.run(&["write", "--type", "EVENT", "--group", "a"]).done().stdout;
        let told = fixture.run(&["events", "why", id.trim_end(), "--json"]).done().json();
        assert_eq!(told["reason"], "no_node");
    }
}

/// PBX-298
#[test]
fn people_read_the_reason_its_evidence_and_what_to_do() {
    let outbox = Outbox::new();
    let dead = outbox.dead_head("Order/7", "no such currency");
    let waiting = outbox.write(&["--type", "order.paid", "--group", "Order/7"]);
    let told = outbox.run(&["events", "why", &waiting]).done().stdout;
    let (sentence, rest) = told.split_once("\n\n").unwrap();
    assert!(
        sentence.starts_with(&format!("Its group Order/7 has been blocked behind the dead event {dead}"))
    );
    for part in [
        "status      new\n",
        "type        order.paid\n",
        "what to do\n  remove the cause of the error\n",
        "  or leave it dead and go on: pillarbox groups skip Order/7\n",
        "also\n  No node is alive that would deliver it.\n",
        &format!("waits for\n  {dead}: It has been dead since "),
    ] {
        assert!(rest.contains(part), "{part:?} is not in {told}");
    }
}
