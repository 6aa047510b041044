//! Several handles on one file: processes, hints, and the end of threads.

use std::time::Duration;

use pillarbox::model::NodeId;
use pillarbox::port::{Admin, Fence, ReadScope, Register, Settle, Table};

use crate::kit::{Outbox, done, event, fetch_all, write};

fn join(node: u128, now: &str) -> Register {
    Register {
        node: NodeId::from_random(node),
        label: "test".to_owned(),
        reads: ReadScope::Share,
        lease: Duration::from_secs(10),
        now: Some(now.parse().unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handles_write_and_settle_at_once_and_lose_nothing() {
    let outbox = Outbox::new().await;
    let stores = [outbox.store.clone(), outbox.beside()];
    let work = |store: usize, writer: usize| {
        let store = stores[store % 2].clone();
        async move {
            for n in 0..50 {
                let written = write(&store, vec![event(&format!("{writer}-{n}"))]).await.unwrap();
                let settled = store.settle(done(&written)).await.unwrap();
                assert!(settled.held && settled.stale.is_empty());
            }
        }
    };
    tokio::join!(work(0, 0), work(1, 1), work(0, 2), work(1, 3), work(0, 4), work(1, 5));
    assert_eq!(outbox.number("SELECT count(*) FROM outbox_event WHERE status = 1"), 300);
    assert_eq!(outbox.number("SELECT max(seq) FROM outbox_event"), 300);
}

/// PBX-011
#[tokio::test]
async fn a_node_evicted_by_another_process_can_settle_no_more() {
    let outbox = Outbox::new().await;
    let other = outbox.beside();
    outbox.store.register(join(1, "2030-01-01T00:00:00Z")).await.unwrap();
    let written = write(&outbox.store, vec![event("a")]).await.unwrap();
    let taken = other.register(join(2, "2030-01-01T00:00:11Z")).await.unwrap();
    assert!(taken.held.iter().any(|held| held.suspect));
    let late = Settle { fence: Fence::Node(NodeId::from_random(1)), ..done(&written) };
    assert!(!outbox.store.settle(late).await.unwrap().held);
    let right = Settle { fence: Fence::Node(NodeId::from_random(2)), ..done(&written) };
    assert!(other.settle(right).await.unwrap().stale.is_empty());
}

/// PBX-063, PBX-092: a release that knows nothing of quarantines evicts and takes in its own way, beside this one.
#[tokio::test]
async fn a_node_evicted_by_an_older_release_leaves_suspect_slots() {
    const EVICT: &str =
        "UPDATE outbox_slot SET holder = NULL, suspect = 1 WHERE holder IS NOT NULL; DELETE FROM outbox_node";
    let outbox = Outbox::new().await;
    outbox.store.register(join(1, "2030-01-01T00:00:00Z")).await.unwrap();
    outbox.connection().execute_batch(EVICT).unwrap();
    let taken = outbox.store.register(join(2, "2030-01-01T00:00:01Z")).await.unwrap();
    assert!(taken.held.iter().all(|held| held.suspect && held.quarantine.is_none()), "{taken:?}");
    let third = outbox.store.register(join(3, "2030-01-01T00:00:12Z")).await.unwrap();
    assert!(third.held.iter().all(|held| held.quarantine.is_some()), "evicted by this release: {third:?}");
    outbox.connection().execute_batch(EVICT).unwrap();
    let take = "INSERT INTO outbox_slot (slot, holder, suspect) VALUES (64, NULL, 0) \
        ON CONFLICT (slot) DO UPDATE SET holder = excluded.holder, suspect = 0";
    outbox.connection().execute(take, []).unwrap();
    let last = outbox.store.register(join(4, "2030-01-01T00:00:13Z")).await.unwrap();
    assert!(last.held.iter().all(|held| held.quarantine.is_some()), "it goes on: {last:?}");
}

#[tokio::test]
async fn a_commit_of_another_process_gives_a_hint() {
    let outbox = Outbox::new().await;
    let mut hints = outbox.store.wakeups().unwrap().0;
    let mut seen = *hints.borrow_and_update();
    for id in ["a", "b", "c"] {
        let insert = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES (?1, 'T', '{}')";
        outbox.connection().execute(insert, [id]).unwrap();
        tokio::time::timeout(Duration::from_secs(10), hints.changed()).await.unwrap().unwrap();
        assert!(*hints.borrow_and_update() > seen);
        seen = *hints.borrow();
    }
}

#[tokio::test]
async fn the_threads_end_with_the_last_handle() {
    let outbox = Outbox::new().await;
    let mut hints = outbox.store.wakeups().unwrap().0;
    let another = outbox.store.clone();
    drop(outbox.store);
    write(&another, vec![event("a")]).await.unwrap();
    drop(another);
    // The watcher's end closes its channel.
    while hints.changed().await.is_ok() {}
}

#[tokio::test]
async fn what_was_asked_for_before_the_last_handle_went_is_done() {
    let outbox = Outbox::new().await;
    let beside = outbox.beside();
    let asked = write(&outbox.store, vec![event("a")]);
    asked.await.unwrap();
    drop(outbox.store);
    assert_eq!(fetch_all(&beside).await.rows.len(), 1);
    assert_eq!(beside.stats().await.unwrap().by_status(), [1, 0, 0, 0]);
}
