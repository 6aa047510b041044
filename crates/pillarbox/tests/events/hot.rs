//! The hot path: no read, no double, and an overflow that only costs time.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::memory::MemoryOptions;
use pillarbox::model::{NewRow, Placement, Status};
use pillarbox::port::{Table, Write};
use pillarbox::{Event, Outbox, Writer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Level;

use crate::kit::seen::commit;
use crate::kit::{Logs, Seen, Watched, event};
use crate::observe::Counting;

/// How long outcomes wait for others, by default.
const LINGER: Duration = Duration::from_millis(10);

/// A listener that waits for a permit before it takes an event.
pub(crate) fn gated(seen: &Seen, gate: &Arc<Semaphore>) -> impl pillarbox::events::Listener + use<> {
    let (seen, gate) = (seen.clone(), Arc::clone(gate));
    move |event: Event| {
        let (seen, gate) = (seen.clone(), Arc::clone(&gate));
        async move {
            gate.acquire().await?.forget();
            seen.note(event);
            Ok(())
        }
    }
}

/// EVT-071, EVT-181
#[tokio::test(start_paused = true)]
async fn hot_events_are_delivered_and_settled_where_nobody_polls() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox =
        Outbox::single_node(store.clone()).listener("t", seen.listener()).no_polling().start().await.unwrap();
    let read_at_start =
        store.until_that(async || Some(store.count("fetch")).filter(|reads| *reads > 0)).await;
    for n in 0..50 {
        commit(&outbox, event(&n.to_string())).await;
    }
    seen.wait(50).await;
    store.until("49", Status::Done).await;
    outbox.close().await;
    assert_eq!((store.count("fetch"), store.count("claim"), store.count("promote")), (read_at_start, 0, 0));
}

/// PBX-093, EVT-111: what did not fit into memory, what expires and what failed.
#[tokio::test(start_paused = true)]
async fn without_polling_nothing_that_this_process_wrote_is_left_behind() {
    let (store, seen, gate) = (Watched::new(), Seen::new(), Arc::new(Semaphore::new(0)));
    let failing = Seen::new();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", gated(&seen, &gate))
        .listener("fails", failing.failing())
        .max_attempts(2)
        .no_polling()
        .hot_capacity(2)
        .workers(1)
        .start()
        .await
        .unwrap();
    for n in 0..10 {
        commit(&outbox, event(&n.to_string())).await;
    }
    commit(&outbox, event("expires").expires(Duration::from_secs(24 * 3_600))).await;
    commit(&outbox, Event::text("fails", "{}").id("failed")).await;
    gate.add_permits(100);
    for id in (0..10).map(|n| n.to_string()).chain(["expires".to_owned()]) {
        store.until(&id, Status::Done).await;
    }
    store.until("failed", Status::Dead).await;
    assert_eq!(failing.count(), 2, "it was tried again");
    outbox.close().await;
}

/// PBX-093
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_poll_leaves_what_others_write_to_those_that_do() {
    let (store, writes, reads) = (Watched::new(), Seen::new(), Seen::new());
    let lease = Duration::from_secs(10);
    let start = |seen: &Seen| Outbox::multi_node(store.clone()).lease(lease).listener("t", seen.listener());
    let hot_only = start(&writes).no_polling().start().await.unwrap();
    let reader = start(&reads).start().await.unwrap();
    let foreign = Outbox::writer_only(store.clone()).start().await.unwrap();
    let ids: Vec<_> = (0..64).map(|n| format!("foreign-{n}")).collect();
    for id in &ids {
        commit(&foreign, event(id)).await;
    }
    for id in &ids {
        store.until(id, Status::Done).await;
    }
    assert_eq!((reads.count(), writes.count()), (64, 0));
    for outbox in [hot_only, reader, foreign] {
        outbox.close().await;
    }
}

/// EVT-071, PBX-012
#[tokio::test(start_paused = true)]
async fn the_reader_brings_no_payload_of_an_event_that_went_hot() {
    let (store, seen) = (Watched::new(), Seen::new());
    let metrics = Arc::new(Counting::default());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.listener())
        .metrics(metrics.clone())
        .start()
        .await
        .unwrap();
    for n in 0..20 {
        commit(&outbox, event(&n.to_string())).await;
        store.until(&n.to_string(), Status::Done).await;
    }
    outbox.close().await;
    assert_eq!((metrics.get("hot"), metrics.get("cold"), seen.count()), (20, 0, 20));
}

/// EVT-111, EVT-182, EVT-110, EVT-125
#[tokio::test(start_paused = true)]
async fn an_overflow_is_written_warned_of_counted_and_delivered_by_the_reader() {
    let logs = Logs::capture();
    let (store, seen, gate) = (Watched::new(), Seen::new(), Arc::new(Semaphore::new(0)));
    let metrics = Arc::new(Counting::default());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", gated(&seen, &gate))
        .hot_capacity(2)
        .cold_capacity(2)
        .workers(1)
        .metrics(metrics.clone())
        .start()
        .await
        .unwrap();
    for n in 0..10 {
        commit(&outbox, event(&n.to_string())).await;
    }
    assert_eq!(store.rows().await, 10, "every write succeeds");
    assert_eq!((metrics.get("hot"), metrics.get("hot dropped")), (2, 8));
    assert!(logs.has(Level::WARN, "hot queue full"));
    assert_eq!(store.status("9").await, Some(Status::New));
    gate.add_permits(100);
    seen.wait(10).await;
    for n in 0..10 {
        store.until(&n.to_string(), Status::Done).await;
    }
    outbox.close().await;
    assert_eq!(seen.count(), 10, "once each");
    assert_eq!(metrics.get("cold"), 8);
}

