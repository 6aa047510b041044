//! Numbers that are drawn early and committed late: none is passed over, and none holds readers up for ever.

use std::time::Duration;

use pillarbox::model::Lane;
use pillarbox::port::{Cursor, Fetched, Order, Promote, Store, Table, Write};
use pillarbox_conformance::{account_insert, account_row, fetch_all, node, register};
use tokio::task::JoinSet;

use crate::kit::{Fixture, fetch_from, run, seq};

/// Longer than a server takes to write a row whose number it has drawn.
const GRACE: Duration = Duration::from_millis(100);

fn ids(fetched: &Fetched) -> Vec<String> {
    fetched.rows.iter().map(|row| row.id.to_string()).collect()
}

/// PBX-010: the cursor of a reader never passes a number that an open transaction may still commit, whatever that does.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_waits_for_every_transaction_that_may_still_commit() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let xid = format!("'{}'", fixture.database);
        let prepared = format!("XA END {xid}; XA PREPARE {xid}");
        let endings: [(&str, &str, &[&str], bool); 4] = [
            ("plain", "START TRANSACTION", &["COMMIT"], true),
            ("nested", "START TRANSACTION; SAVEPOINT s", &["RELEASE SAVEPOINT s", "COMMIT"], true),
            ("two-phase", &format!("XA START {xid}"), &[&prepared, &format!("XA COMMIT {xid}")], true),
            ("rolled-back", "START TRANSACTION", &["ROLLBACK"], false),
        ];
        let mut cursor = Cursor::default();
        for (name, beginning, ending, commits) in endings {
            let mut late = fixture.connection().await;
            run(&mut late, &format!("{beginning}; {}", account_insert(name, "1"))).await;
            let after = format!("{name}-after");
            store.write(Write { rows: vec![account_row(&after, "2")], now: None }).await.unwrap();
            let number = seq(&fixture, &after).await;
            for step in ending {
                for _ in 0..3 {
                    cursor = fetch_from(&store, cursor).await.cursor;
                    assert!(cursor.decided < number, "{name}: {step} is still to come");
                }
                run(&mut late, step).await;
            }
            let fetched = fetch_from(&store, cursor).await;
            assert_eq!(ids(&fetched).contains(&name.to_owned()), commits, "{name}: {fetched:?}");
            cursor = fetched.cursor;
            for _ in 0..3 {
                cursor = fetch_from(&store, cursor).await.cursor;
            }
            assert!(cursor.decided >= number, "{name}: nothing is open any more");
        }
    }
}

/// PBX-010: a writer that waits for another one with the same event id is seen too, although its row is not whole yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_waits_for_another_with_its_id_is_not_passed() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let (mut first, mut second) = (fixture.connection().await, fixture.connection().await);
        run(&mut first, &format!("START TRANSACTION; {}", account_insert("same", "1"))).await;
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { run(&mut second, &account_insert("same", "1")).await });
        fixture.until_locked(1).await;
        // The one that waits is in the way of ids before its own.
        store.write(Write { rows: vec![account_row("z", "2")], now: None }).await.unwrap();
        let number = seq(&fixture, "z").await;
        let mut cursor = Cursor::default();
        for _ in 0..3 {
            cursor = fetch_from(&store, cursor).await.cursor;
            assert!(cursor.decided.0 < number.0 - 2, "both are still to come");
        }
        run(&mut first, "ROLLBACK").await;
        waiting.join_next().await.unwrap().unwrap();
        assert!(ids(&fetch_from(&store, cursor).await).contains(&"same".to_owned()));
    }
}

/// PBX-010: a read that waits for a number which never shows answers what it has read before, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_looks_twice_passes_nothing() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let mut gone = fixture.connection().await;
        let write = |names: &[&str]| {
            let rows = names.iter().map(|name| account_row(name, "1")).collect();
            store.write(Write { rows, now: None })
        };
        write(&["a", "b"]).await.unwrap();
        run(&mut gone, &format!("START TRANSACTION; {}; ROLLBACK", account_insert("never", "1"))).await;
        write(&["c"]).await.unwrap();
        // The horizon that this leaves ends before what comes now.
        let given = fetch_from(&store, Cursor::default()).await.cursor;
        run(&mut gone, &format!("START TRANSACTION; {}; ROLLBACK", account_insert("never", "1"))).await;
        write(&["d", "e", "f"]).await.unwrap();
        for _ in 0..3 {
            let fetched = fetch_all(&store, given.clone(), 5).await;
            assert_eq!(ids(&fetched), ["a", "b", "c", "d", "e"]);
            assert!(fetched.more);
        }
    }
}

