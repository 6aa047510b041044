//! What a settle locks and what it leaves behind.

use std::time::Duration;

use pillarbox::model::Written;
use pillarbox::port::{Admin, Change, Counts, OnDone, Replay, Select, Settle, Table, Wait, Write};
use pillarbox_conformance::{account_insert, account_row, register, settle};
use pillarbox_mysql::{Claiming, MysqlStore};

use crate::kit::{Fixture, run, seq};

const LONG: Duration = Duration::from_secs(600);
/// As many as a relay settles at once.
const MANY: usize = 1_000;

async fn written(store: &MysqlStore, ids: impl IntoIterator<Item = String>) -> Vec<Written> {
    let rows = ids.into_iter().map(|id| account_row(&id, "1")).collect();
    store.write(Write { rows, now: None }).await.unwrap()
}

async fn settled(store: &MysqlStore, request: Settle) {
    let settled = store.settle(request).await.unwrap();
    assert!(settled.held && settled.stale.is_empty(), "{settled:?}");
}

/// PBX-015: rows that are written beside those of a settle don't hold it up, however long their transaction takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_settle_waits_for_no_row_beside_its_own() {
    for on_done in [OnDone::Keep, OnDone::Delete] {
        for fixture in Fixture::all().await {
            let store = fixture.store().await;
            store.register(register(1, LONG)).await.unwrap();
            let (mut before, mut after) = (fixture.connection().await, fixture.connection().await);
            run(&mut before, &format!("START TRANSACTION; {}", account_insert("before", "1"))).await;
            let rows = written(&store, (0..8).map(|n| n.to_string())).await;
            run(&mut after, &format!("START TRANSACTION; {}", account_insert("after", "1"))).await;
            settled(&store, settle(1, &rows[..1], on_done, &Change::Done)).await;
            // The last is not there any more, so that a range up to it would go on to the open one.
            run(&mut fixture.connection().await, "DELETE FROM outbox_event WHERE event_id = '7'").await;
            let answer = store.settle(settle(1, &rows[1..], on_done, &Change::Done)).await.unwrap();
            assert_eq!(answer.stale, [6]);
        }
    }
}

/// PBX-080, PBX-015: a row of others is skipped, or found in halves where the server can't skip; all others are settled.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_others_is_left_out_with_and_without_skip_locked() {
    for (claiming, count) in [(Claiming::SkipLocked, MANY), (Claiming::Update, 16)] {
        for fixture in Fixture::all().await {
            fixture.store().await;
            let store = fixture.builder().claiming(claiming).open();
            store.register(register(1, LONG)).await.unwrap();
            let rows = written(&store, (0..count).map(|n| format!("{n:04}"))).await;
            let mut holder = fixture.connection().await;
            run(
                &mut holder,
                "START TRANSACTION; SELECT 1 FROM outbox_event WHERE event_id = '0005' FOR UPDATE",
            )
            .await;
            let settled = store.settle(settle(1, &rows, OnDone::Delete, &Change::Done)).await.unwrap();
            assert_eq!((settled.busy, settled.stale), (vec![5], Vec::new()), "{claiming:?}");
            assert_eq!(fixture.number("SELECT count(*) FROM outbox_event").await, 1);
            run(&mut holder, "COMMIT").await;
            let settled = store.settle(settle(1, &rows[5..6], OnDone::Delete, &Change::Done)).await.unwrap();
            assert_eq!((settled.busy, settled.stale), (Vec::new(), Vec::new()));
        }
    }
}

/// EVT-043, EVT-141: whatever an event went through before it was done, its attempts go with its row.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_go_with_the_row_that_is_done() {
    let retry =
        |counts| Change::Retry { delay: Duration::ZERO, error: "no".to_owned(), counts, wait: Wait::InPlace };
    let dead = Change::Dead { error: "no".to_owned(), counts: Counts::Made(1), blocks: None };
    // PBX-170: the history has an entry for every attempt that was counted, and for no other.
    for (change, attempts, replayed) in
        [(retry(Counts::Made(1)), 1, false), (retry(Counts::NotMade(0)), 0, false), (dead, 1, true)]
    {
        for fixture in Fixture::all().await {
            let store = fixture.store().await;
            store.register(register(1, LONG)).await.unwrap();
            let mut rows = written(&store, ["a".to_owned(), "b".to_owned()]).await;
            settled(&store, settle(1, &rows[..1], OnDone::Delete, &change)).await;
            assert_eq!(fixture.number("SELECT count(*) FROM outbox_attempt").await, attempts, "{change:?}");
            if replayed {
                let replay = Replay { select: Select::default(), limit: 1, by: "ann".to_owned(), now: None };
                assert_eq!(store.replay(replay).await.unwrap(), 1);
                rows[0].seq = seq(&fixture, "a").await;
            }
            settled(&store, settle(1, &rows, OnDone::Delete, &Change::Done)).await;
            assert_eq!(fixture.number("SELECT count(*) FROM outbox_event").await, 0, "{change:?}");
            assert_eq!(fixture.number("SELECT count(*) FROM outbox_attempt").await, 0, "{change:?}");
        }
    }
}