/// PBX-012
#[tokio::test(start_paused = true)]
async fn a_reader_that_sees_the_row_before_the_writer_resumes_delivers_it_once() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    let held = store.hold("committed");
    let mut tasks = JoinSet::new();
    let writing = outbox.clone();
    tasks.spawn(async move { commit(&writing, event("a")).await });
    held.reached().await;
    let reads = store.count("fetch");
    // Another row wakes the reader, which sees the first one too.
    let row = NewRow { event: event("b").build().unwrap(), placement: Placement::Slot };
    store.write(Write { rows: vec![row], now: None }).await.unwrap();
    store.until("b", Status::Done).await;
    assert!(store.count("fetch") > reads);
    assert_eq!(seen.ids(), ["b"], "the row that is being committed is left to its writer");
    held.release();
    tasks.join_all().await;
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert_eq!(seen.ids(), ["b", "a"]);
}

/// PBX-012, PBX-024
#[tokio::test(start_paused = true)]
async fn a_writer_that_goes_away_during_its_commit_leaves_the_row_to_the_reader() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    let held = store.hold("committed");
    let mut tasks = JoinSet::new();
    let writing = outbox.clone();
    tasks.spawn(async move { commit(&writing, event("a")).await });
    held.reached().await;
    tasks.shutdown().await;
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert_eq!(seen.ids(), ["a"]);
}

/// EVT-069
#[tokio::test(start_paused = true)]
async fn two_hot_are_taken_for_one_cold_while_both_wait() {
    let (store, seen, gate) = (Watched::new(), Seen::new(), Arc::new(Semaphore::new(0)));
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    tx.write((0..6).map(|n| event(&format!("cold{n}")))).unwrap();
    tx.commit().await.unwrap();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", gated(&seen, &gate))
        .workers(1)
        .start()
        .await
        .unwrap();
    store.until_that(async || (store.count("fetch") > 0).then_some(())).await;
    for n in 0..6 {
        commit(&outbox, event(&format!("hot{n}"))).await;
    }
    gate.add_permits(100);
    let order: Vec<_> = seen.wait(12).await.iter().map(|event| event.id().as_str()[..3].to_owned()).collect();
    outbox.close().await;
    let both_wait = &order[1..9];
    for three in both_wait.windows(3) {
        assert_eq!(three.iter().filter(|kind| *kind == "hot").count(), 2, "{order:?}");
    }
}

/// PBX-015
#[tokio::test(start_paused = true)]
async fn outcomes_of_all_workers_are_settled_together_and_at_once_when_idle() {
    let (store, seen) = (Watched::new(), Seen::new());
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    tx.write((0..500).map(|n| event(&n.to_string()))).unwrap();
    tx.commit().await.unwrap();
    let note = seen.clone();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", move |event: Event| {
            note.note(event);
            // Lets the settler have its turn between any two.
            async {
                tokio::task::yield_now().await;
                Ok::<_, pillarbox::Failure>(())
            }
        })
        .listener("bad", |_| async { Err::<(), _>(pillarbox::Failure::retry("no")) })
        .batch_size(500)
        .start()
        .await
        .unwrap();
    seen.wait(500).await;
    for n in 0..500 {
        store.until(&n.to_string(), Status::Done).await;
    }
    assert!(store.count("settle") <= 10, "{} settles for 500 events", store.count("settle"));
    tokio::time::advance(LINGER).await;
    let asked = tokio::time::Instant::now();
    commit(&outbox, event("alone")).await;
    store.until("alone", Status::Done).await;
    assert_eq!(asked.elapsed(), Duration::ZERO, "nobody else to wait for");
    commit(&outbox, event("again")).await;
    store.until("again", Status::Done).await;
    assert_eq!(
        asked.elapsed(),
        LINGER,
        "a stream of lone events: more may come, and nothing waits for this mark"
    );
    commit(&outbox, Event::text("bad", "").id("failed")).await;
    store.until("failed", Status::Retry).await;
    assert_eq!(asked.elapsed(), LINGER, "its next attempt waits for this");
    outbox.close().await;
}

/// EVT-021
#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_the_commit_and_delivers_nothing() {
    let store = Watched::with(MemoryOptions { max_rows: 0, ..MemoryOptions::default() });
    let seen = Seen::new();
    let outbox = Outbox::single_node(store).listener("t", seen.listener()).start().await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    assert!(tx.commit().await.is_err());
    outbox.close().await;
    assert_eq!(seen.count(), 0);
}
