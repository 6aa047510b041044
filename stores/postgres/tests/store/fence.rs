//! The fence: what a node settles after it was evicted changes nothing, and a settle under way is waited for.

use std::time::Duration;

use pillarbox::model::Written;
use pillarbox::port::{Begin, Change, Counts, OnDone, Settle, Settled, Table, Wait, Write, WriteOn};
use pillarbox_conformance::{account_row, node, register, settle};
use pillarbox_postgres::PostgresStore;

use crate::kit::{Fixture, run};

/// Whoever joins with it is expired at once.
const OVER: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(600);
/// The row as it was written.
const UNTOUCHED: &str = "SELECT count(*) FROM outbox_event WHERE status = 0 AND attempts = 0 AND done_at IS NULL \
                         AND last_error IS NULL AND lane IS NULL";

/// Every statement that settles.
fn every_way() -> [(OnDone, Change); 4] {
    let retry = |wait| Change::Retry { delay: OVER, error: "late".to_owned(), counts: Counts::Made(1), wait };
    let dead = Change::Dead { error: "late".to_owned(), counts: Counts::Made(1), blocks: None };
    [
        (OnDone::Keep, Change::Done),
        (OnDone::Delete, Change::Done),
        (OnDone::Keep, retry(Wait::Delayed)),
        (OnDone::Delete, dead),
    ]
}

async fn written(store: &PostgresStore) -> Vec<Written> {
    store.write(Write { rows: vec![account_row("a", "1"), account_row("b", "2")], now: None }).await.unwrap()
}

fn nothing_settled(settled: &Settled) {
    assert!(!settled.held);
    assert_eq!(settled.stale, [0, 1]);
}

/// PBX-011: a stale node's settle after take-over changes no row.
#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_node_settles_nothing() {
    for (on_done, change) in every_way() {
        let Some(fixture) = Fixture::new().await else { return };
        let (stale, other) = (fixture.store().await, fixture.beside());
        stale.register(register(1, OVER)).await.unwrap();
        let rows = written(&stale).await;
        let taken = other.register(register(2, LONG)).await.unwrap();
        assert!(taken.held.iter().any(|held| held.suspect));
        nothing_settled(&stale.settle(settle(1, &rows, on_done, &change)).await.unwrap());
        assert_eq!(fixture.number(UNTOUCHED).await, 2, "{change:?}");
        assert!(other.settle(settle(2, &rows, on_done, &change)).await.unwrap().stale.is_empty());
        assert_eq!(fixture.number(UNTOUCHED).await, 0, "{change:?}");
    }
}

/// A settle that must wait: its answer may only come after the lock was let go.
async fn settle_behind_a_lock(
    fixture: &Fixture,
    store: &PostgresStore,
    request: Settle,
    waiting: i64,
    let_go: impl Future<Output = ()>,
) -> Settled {
    let mut settling = store.settle(request);
    tokio::select! {
        biased;
        settled = &mut settling => panic!("it did not wait: {settled:?}"),
        () = fixture.until_locked(waiting) => {}
    }
    let_go.await;
    settling.await.unwrap()
}

/// PBX-011: the settle has begun and waits for the node's row while that is removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_waits_while_its_node_is_evicted_changes_nothing() {
    for (on_done, change) in every_way() {
        let Some(fixture) = Fixture::new().await else { return };
        let stale = fixture.store().await;
        stale.register(register(1, LONG)).await.unwrap();
        let rows = written(&stale).await;
        let mut evicting = fixture.connection().await;
        run(&mut evicting, &format!("BEGIN; DELETE FROM outbox_node WHERE node_id = '{}'", node(1))).await;
        let evict = run(&mut evicting, "COMMIT");
        let request = settle(1, &rows, on_done, &change);
        let settled = settle_behind_a_lock(&fixture, &stale, request, 1, evict).await;
        nothing_settled(&settled);
        assert_eq!(fixture.number(UNTOUCHED).await, 2, "{change:?}");
    }
}

/// PBX-011: the take-over waits for a settle in flight, so that the new holder sees what it did.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_waits_for_a_settle_in_flight() {
    for (on_done, change) in every_way() {
        let Some(fixture) = Fixture::new().await else { return };
        let (store, other) = (fixture.store().await, fixture.beside());
        store.register(register(1, OVER)).await.unwrap();
        let rows = written(&store).await;
        // In flight for as long as its transaction is open.
        let mut tx = store.begin().await.unwrap();
        let settled = store.settle_on(&mut tx, settle(1, &rows, on_done, &change)).await.unwrap();
        assert!(settled.held && settled.stale.is_empty(), "{settled:?}");
        let mut evicting = other.register(register(2, LONG));
        tokio::select! {
            biased;
            taken = &mut evicting => panic!("it took over what was being settled: {taken:?}"),
            () = fixture.until_locked(1) => {}
        }
        store.commit(tx).await.unwrap();
        assert!(evicting.await.unwrap().held.iter().any(|held| held.suspect));
        assert_eq!(fixture.number(UNTOUCHED).await, 0, "{change:?}");
    }
}
