//! The four compositions, what they demand, and how they start.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::events::{PurgeSettings, StartError};
use pillarbox::model::{NewRow, Placement, Status};
use pillarbox::port::{Admin, Delivery, Handed, Sink, Table, Verdict, Write};
use pillarbox::{Event, Outbox, Writer};

use crate::kit::{Seen, Watched, event, seeded, seen::commit};

/// EVT-160, EVT-181
#[tokio::test(start_paused = true)]
async fn single_and_multi_node_deliver_hot_on_their_own_lane() {
    for several in [false, true] {
        let (store, seen) = (Watched::new(), Seen::new());
        let builder = if several {
            Outbox::multi_node(store.clone()).lease(Duration::from_secs(10))
        } else {
            Outbox::single_node(store.clone())
        };
        let outbox =
            seeded(builder).listener_for("A", "t", seen.listener()).label("node-a").start().await.unwrap();
        assert_eq!(store.inner.nodes().await.unwrap()[0].label, "node-a");
        commit(&outbox, event("a").aggregate("A", 1)).await;
        let done = store.until("a", Status::Done).await;
        assert!(done.slot.is_lane());
        outbox.close().await;
    }
}

/// EVT-150, EVT-160
#[tokio::test(start_paused = true)]
async fn ordered_writes_to_the_groups_slot_and_keeps_insertion_order() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox =
        Outbox::ordered(store.clone()).listener_for("A", "t", seen.listener()).start().await.unwrap();
    let expected: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    for id in &expected {
        commit(&outbox, event(id).aggregate("A", 1)).await;
    }
    let done = store.until("39", Status::Done).await;
    assert!(!done.slot.is_lane());
    outbox.close().await;
    assert_eq!(seen.ids(), expected);
}

/// EVT-150
#[tokio::test(start_paused = true)]
async fn ordered_with_one_worker_and_one_attempt_delivers_everything_in_seq_order() {
    let (store, seen) = (Watched::new(), Seen::new());
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    for n in 0..60 {
        let one = event(&format!("{n:02}"));
        let one = match n % 3 {
            0 => one,
            1 => one.group(format!("g{}", n % 7)),
            _ => one.aggregate_id(n % 5),
        };
        tx.write(one).unwrap();
    }
    tx.commit().await.unwrap();
    let note = seen.clone();
    let outbox = Outbox::ordered(store.clone())
        .listener("t", move |event: Event| {
            let fails = event.id().as_str() == "06";
            note.note(event);
            async move { if fails { Err("no".into()) } else { Ok(()) } }
        })
        .workers(1)
        .max_attempts(1)
        .start()
        .await
        .unwrap();
    seen.wait(60).await;
    outbox.close().await;
    assert!(seen.ids().is_sorted(), "{:?}", seen.ids());
    assert_eq!(store.status("06").await, Some(Status::Dead));
}

/// EVT-160, EVT-190, EVT-035
#[tokio::test(start_paused = true)]
async fn writer_only_writes_rows_and_does_nothing_else() {
    let store = Watched::new();
    let outbox = Outbox::writer_only(store.clone()).start().await.unwrap();
    commit(&outbox, event("a")).await;
    tokio::time::advance(Duration::from_secs(24 * 60 * 60)).await;
    outbox.close().await;
    assert_eq!(store.calls(), ["check", "begin", "insert", "commit", "committed"]);
    let record = store.record("a").await.unwrap();
    assert_eq!((record.status, record.slot.is_lane()), (Status::New, false), "a reader elsewhere finds it");
}

/// EVT-190
#[tokio::test(start_paused = true)]
async fn events_of_a_writer_only_process_are_delivered_by_another() {
    let (store, seen) = (Watched::new(), Seen::new());
    let writer = Outbox::writer_only(store.clone()).start().await.unwrap();
    let reader = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    commit(&writer, event("a")).await;
    store.until("a", Status::Done).await;
    reader.close().await;
    writer.close().await;
    assert_eq!(seen.ids(), ["a"]);
}

