//! Closing in order, closing twice, and not closing at all.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::events::PurgeSettings;
use pillarbox::model::Status;
use pillarbox::port::Admin;
use pillarbox::{Event, Failure, Outbox};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Level;

use crate::kit::{Logs, Seen, Watched, event, seen::commit};

/// EVT-163
#[tokio::test(start_paused = true)]
async fn closing_ends_the_purge_first_then_reading_then_delivery() {
    let (store, seen, gate) = (Watched::new(), Seen::new(), Arc::new(Semaphore::new(0)));
    let (note, wait) = (seen.clone(), Arc::clone(&gate));
    let outbox = Outbox::single_node(store.clone())
        .listener("t", move |event: Event| {
            note.note(event);
            let wait = Arc::clone(&wait);
            async move { Ok(wait.acquire().await.map(|permit| permit.forget())?) }
        })
        .purge(PurgeSettings { interval: Duration::from_secs(1), ..PurgeSettings::default() })
        .start()
        .await
        .unwrap();
    let purge = store.hold("purge");
    purge.reached().await;
    let mut tasks = JoinSet::new();
    let closing = outbox.clone();
    tasks.spawn(async move { closing.close().await });
    commit(&outbox, event("a")).await;
    seen.wait(1).await;
    gate.add_permits(1);
    store.until("a", Status::Done).await;
    commit(&outbox, event("b")).await;
    seen.wait(2).await;
    purge.release();
    store.until_that(async || (store.count("purge") >= 2).then_some(())).await;
    tokio::task::yield_now().await;
    let reads = store.count("fetch");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(store.count("fetch"), reads, "reading has ended while a listener still runs");
    assert_eq!(store.count("leave"), 0);
    gate.add_permits(1);
    tasks.join_all().await;
    assert_eq!(store.status("b").await, Some(Status::Done), "drained");
    assert_eq!(store.calls().last(), Some(&"leave"), "no lease is left behind");
}

/// EVT-166
#[tokio::test(start_paused = true)]
async fn closing_twice_is_harmless_and_a_closed_outbox_still_writes() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    outbox.close().await;
    outbox.clone().close().await;
    assert_eq!(store.count("leave"), 1);
    commit(&outbox, event("a")).await;
    assert_eq!((store.status("a").await, seen.count()), (Some(Status::New), 0));
    let next = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    store.until("a", Status::Done).await;
    next.close().await;
}

/// EVT-166
#[tokio::test(start_paused = true)]
async fn dropping_an_unclosed_outbox_stops_it_warns_and_leaves_its_rows_pending() {
    let logs = Logs::capture();
    let (store, seen) = (Watched::new(), Seen::new());
    let stuck = |_: Event| std::future::pending::<Result<(), Failure>>();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", stuck)
        .listener("other", seen.listener())
        .workers(1)
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    commit(&outbox, Event::text("other", "{}").id("b")).await;
    let writer = outbox.writer().clone();
    drop(outbox);
    assert!(logs.has(Level::WARN, "dropped without close"));
    let mut tx = writer.begin().await.unwrap();
    tx.write(Event::text("other", "{}").id("c")).unwrap();
    tx.commit().await.unwrap();
    let calls = store.count("heartbeat");
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::task::yield_now().await;
    assert_eq!((store.count("heartbeat"), seen.count()), (calls, 0));
    for id in ["a", "b", "c"] {
        assert_eq!(store.status(id).await, Some(Status::New), "{id}");
    }
    let next = Outbox::single_node(store.clone())
        .listener("t", seen.listener())
        .listener("other", seen.listener())
        .start()
        .await
        .unwrap();
    seen.wait(3).await;
    next.close().await;
    assert!(store.inner.nodes().await.unwrap().is_empty());
}

/// EVT-166
#[tokio::test(start_paused = true)]
async fn a_closed_outbox_does_not_warn() {
    let logs = Logs::capture();
    let outbox =
        Outbox::single_node(Watched::new()).listener("t", Seen::new().listener()).start().await.unwrap();
    outbox.close().await;
    drop(outbox);
    assert!(!logs.all().iter().any(|(level, _)| *level <= Level::WARN), "{:?}", logs.all());
}

/// PBX-060
#[tokio::test(start_paused = true)]
async fn closing_waits_for_no_event_that_only_waits_for_its_next_attempt() {
    for failure in [Failure::retry("no"), Failure::unavailable("down", None)] {
        let (store, seen) = (Watched::new(), Seen::new());
        let (note, answer) = (seen.clone(), failure.clone());
        let listener = move |event: Event| {
            note.note(event);
            std::future::ready(Err(answer.clone()))
        };
        let outbox = Outbox::ordered(store.clone()).listener("t", listener).start().await.unwrap();
        for n in 0..9 {
            commit(&outbox, event(&n.to_string()).group(n.to_string())).await;
        }
        seen.wait(1).await;
        let began = Instant::now();
        outbox.close().await;
        assert!(began.elapsed() < Duration::from_millis(500), "{failure:?}: {:?}", began.elapsed());
    }
}
