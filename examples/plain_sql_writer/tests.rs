//! Writes with psql, or where there is none with raw SQL, and sees what arrives in which order.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use pillarbox::model::Payload;
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::timeout;

use super::fixture::Fixture;
use super::*;

/// Far more than a loaded machine needs; only a test that has failed waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn psql() -> PathBuf {
    let servers = env::var("PILLARBOX_TEST_POSTGRES_BIN").map(PathBuf::from).unwrap_or_default();
    let beside = servers.join("psql");
    if beside.is_file() { beside } else { PathBuf::from("psql") }
}

/// Runs a script as somebody else's program would.
async fn write(fixture: &Fixture, pool: &PgPool, script: &str) {
    let arguments = ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", &fixture.url()];
    let started = Command::new(psql()).args(arguments).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = started else {
        pool.execute(AssertSqlSafe(script)).await.unwrap();
        return;
    };
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "psql failed");
}

async fn arrive(arrivals: &mut mpsc::Receiver<Event>, count: usize) -> Vec<Event> {
    let mut arrived = Vec::new();
    while arrived.len() < count {
        arrived.push(timeout(PATIENCE, arrivals.recv()).await.expect("an event did not come").unwrap());
    }
    arrived
}

/// EVT-040, PBX-010, PBX-016: rows in the manner of seed 000 arrive as they were written, and so do rows with the least columns.
#[tokio::test]
async fn rows_that_psql_writes_arrive_as_they_were_written() {
    let Some(fixture) = Fixture::new("plain_sql_writer").await else { return };
    let pool = fixture.pool().await;
    let (arrived, mut arrivals) = mpsc::channel(256);
    let outbox = deliver(&pool, arrived).await.unwrap();

    write(&fixture, &pool, WRITE).await;
    let events = arrive(&mut arrivals, 2).await;
    let types: Vec<&str> = events.iter().map(Event::event_type).collect();
    assert_eq!(types, ["OrderPlaced", "OrderPaid"]);
    let first = &events[0];
    assert_eq!((first.aggregate_type(), first.aggregate_id()), ("Order", Some("42")));
    assert_eq!((first.tenant_id(), first.headers().get("source")), (Some("acme"), Some("psql")));
    assert!(matches!(first.payload(), Payload::Json(text) if &**text == r#"{"order": 42}"#));

    outbox.close().await;
    let done: i64 =
        sqlx::query_scalar("SELECT count(*) FROM outbox_event WHERE status = 1 AND done_at IS NOT NULL")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!(done, 2);
    pool.close().await;
    fixture.clear().await;
}

/// PBX-010: a transaction that drew its numbers first and commits last is delivered whole, and no order loses its sequence.
#[tokio::test]
async fn every_order_keeps_its_sequence_also_where_a_writer_commits_late() {
    let Some(fixture) = Fixture::new("plain_sql_writer").await else { return };
    let pool = fixture.pool().await;
    let (arrived, mut arrivals) = mpsc::channel(256);
    let outbox = deliver(&pool, arrived).await.unwrap();

    let mut late = pool.begin().await.unwrap();
    late.execute(AssertSqlSafe(batch("late", 1))).await.unwrap();
    write(&fixture, &pool, &format!("{}NOTIFY outbox_event;", batch("prompt", 1))).await;
    let mut events = arrive(&mut arrivals, 60).await;
    assert!(events.iter().all(|event| event.aggregate_id().unwrap().starts_with("prompt")));
    late.commit().await.unwrap();
    write(&fixture, &pool, &format!("{}{}NOTIFY outbox_event;", batch("late", 21), batch("prompt", 21)))
        .await;
    events.extend(arrive(&mut arrivals, 60 + 2 * 60).await);
    outbox.close().await;

    let mut orders: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for event in &events {
        orders.entry(event.aggregate_id().unwrap()).or_default().push(event.json_as().unwrap());
    }
    assert_eq!(orders.len(), 6);
    for (order, numbers) in orders {
        assert_eq!(numbers, (1..=40).collect::<Vec<_>>(), "{order}");
    }
    pool.close().await;
    fixture.clear().await;
}

/// Twenty events for each of three orders, in turns, in one transaction.
fn batch(prefix: &str, first: u32) -> String {
    format!(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers,
            status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at)
        SELECT gen_random_uuid()::text, 'OrderPlaced', 'Order', '{prefix}-' || o, NULL, n::text, NULL,
            0, 0, now(), now(), NULL, NULL, NULL, NULL
        FROM generate_series({first}, {first} + 19) AS s (n), generate_series(1, 3) AS t (o) ORDER BY s.n, t.o;\n"
    )
}