/// PBX-010: pages out of a backlog, for which one count of committed numbers does, end at the first that may still come.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_out_of_a_backlog_passes_no_open_number() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let write = |ids: std::ops::RangeInclusive<i64>| {
            let rows = ids.map(|id| account_row(&id.to_string(), "1")).collect();
            store.write(Write { rows, now: None })
        };
        write(1..=12).await.unwrap();
        let mut cursor = Cursor::default();
        for read in 1..=3 {
            let fetched = fetch_all(&store, cursor, 1).await;
            assert_eq!(ids(&fetched), [read.to_string()]);
            cursor = fetched.cursor;
            assert_eq!(cursor.decided, seq(&fixture, &read.to_string()).await);
        }
        let mut late = fixture.connection().await;
        run(&mut late, &format!("START TRANSACTION; {}", account_insert("late", "1"))).await;
        write(14..=30).await.unwrap();
        let last = seq(&fixture, "12").await;
        for rows in [15, 1, 1, 15, 1] {
            let fetched = fetch_all(&store, cursor, rows).await;
            assert!(fetched.more);
            cursor = fetched.cursor;
            assert_eq!(cursor.decided, last, "the next is still to come");
        }
        run(&mut late, "COMMIT").await;
        let fetched = fetch_all(&store, cursor, 2).await;
        assert_eq!(ids(&fetched), ["late", "14"]);
        assert_eq!(fetched.cursor.decided, seq(&fixture, "14").await);
    }
}

/// PBX-010: a row that gets a new number takes the place of one that holds it, and for a moment neither is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_a_row_is_moved_to_is_not_passed_meanwhile() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        store.write(Write { rows: vec![account_row("moves", "1")], now: None }).await.unwrap();
        let mut cursor = fetch_from(&store, Cursor::default()).await.cursor;
        let from = seq(&fixture, "moves").await;
        let mut mover = fixture.connection().await;
        run(&mut mover, "START TRANSACTION; UPDATE outbox_meta SET value = 1 WHERE name = 'numbers'").await;
        run(&mut mover, &account_insert("holds-the-place", "1")).await;
        store.write(Write { rows: vec![account_row("after", "2")], now: None }).await.unwrap();
        let to = seq(&fixture, "after").await.0 - 1;
        cursor = fetch_from(&store, cursor).await.cursor;
        run(&mut mover, "DELETE FROM outbox_event WHERE event_id = 'holds-the-place'").await;
        let began = std::time::Instant::now();
        while began.elapsed() < GRACE * 3 {
            cursor = fetch_from(&store, cursor).await.cursor;
            assert!(cursor.decided.0 < to, "the row that moves is still to come");
        }
        let moved = format!("UPDATE outbox_event SET seq = {to} WHERE seq = {}", from.0);
        run(&mut mover, &moved).await;
        run(&mut mover, "UPDATE outbox_meta SET value = 0 WHERE name = 'numbers'; COMMIT").await;
        let fetched = fetch_from(&store, cursor).await;
        assert!(ids(&fetched).contains(&"moves".to_owned()), "{fetched:?}");
        // Nothing moves any more: gaps are passed again.
        cursor = fetched.cursor;
        for _ in 0..3 {
            cursor = fetch_from(&store, cursor).await.cursor;
        }
        assert!(cursor.decided.0 > to);
    }
}

/// PBX-010: whoever gives new numbers says so for as long as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_moved_under_a_mark_that_readers_see() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        store.register(register(1, Duration::from_secs(60))).await.unwrap();
        let mut witness = fixture.connection().await;
        run(&mut witness, "CREATE TABLE witness (mark BIGINT)").await;
        run(
            &mut witness,
            "CREATE TRIGGER gone AFTER DELETE ON outbox_event FOR EACH ROW \
             INSERT INTO witness SELECT value FROM outbox_meta WHERE name = 'numbers'",
        )
        .await;
        let delayed = account_insert("delayed", "1")
            .replace("payload)", "payload, lane, available_at)")
            .replace("'{}')", "'{}', -1, '2020-01-01')");
        run(&mut witness, &delayed).await;
        let node = node(1);
        let promote = Promote { node, lane: Lane(64), order: Order::PerGroup, rows: 10, now: None };
        assert_eq!(store.promote(promote).await.unwrap().moved, 1);
        assert_eq!(fixture.number("SELECT count(*) FROM witness WHERE mark = 1").await, 1);
        assert_eq!(fixture.number("SELECT value FROM outbox_meta WHERE name = 'numbers'").await, 0);
    }
}
