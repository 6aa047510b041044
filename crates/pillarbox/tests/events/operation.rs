//! What a service asks of its outbox without the ports: tables, counts, health, the end of its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pillarbox::model::{GroupKey, NodeId, Status};
use pillarbox::port::{Admin, GroupAction, GroupChange, StatusCounts};
use pillarbox::queue::Message;
use pillarbox::{Event, Failure, Outbox, Queue};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, timeout};

use crate::kit::{NEVER, Seen, Watched, event, seen::commit};

/// PBX-213
#[tokio::test(start_paused = true)]
async fn tables_are_made_at_the_start_where_that_is_wanted() {
    let store = Watched::new();
    let listener = Seen::new().listener();
    Outbox::ordered(store.clone()).listener("t", listener).start().await.unwrap().close().await;
    assert_eq!((store.count("check"), store.count("migrate")), (1, 0));
    let listener = Seen::new().listener();
    Outbox::ordered(store.clone()).migrate().listener("t", listener).start().await.unwrap().close().await;
    assert_eq!(store.count("migrate"), 1);
}

/// PBX-212
#[tokio::test(start_paused = true)]
async fn events_and_messages_are_counted_apart() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    let queue = Queue::new(store.clone());
    queue.enqueue(event("m")).await.unwrap();
    commit(&outbox, event("a")).await;
    commit(&outbox, event("later").due(NEVER)).await;
    store.until("a", Status::Done).await;

    let stats = outbox.stats().await.unwrap();
    assert_eq!(stats.events, StatusCounts { new: 1, done: 1, ..StatusCounts::default() });
    assert_eq!(stats.queue, StatusCounts { new: 1, ..StatusCounts::default() });
    assert_eq!((stats.delayed, stats.by_status()), (1, [2, 1, 0, 0]));
    assert_eq!(queue.stats().await.unwrap().queue, stats.queue);
    let stats = serde_json::to_value(&stats).unwrap();
    assert_eq!(stats["queue"], json!({"new": 1, "retry": 0, "done": 0, "dead": 0}));
    assert!(stats["oldest_ms"].is_u64(), "{stats}");
    outbox.close().await;
}

/// PBX-213
#[tokio::test(start_paused = true)]
async fn health_tells_whether_this_process_can_deliver() {
    let store = Watched::new();
    let writes = Outbox::writer_only(store.clone()).start().await.unwrap();
    assert_eq!(writes.health(), None, "another process delivers");
    let listener = Seen::new().listener();
    let outbox = Outbox::ordered(store.clone())
        .lease(Duration::from_secs(10))
        .listener("t", listener)
        .start()
        .await
        .unwrap();
    let health = outbox.health().unwrap();
    assert!(health.member && health.slots > 0, "{health:?}");

    let heartbeat = store.hold("heartbeat");
    heartbeat.reached().await;
    advance(Duration::from_secs(10)).await;
    assert!(!outbox.health().unwrap().member, "the lease was not renewed in time");
    heartbeat.release();
    let well = async || outbox.health().filter(|health| health.member);
    store.until_that(well).await;

    outbox.close().await;
    let health = outbox.health().unwrap();
    assert_eq!((health.member, health.node, health.slots), (false, None, 0));
}

/// PBX-213
#[tokio::test(start_paused = true)]
async fn drained_waits_for_retries_and_for_nothing_that_is_held_or_not_due() {
    let store = Watched::new();
    let pause = GroupChange {
        group: GroupKey::new("p"),
        action: GroupAction::Pause,
        reason: None,
        by: "me".to_owned(),
        now: None,
    };
    store.inner.change_group(pause).await.unwrap();
    Queue::new(store.clone()).enqueue(event("m")).await.unwrap();
    let tries = Arc::new(AtomicU32::new(0));
    let tried = Arc::clone(&tries);
    let listener = move |_: Event| {
        let attempt = tried.fetch_add(1, Ordering::Relaxed);
        async move { if attempt < 3 { Err(Failure::retry("not yet")) } else { Ok(()) } }
    };
    let outbox = Outbox::ordered(store.clone()).listener("t", listener).start().await.unwrap();
    for event in [event("a").group("g"), event("held").group("p"), event("later").due(NEVER)] {
        commit(&outbox, event).await;
    }
    timeout(NEVER, outbox.drained()).await.unwrap().unwrap();
    assert_eq!((store.status("a").await, tries.load(Ordering::Relaxed)), (Some(Status::Done), 4));
    for left in ["m", "held", "later"] {
        assert_eq!(store.status(left).await, Some(Status::New), "{left}");
    }
    outbox.close().await;
}

/// PBX-213
#[tokio::test(start_paused = true)]
async fn an_outbox_whose_events_nobody_delivers_is_not_drained() {
    let store = Watched::new();
    let outbox = Outbox::writer_only(store.clone()).start().await.unwrap();
    timeout(NEVER, outbox.drained()).await.unwrap().unwrap();
    commit(&outbox, event("a").group("g")).await;
    assert!(timeout(NEVER, outbox.drained()).await.is_err());
}

/// PBX-213
#[tokio::test(start_paused = true)]
async fn an_outbox_runs_until_a_signal_and_is_closed_then() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::ordered(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    let (signal, ended) = oneshot::channel();
    let (running, mut tasks) = (outbox.clone(), JoinSet::new());
    tasks.spawn(async move { running.run_until(ended).await });
    commit(&outbox, event("a").group("g")).await;
    seen.wait(1).await;
    assert_eq!(store.count("leave"), 0);
    signal.send("terminate").unwrap();
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), Ok("terminate"));
    assert_eq!(store.calls().last(), Some(&"leave"));
}

/// PBX-213
#[tokio::test(start_paused = true)]
async fn a_worker_runs_until_a_signal_and_claims_nothing_more() {
    let store = Watched::new();
    let queue = Queue::new(store.clone());
    queue.enqueue(event("a")).await.unwrap();
    let handler = |_: Message| async { Ok(()) };
    let worker = queue.worker().handler("t", handler).start().unwrap();
    worker.run_until(worker.wait_drained()).await;
    assert_eq!(store.status("a").await, Some(Status::Done));
    let claims = store.count("claim");
    queue.enqueue(event("b")).await.unwrap();
    advance(Duration::from_secs(60)).await;
    assert_eq!((store.count("claim"), store.status("b").await), (claims, Some(Status::New)));
}

/// PBX-218
#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_tells_the_others_which_take_its_slots_at_once() {
    let store = Watched::new();
    let start = async || {
        let builder = Outbox::ordered(store.clone()).listener("t", Seen::new().listener());
        builder.lease(Duration::from_secs(600)).start().await.unwrap()
    };
    let (leaves, stays) = (start().await, start().await);
    let node = |outbox: &Outbox<Watched>| outbox.health().and_then(|health| health.node).unwrap();
    let (gone, there) = (node(&leaves), node(&stays));
    let holds = async |node: NodeId| {
        let nodes = store.inner.nodes().await.unwrap();
        nodes.iter().find(|info| info.node == node).map_or(0, |info| info.slots)
    };
    store.until_that(async || (holds(gone).await == holds(there).await).then_some(())).await;
    let half = holds(there).await;
    let began = Instant::now();
    leaves.close().await;
    store.until_that(async || (holds(there).await > half).then_some(())).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    stays.close().await;
}
