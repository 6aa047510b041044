//! Numbers: each is given once, also after the row that had it has gone.

use std::time::Duration;

use pillarbox::model::{Slot, SlotSet};
use pillarbox::port::{
    Admin, Begin, Change, Cursor, Fetch, OnDone, Purge, PurgeStatus, Replay, Scope, Select, Store, Table,
    Write, WriteOn,
};

use crate::kit::{Fixture, fetch_from, run, seq};
use pillarbox_conformance::{account_insert, account_row, register, settle};

/// PBX-010: a number is never given twice, not by an insert after a delete and not by a replay.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_never_given_twice() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        store.register(register(1, Duration::from_secs(600))).await.unwrap();
        let mut last = 0;
        for round in 0..3 {
            let id = format!("e{round}");
            let written = store.write(Write { rows: vec![account_row(&id, "1")], now: None }).await.unwrap();
            assert_eq!(written[0].seq, seq(&fixture, &id).await, "what is told is what is there");
            assert!(written[0].seq.0 > last);
            let dead = Change::Dead {
                error: "no".to_owned(),
                counts: pillarbox::port::Counts::Made(1),
                blocks: None,
            };
            store.settle(settle(1, &written, OnDone::Keep, &dead)).await.unwrap();
            let replay = Replay { select: Select::default(), limit: 10, by: "ann".to_owned(), now: None };
            assert_eq!(store.replay(replay).await.unwrap(), 1);
            let replayed = seq(&fixture, &id).await;
            assert!(replayed > written[0].seq, "a replay goes to the end");
            last = replayed.0;
            let purge = Purge { status: PurgeStatus::Any, older_than: Duration::ZERO, limit: 10, now: None };
            assert_eq!(store.purge(purge).await.unwrap(), 1);
            assert_eq!(
                fixture.number("SELECT count(*) FROM outbox_event").await,
                0,
                "nothing that held a place stays"
            );
        }
    }
}

/// PBX-010, PBX-024: how far apart numbers are is a setting of the session that inserts, and of no other.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_told_as_the_writers_own_session_spaced_them() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        for (round, step) in [1, 7, 2].into_iter().enumerate() {
            let mut tx = store.begin().await.unwrap();
            run(&mut tx, &format!("SET SESSION auto_increment_increment = {step}")).await;
            let rows: Vec<_> = (0..4).map(|n| account_row(&format!("e{round}-{n}"), "1")).collect();
            let written = store.insert(&mut tx, &rows).await.unwrap();
            run(&mut tx, "SET SESSION auto_increment_increment = DEFAULT").await;
            store.commit(tx).await.unwrap();
            for one in &written {
                assert_eq!(one.seq, seq(&fixture, one.id.as_str()).await, "step {step}, {}", one.id);
            }
            assert_eq!(written[3].seq.0 - written[2].seq.0, step);
        }
    }
}

/// Reads until nothing new is there; the cursor then.
async fn read_on(store: &dyn Store) -> Cursor {
    let mut cursor = Cursor::default();
    loop {
        let fetched = fetch_from(store, cursor).await;
        cursor = fetched.cursor;
        if fetched.rows.is_empty() {
            return cursor;
        }
    }
}

/// PBX-035: numbers start again under a running outbox.
#[tokio::test(flavor = "multi_thread")]
async fn rows_written_after_numbers_went_back_are_read() {
    for fixture in Fixture::all().await {
        for back in [
            "TRUNCATE TABLE outbox_event",
            "DELETE FROM outbox_event; ALTER TABLE outbox_event AUTO_INCREMENT = 1",
        ] {
            let store = fixture.store().await;
            let mut writer = fixture.connection().await;
            let ids: Vec<String> = (0..5).map(|number| format!("before-{number}")).collect();
            let rows: Vec<String> = ids.iter().map(|id| account_insert(id, "1")).collect();
            run(&mut writer, &rows.join(";")).await;
            let cursor = read_on(&store).await;
            assert!(cursor.decided.0 >= 5, "{cursor:?}");
            run(
                &mut writer,
                &format!("SET foreign_key_checks = 0; {back}; {}", account_insert("after", "1")),
            )
            .await;
            let fetched = fetch_from(&store, cursor).await;
            assert_eq!(fetched.rows.len(), 1, "{back}: {fetched:?}");
            run(&mut writer, "DELETE FROM outbox_event").await;
        }
    }
}

/// PBX-035: rows that are done and gone leave the numbers where they are, and the cursor too.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_table_does_not_start_the_cursor_anew() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        run(&mut fixture.connection().await, &[account_insert("a", "1"), account_insert("b", "1")].join(";"))
            .await;
        let cursor = read_on(&store).await;
        run(&mut fixture.connection().await, "DELETE FROM outbox_event").await;
        assert_eq!(fetch_from(&store, cursor.clone()).await.cursor.decided, cursor.decided);
    }
}

/// PBX-035: a crash of the server takes done marks back and ends its connections; a new one reads from the first row.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_reads_from_the_first_row() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        run(&mut fixture.connection().await, &account_insert("a", "1")).await;
        let cursor = read_on(&store).await;
        assert!(fetch_from(&store, cursor.clone()).await.rows.is_empty(), "the same connection goes on");
        let ended = fixture.end_connections().await;
        assert!(ended > 0, "the store had a connection");
        let scope = Scope::Slots { slots: SlotSet::new((0..100).map(Slot)), cursor: cursor.clone() };
        let fetch = Fetch {
            scope,
            rows: 10,
            bytes: pillarbox::port::ByteLimits::NONE,
            skip_recent: Duration::ZERO,
            now: None,
        };
        assert!(store.fetch(fetch).await.is_err(), "the connection is gone");
        assert_eq!(fetch_from(&store, cursor).await.rows.len(), 1);
    }
}
