//! Numbers that come again, and done marks that are taken back: what lies below a cursor then is read all the same.

use std::process::Command;
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::port::{Admin, Cursor, Table};
use pillarbox_conformance::{account_insert, node, register};
use pillarbox_postgres::sqlx::postgres::PgPoolOptions;
use pillarbox_postgres::sqlx::{Row, query};
use pillarbox_postgres::{Pooler, PostgresStore};
use tokio::time::timeout;

use crate::bouncer::{Bouncer, Next};
use crate::kit::{Fixture, NEVER, Seen, could_not_run, fetch_from};
use crate::server::Server;

/// Nobody is evicted meanwhile, and no heartbeat brings done marks to the disk.
const LEASE: Duration = Duration::from_secs(600);
/// Plain writers send no hints.
const POLL: Duration = Duration::from_millis(50);
const PENDING: &str = "SELECT count(*) FROM outbox_event WHERE status <> 1";
/// As many crashes until one of them has taken done marks back; nearly always the first.
const CRASHES: usize = 5;

/// Kills a server process, as the system does when memory runs out. The server ends all others and recovers by itself.
async fn crash(fixture: &Fixture, server: &Server) {
    let ready = || server.log().matches("ready to accept connections").count();
    let before = ready();
    let mut spare = fixture.connection().await;
    let pid: i32 = query("SELECT pg_backend_pid()").fetch_one(&mut spare).await.unwrap().get(0);
    let killed = Command::new("sh").args(["-c", "kill -s KILL \"$0\"", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
    assert!(query("SELECT 1").fetch_one(&mut spare).await.is_err(), "the process is gone");
    // The log is the only signal of the end of a recovery.
    let recovers = async {
        while ready() == before {
            tokio::task::yield_now().await;
        }
    };
    timeout(NEVER, recovers).await.unwrap();
}

/// Events are delivered, then a crash takes their done marks back: they come again, without a restart of the node.
async fn marks_come_back(server: &Server, store: PostgresStore) {
    let fixture = Fixture::again(&server.url(), "public".to_owned());
    store.migrate().await.unwrap();
    let seen = Seen::new();
    let outbox = seen.hear(Outbox::ordered(store)).lease(LEASE).poll_interval(POLL).start().await.unwrap();
    for round in 1..=CRASHES {
        let ids: Vec<String> = (0..50).map(|number| format!("{round}-{number}")).collect();
        let rows: Vec<String> = ids.iter().map(|id| account_insert(id, id)).collect();
        fixture.execute(&rows.join(";")).await;
        seen.wait_for(&ids).await;
        fixture.until(PENDING, 0).await;
        crash(&fixture, server).await;
        // What was taken back is pending until it is delivered again.
        fixture.until(PENDING, 0).await;
        if seen.ids().len() > 50 * round {
            outbox.close().await;
            return;
        }
    }
    panic!("no crash took a done mark back");
}

/// A server that writes its log as seldom as it can.
fn forgetful() -> Result<Server, String> {
    Server::new(&["wal_writer_delay=10s", "restart_after_crash=on"])
}

/// PBX-035: a crash of one server process ends every connection, but the server keeps its start time.
#[tokio::test(flavor = "multi_thread")]
async fn done_marks_lost_by_the_crash_of_a_backend_are_delivered_again() {
    let server = match forgetful() {
        Ok(server) => server,
        Err(reason) => return could_not_run("pillarbox-postgres", &reason),
    };
    let pool = PgPoolOptions::new().connect_lazy_with(server.url().parse().unwrap());
    marks_come_back(&server, PostgresStore::builder(pool).pooler(Pooler::None).open()).await;
}

/// PBX-035: behind a pooler no connection of ours ends with the server's.
#[tokio::test(flavor = "multi_thread")]
async fn done_marks_lost_by_the_crash_of_a_backend_behind_a_pooler_are_delivered_again() {
    let both = forgetful().and_then(|server| Ok((Bouncer::new(&server, Next::Last)?, server)));
    let (bouncer, server) = match both {
        Ok(both) => both,
        Err(reason) => return could_not_run("pillarbox-postgres behind a pooler", &reason),
    };
    let pool = PgPoolOptions::new().connect_lazy_with(bouncer.url().parse().unwrap());
    marks_come_back(&server, PostgresStore::builder(pool).pooler(Pooler::Transaction).open()).await;
}

/// PBX-035: numbers start again under a running outbox, at the first or at any other.
#[tokio::test(flavor = "multi_thread")]
async fn events_written_after_the_sequence_went_back_are_delivered() {
    let backs = [
        "TRUNCATE outbox_event RESTART IDENTITY CASCADE",
        "SELECT setval(pg_get_serial_sequence('outbox_event', 'seq'), 3)",
    ];
    for back in backs {
        let Some(fixture) = Fixture::new().await else { return };
        let seen = Seen::new();
        let store = fixture.store().await;
        let outbox =
            seen.hear(Outbox::ordered(store)).lease(LEASE).poll_interval(POLL).start().await.unwrap();
        let write = async |name: &str, count: usize| {
            let ids: Vec<String> = (0..count).map(|number| format!("{name}-{number}")).collect();
            let rows: Vec<String> = ids.iter().map(|id| account_insert(id, "1")).collect();
            fixture.execute(&rows.join(";")).await;
            ids
        };
        seen.wait_for(&write("before", 10).await).await;
        fixture.until(PENDING, 0).await;
        fixture.execute(back).await;
        // Not beyond the cursor: that only a sweep could find.
        seen.wait_for(&write("after", 5).await).await;
        fixture.until(PENDING, 0).await;
        outbox.close().await;
    }
}

/// PBX-035: a sequence that was restarted is another one, also where it has passed the last number by the next look.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_sequence_that_passed_the_cursor_again_is_read_from_the_first_row() {
    let restarts = [
        "TRUNCATE outbox_event RESTART IDENTITY CASCADE",
        "DELETE FROM outbox_event; ALTER SEQUENCE outbox_event_seq RESTART",
    ];
    for restart in restarts {
        let Some(fixture) = Fixture::new().await else { return };
        let store = fixture.store().await;
        let rows = |name: &str| {
            (0..5).map(|n| account_insert(&format!("{name}-{n}"), "1")).collect::<Vec<_>>().join(";")
        };
        fixture.execute(&rows("before")).await;
        let mut cursor = Cursor::default();
        for _ in 0..3 {
            cursor = fetch_from(&store, cursor).await.cursor;
        }
        assert!(fetch_from(&store, cursor.clone()).await.rows.is_empty(), "everything was read");
        fixture.execute(restart).await;
        fixture.execute(&rows("after")).await;
        assert_eq!(fetch_from(&store, cursor).await.rows.len(), 5, "{restart}");
    }
}

/// PBX-035: whatever a cursor was read from, a new connection starts it anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_reads_from_the_first_row() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    fixture.execute(&account_insert("a", "1")).await;
    let mut cursor = Cursor::default();
    for _ in 0..3 {
        cursor = fetch_from(&store, cursor).await.cursor;
    }
    assert!(fetch_from(&store, cursor.clone()).await.rows.is_empty(), "the same connection goes on");
    let other = fixture.beside();
    assert_eq!(fetch_from(&other, cursor).await.rows.len(), 1);
}

/// PBX-063: what was written before an eviction and after it can't be told by numbers that came again, so that all is quarantined.
#[tokio::test(flavor = "multi_thread")]
async fn what_gets_numbers_again_after_an_eviction_is_quarantined() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    let rows =
        |count: usize| (0..count).map(|n| account_insert(&n.to_string(), "1")).collect::<Vec<_>>().join(";");
    store.register(register(1, Duration::ZERO)).await.unwrap();
    fixture.execute(&rows(5)).await;
    store.register(register(2, LEASE)).await.unwrap();
    fixture.execute("TRUNCATE outbox_event RESTART IDENTITY CASCADE").await;
    fixture.execute(&rows(5)).await;
    store.leave(node(2)).await.unwrap();
    let next = store.register(register(3, LEASE)).await.unwrap();
    let highest = fixture.number("SELECT max(seq) FROM outbox_event").await;
    let bounds = next.held.iter().filter_map(|held| Some(held.quarantine?.upto.0)).collect::<Vec<_>>();
    assert_eq!(bounds, [highest; 65], "of each slot and of the lane of the dead node");
}
