//! Wake-up: nobody waits for a poll, and no writer pays for it.

use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::port::Table;

use crate::kit::{Fixture, Seen, commit, could_not_run};
use crate::server::Server;

/// Neither a poll nor a heartbeat comes while a test runs.
const HOURS: Duration = Duration::from_secs(6 * 3_600);
const LISTENS: &str = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle' \
                       AND application_name = current_setting('search_path')";

/// PBX-016: one process writes, another holds the slot and would not look for hours.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_another_process_is_delivered_without_waiting_for_a_poll() {
    let Some(fixture) = Fixture::new().await else { return };
    let seen = Seen::new();
    let store = fixture.store().await;
    let holder = seen.hear(Outbox::ordered(store)).poll_interval(HOURS).lease(HOURS).start().await.unwrap();
    let writer = Outbox::writer_only(fixture.beside()).start().await.unwrap();
    fixture.until(LISTENS, 1).await;
    for number in 1..=20 {
        commit(&writer, &number.to_string(), &number.to_string()).await;
        seen.wait(number).await;
    }
    // A lost connection is made again, and what came meanwhile is not forgotten.
    fixture
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' \
             AND application_name = current_setting('search_path')",
        )
        .await;
    commit(&writer, "21", "21").await;
    seen.wait(21).await;
    holder.close().await;
    writer.close().await;
}

/// PBX-218: neither node's next heartbeat comes for hours.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_leaves_tells_the_others_at_once() {
    let Some(fixture) = Fixture::new().await else { return };
    let start = async |store, seen: &Seen| {
        seen.hear(Outbox::ordered(store)).poll_interval(HOURS).lease(HOURS).start().await.unwrap()
    };
    let (first, second) = (Seen::new(), Seen::new());
    let leaves = start(fixture.store().await, &first).await;
    let stays = start(fixture.beside(), &second).await;
    fixture.until(LISTENS, 2).await;
    leaves.close().await;
    fixture
        .until("SELECT count(DISTINCT holder) FROM outbox_slot WHERE slot < 64 AND holder IS NOT NULL", 1)
        .await;
    fixture.until("SELECT count(*) FROM outbox_slot WHERE slot < 64 AND holder IS NULL", 0).await;
    commit(&stays, "1", "1").await;
    second.wait(1).await;
    stays.close().await;
}

/// PBX-016: NOTIFY holds a lock over the commit of everyone, so it never comes on a writer's connection.
#[tokio::test(flavor = "multi_thread")]
async fn no_connection_that_writes_notifies() {
    let server = match Server::new(&["log_statement=all", "log_line_prefix=%p|"]) {
        Ok(server) => server,
        Err(reason) => return could_not_run("pillarbox-postgres", &reason),
    };
    let fixture = Fixture::at(&server.url()).await;
    let seen = Seen::new();
    let holder = seen.hear(Outbox::ordered(fixture.store().await)).poll_interval(HOURS).lease(HOURS);
    let holder = holder.start().await.unwrap();
    let writer = Outbox::writer_only(fixture.beside()).start().await.unwrap();
    fixture.until(LISTENS, 1).await;
    for number in 1..=10 {
        commit(&writer, &number.to_string(), "1").await;
        seen.wait(number).await;
    }
    holder.close().await;
    writer.close().await;
    let log = server.log();
    let who = |did: &str| -> Vec<String> {
        let lines = log.lines().filter(|line| line.contains(did));
        lines.filter_map(|line| Some(line.split_once('|')?.0.to_owned())).collect()
    };
    let (writers, notifiers) = (who("INSERT INTO \"outbox_event\""), who("pg_notify("));
    assert!(writers.len() >= 10, "{log}");
    assert!(!notifiers.is_empty(), "{log}");
    assert!(writers.iter().all(|pid| !notifiers.contains(pid)), "{log}");
}

/// EVT-070: a store that listens can be closed, and leaves nobody listening.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_listens_no_more() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    let hints = store.wakeups();
    assert!(hints.is_some());
    fixture.until(LISTENS, 1).await;
    tokio::time::timeout(Duration::from_secs(60), store.close()).await.expect("closing comes to an end");
    fixture.until(LISTENS, 0).await;
}