/// EVT-161
#[tokio::test]
async fn everything_that_is_wrong_is_reported_at_once_by_name() {
    let store = Watched::new();
    let seen = Seen::new();
    let error = Outbox::multi_node(store.clone())
        .listener("t", seen.listener())
        .listener("t", seen.listener())
        .workers(0)
        .hot_capacity(0)
        .cold_capacity(2_000_000)
        .max_attempts(0)
        .batch_size(0)
        .poll_interval(Duration::ZERO)
        .deadline(Duration::ZERO)
        .drain_timeout(Duration::MAX)
        .skip_recent(Duration::MAX)
        .buffer_bytes(0)
        .purge(PurgeSettings { batch: 0, interval: Duration::ZERO, ..PurgeSettings::default() })
        .start()
        .await
        .err()
        .unwrap();
    let StartError::Settings(problems) = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 14, "{error}");
    let text = error.to_string();
    for name in [
        "lease is missing",
        "event type t is registered already",
        "workers is 0, allowed is 1 to 1024",
        "hot rows",
        "cold rows is 2000000",
        "max attempts",
        "fetch rows",
        "poll interval",
        "deadline",
        "drain",
        "skip recent",
        "buffer bytes",
        "purge batch",
        "purge interval",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(store.calls().is_empty(), "nothing was started");
}

/// EVT-161
#[tokio::test]
async fn several_nodes_demand_a_lease_and_deliverers_demand_a_listener() {
    for builder in [Outbox::single_node(Watched::new()), Outbox::ordered(Watched::new())] {
        let error = builder.start().await.err().unwrap().to_string();
        assert!(error.contains("listener is missing: register a listener"), "{error}");
    }
    for lease in [Duration::ZERO, Duration::MAX] {
        let builder = Outbox::multi_node(Watched::new()).listener("t", Seen::new().listener());
        let error = builder.lease(lease).start().await.err().unwrap().to_string();
        assert!(error.contains("lease is") && error.contains("300ms to 24h"), "{error}");
    }
    let by_age = PurgeSettings { keep_any: Some(Duration::ZERO), ..PurgeSettings::default() };
    let builder = Outbox::single_node(Watched::new()).listener("t", Seen::new().listener()).purge(by_age);
    assert!(builder.start().await.err().unwrap().to_string().contains("purge keep_any"));
}

/// PBX-093: the groups would be read by nobody.
#[tokio::test]
async fn order_by_group_demands_polling() {
    let builder = Outbox::ordered(Watched::new()).listener("t", Seen::new().listener()).no_polling();
    let error = builder.start().await.err().unwrap().to_string();
    assert!(error.contains("polling is off") && error.contains("groups are read"), "{error}");
}

/// EVT-162
#[tokio::test(start_paused = true)]
async fn a_part_that_fails_to_start_leaves_nothing_running() {
    for part in ["check", "register"] {
        let (store, seen) = (Watched::new(), Seen::new());
        store.fail(part);
        let builder = Outbox::single_node(store.clone()).listener("t", seen.listener());
        assert!(matches!(builder.start().await, Err(StartError::Store(_))), "{part}");
        store.heal();
        let calls = store.calls();
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(60 * 60)).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(store.calls(), calls, "{part}");
        assert!(store.inner.nodes().await.unwrap().is_empty());
    }
}

struct Batches(Seen, std::sync::Mutex<Vec<usize>>);

impl Sink for Batches {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        self.1.lock().unwrap().push(batch.len());
        batch.iter().for_each(|delivery| self.0.note(delivery.event.clone()));
        Box::pin(async { vec![Verdict::Accepted; batch.len()] })
    }
}

/// EVT-164
#[tokio::test(start_paused = true)]
async fn a_sink_of_ones_own_gets_batches_of_one_group() {
    let (store, seen) = (Watched::new(), Seen::new());
    let rows = (0..10).map(|n| NewRow {
        event: event(&n.to_string()).group("g").build().unwrap(),
        placement: Placement::Slot,
    });
    store.write(Write { rows: rows.collect(), now: None }).await.unwrap();
    let sink = Arc::new(Batches(seen.clone(), std::sync::Mutex::default()));
    let outbox = Outbox::ordered(store.clone()).sink_for_all(sink.clone(), 4).start().await.unwrap();
    store.until("9", Status::Done).await;
    outbox.close().await;
    assert!(seen.ids().is_sorted());
    assert_eq!(*sink.1.lock().unwrap(), [4, 4, 2]);
}

/// EVT-164: a sink for all events would leave the listeners without any.
#[tokio::test]
async fn a_sink_for_all_beside_a_listener_is_refused() {
    let (store, seen) = (Watched::new(), Seen::new());
    let sink = Arc::new(Batches(seen.clone(), std::sync::Mutex::default()));
    let builder = Outbox::ordered(store.clone()).listener("t", seen.listener()).sink_for_all(sink, 4);
    let error = builder.start().await.err().expect("a refusal").to_string();
    assert!(error.contains("sink_for_all and a listener or registry are both set"), "{error}");
    assert!(store.calls().is_empty());
}
