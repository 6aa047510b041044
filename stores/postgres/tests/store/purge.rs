//! Purge against a replay at the same time.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::port::{Admin, Purge, PurgeStatus, Replay, Select};
use pillarbox_conformance::account_insert;
use pillarbox_postgres::sqlx::postgres::PgPoolOptions;
use pillarbox_postgres::{Pooler, PostgresStore};

use crate::kit::{Fixture, id, run};

const DIED: &str = "UPDATE outbox_event SET status = 3, attempts = 10, last_error = 'no', done_at = now() - interval '40 days'";
const REPLAYED: &str =
    "SELECT count(*) FROM outbox_event WHERE event_id = 'a' AND status = 0 AND attempts = 0";

async fn with_a_dead_row() -> Option<(Fixture, PostgresStore)> {
    let fixture = Fixture::new().await?;
    let store = fixture.store().await;
    fixture.execute(&format!("{}; {DIED}", account_insert("a", "1"))).await;
    Some((fixture, store))
}

fn purge() -> Purge {
    Purge { status: PurgeStatus::Dead, older_than: Duration::from_secs(30 * 86_400), limit: 100, now: None }
}

fn replay(now: Option<Timestamp>) -> Replay {
    let select = Select { ids: vec![id("a")], ..Select::default() };
    Replay { select, limit: 100, by: "test".to_owned(), now }
}

/// EVT-130: the replay has locked the row; the purge passes it by.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_replay_is_under_way_is_not_purged() {
    let Some((fixture, store)) = with_a_dead_row().await else { return };
    let mut holder = fixture.connection().await;
    // The replay stops where it counts the groups that change: it has the row, and has not committed.
    fixture
        .execute("INSERT INTO outbox_group VALUES ('Account/1', 'blocked', 'a', 'no', 'engine', now())")
        .await;
    run(&mut holder, "BEGIN; SELECT 1 FROM outbox_meta FOR UPDATE").await;
    let replaying = store.replay(replay(None));
    let purging = async {
        fixture.until_locked(1).await;
        assert_eq!(store.purge(purge()).await.unwrap(), 0);
        run(&mut holder, "COMMIT").await;
    };
    let (replayed, ()) = tokio::join!(replaying, purging);
    assert_eq!(replayed.unwrap(), 1);
    assert_eq!(fixture.number(REPLAYED).await, 1);
}

/// EVT-130: the purge has begun and has its snapshot; then the row is replayed, and the purge goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_replayed_after_the_purge_began_survives() {
    let Some((fixture, _)) = with_a_dead_row().await else { return };
    // The purge asks for the time in its snapshot: this clock lets it wait there.
    fixture
        .execute(
            "CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE plpgsql AS \
             'BEGIN PERFORM pg_advisory_xact_lock(1234567); RETURN pg_catalog.clock_timestamp(); END'",
        )
        .await;
    let path = format!("{},pg_catalog", fixture.schema);
    let options = fixture.options.clone().options([("search_path", path)]);
    let pool = PgPoolOptions::new().connect_lazy_with(options);
    let store = PostgresStore::builder(pool).pooler(Pooler::None).open();
    let mut holder = fixture.connection().await;
    run(&mut holder, "BEGIN; SELECT pg_advisory_xact_lock(1234567)").await;
    let mut purging = store.purge(purge());
    tokio::select! {
        biased;
        purged = &mut purging => panic!("it did not wait: {purged:?}"),
        () = fixture.until_locked(1) => {}
    }
    assert_eq!(store.replay(replay(Some(Timestamp::now()))).await.unwrap(), 1);
    run(&mut holder, "COMMIT").await;
    assert_eq!(purging.await.unwrap(), 0);
    assert_eq!(fixture.number(REPLAYED).await, 1);
}

/// EVT-130, EVT-141: the purge has deleted the row and is not through; the replay waits, and says that it did nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_a_row_that_is_being_purged_says_so() {
    let Some((fixture, store)) = with_a_dead_row().await else { return };
    let mut holder = fixture.connection().await;
    run(&mut holder, "INSERT INTO outbox_attempt (event_id, number, failed_at, failed_by, error) VALUES ('a', 1, now(), 'x', 'no')").await;
    run(&mut holder, "BEGIN; SELECT 1 FROM outbox_attempt FOR UPDATE").await;
    let purging = store.purge(purge());
    let replaying = async {
        fixture.until_locked(1).await;
        let mut replaying = store.replay(replay(None));
        tokio::select! {
            biased;
            replayed = &mut replaying => panic!("it did not wait: {replayed:?}"),
            () = fixture.until_locked(2) => {}
        }
        run(&mut holder, "COMMIT").await;
        replaying.await.unwrap()
    };
    let (purged, replayed) = tokio::join!(purging, replaying);
    assert_eq!((purged.unwrap(), replayed), (1, 0));
    assert_eq!(fixture.number("SELECT count(*) FROM outbox_event").await, 0);
}

/// PBX-105: a purge that is one of many processes' leaves off while another is at it.
#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_purges_in_its_turn() {
    let Some((fixture, store)) = with_a_dead_row().await else { return };
    let mut holder = fixture.connection().await;
    run(&mut holder, "BEGIN; LOCK TABLE outbox_attempt IN ACCESS EXCLUSIVE MODE").await;
    let first = store.purge_in_turn(purge());
    let second = async {
        fixture.until_locked(1).await;
        assert_eq!(fixture.beside().purge_in_turn(purge()).await.unwrap(), 0, "it does not wait either");
        run(&mut holder, "COMMIT").await;
    };
    let (purged, ()) = tokio::join!(first, second);
    assert_eq!(purged.unwrap(), 1);
    fixture.execute(&format!("{}; {DIED}", account_insert("b", "1"))).await;
    assert_eq!(fixture.beside().purge_in_turn(purge()).await.unwrap(), 1, "the turn is over");
}
