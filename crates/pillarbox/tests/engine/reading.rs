//! What reads bring: no more than there is room for, in order, and nothing is passed over.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::EngineSettings;
use pillarbox::memory::{MemoryStore, Unreadable};
use pillarbox::model::{EventId, GroupKey, NewRow, Placement, Seq, Status};
use pillarbox::port::{Begin, GroupAction, GroupChange, Order, Table, Verdict, Write, WriteOn};
use pillarbox::{Event, model};

use crate::gated::Gated;
use crate::kit::{Scripted, engine, pass, record, until, write};
use crate::tampered::{Call, How, Tampered};

fn row(id: &str, group: Option<&str>) -> NewRow {
    let builder = Event::text("t", "{}").id(id);
    let builder = match group {
        Some(group) => builder.group(group),
        None => builder,
    };
    NewRow { event: builder.build().unwrap(), placement: Placement::Slot }
}

/// A transaction that has drawn the number of one event and is still open.
async fn drawn(store: &MemoryStore, id: &str, group: Option<&str>) -> pillarbox::memory::MemoryTransaction {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[row(id, group)]).await.unwrap();
    tx
}

/// PBX-013, EVT-110, EVT-112
#[tokio::test(start_paused = true)]
async fn no_more_is_read_than_there_is_room_for_and_nothing_is_lost() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let tampered = Tampered::new(&store);
    let settings = EngineSettings { workers: 2, cold_rows: 5, fetch_rows: 100, ..EngineSettings::default() };
    for n in 0..40 {
        write(&store, &n.to_string(), None).await;
    }
    let mut engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
    sink.until_begun(2).await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(tampered.rows_read(), 5);
    sink.open(40);
    for n in 0..40 {
        until(&store, &n.to_string(), Status::Done).await;
    }
    assert_eq!(sink.seen().accepted.len(), 40);
    assert!(tampered.rows_asked().iter().all(|rows| *rows <= 5 + 2), "{:?}", tampered.rows_asked());
    engine.close().await;
}

/// PBX-013
#[tokio::test(start_paused = true)]
async fn bytes_are_bounded_too() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let settings = EngineSettings { workers: 1, buffer_bytes: 20_000, ..EngineSettings::default() };
    let big = |n: usize| NewRow {
        event: Event::bytes("t", vec![0; 6_000]).id(n.to_string()).build().unwrap(),
        placement: Placement::Slot,
    };
    store.write(Write { rows: (0..20).map(big).collect(), now: None }).await.unwrap();
    let tampered = Tampered::new(&store);
    let mut engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
    sink.until_begun(1).await;
    pass(Duration::from_secs(60)).await;
    assert!(tampered.rows_read() <= 4, "{} rows of 6,000 bytes", tampered.rows_read());
    write(&store, "small", None).await;
    sink.open(21);
    until(&store, "small", Status::Done).await;
    assert_eq!(sink.seen().accepted.len(), 21);
    engine.close().await;
}

/// PBX-013
#[tokio::test(start_paused = true)]
async fn headers_are_bounded_as_payloads_are() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let settings = EngineSettings { workers: 1, buffer_bytes: 20_000, ..EngineSettings::default() };
    let big = |n: usize| NewRow {
        event: Event::text("t", "{}").header("h", "x".repeat(6_000)).id(n.to_string()).build().unwrap(),
        placement: Placement::Slot,
    };
    store.write(Write { rows: (0..20).map(big).collect(), now: None }).await.unwrap();
    let tampered = Tampered::new(&store);
    let mut engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
    sink.until_begun(1).await;
    pass(Duration::from_secs(60)).await;
    assert!(tampered.rows_read() <= 4, "{} rows of 6,000 bytes", tampered.rows_read());
    sink.open(20);
    until(&store, "19", Status::Done).await;
    engine.close().await;
}

/// PBX-013
#[tokio::test(start_paused = true)]
async fn a_row_that_is_too_large_dies_and_the_rest_is_delivered() {
    for order in [Order::None, Order::PerGroup] {
        let store = MemoryStore::new();
        let sink = Scripted::new(|_| Verdict::Accepted);
        let row = |id: &str, bytes: usize| NewRow {
            event: Event::bytes("t", vec![0; bytes]).id(id).group("g").build().unwrap(),
            placement: Placement::Slot,
        };
        let rows = vec![row("a", 10), row("large", 6_000), row("b", 10)];
        store.write(Write { rows, now: None }).await.unwrap();
        let settings = EngineSettings { order, row_bytes: 2_000, ..EngineSettings::default() };
        let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
        until(&store, "b", Status::Done).await;
        let dead = until(&store, "large", Status::Dead).await;
        let error = dead.last_error.unwrap_or_default();
        assert!(error.starts_with("too large: the row has 6"), "{error}");
        assert_eq!((dead.attempts, sink.ids()), (0, vec!["a".to_owned(), "b".to_owned()]));
        engine.close().await;
    }
}

/// PBX-010: a read that was cut for want of room does not pass over a number that was drawn before and commits after.
#[tokio::test(start_paused = true)]
async fn a_full_buffer_passes_no_open_transaction() {
    let (store, sink) = (MemoryStore::new(), Gated::shut());
    let tx = drawn(&store, "late", None).await;
    for n in 0..5 {
        write(&store, &n.to_string(), None).await;
    }
    let settings = EngineSettings { buffer_bytes: 600, ..EngineSettings::default() };
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
    sink.until_begun(3).await;
    store.commit(tx).await.unwrap();
    sink.open(6);
    until(&store, "late", Status::Done).await;
    engine.close().await;
}

/// PBX-010: rows of a group that is held back fill every page while an older transaction is open.
#[tokio::test(start_paused = true)]
async fn an_open_transaction_hides_nothing_behind_a_group_that_is_held_back() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let pause = GroupChange {
        group: GroupKey::new("held"),
        action: GroupAction::Pause,
        reason: None,
        by: "operator".to_owned(),
        now: None,
    };
    store.admin().change_group(pause).await.unwrap();
    let tx = drawn(&store, "open", Some("other")).await;
    for n in 0..20 {
        write(&store, &format!("held{n}"), Some("held")).await;
    }
    write(&store, "free", Some("free")).await;
    let sink = Scripted::new(|_| Verdict::Accepted);
    let settings =
        EngineSettings { order: Order::PerGroup, cold_rows: 4, fetch_rows: 1, ..EngineSettings::default() };
    let mut engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
    until(&store, "free", Status::Done).await;
    pass(Duration::from_secs(60)).await;
    let reads = tampered.take_calls()[&Call::Fetch];
    assert!(reads < 60, "{reads} reads in a minute in which nothing happens");
    store.commit(tx).await.unwrap();
    until(&store, "open", Status::Done).await;
    engine.close().await;
}

/// PBX-010: a group that was backing off is read from before what was seen of it.
#[tokio::test(start_paused = true)]
async fn what_commits_while_its_group_backs_off_is_not_overtaken() {
    let store = MemoryStore::new();
    let tx = drawn(&store, "early", Some("g")).await;
    write(&store, "head", Some("g")).await;
    let sink = Scripted::new(|delivery| match (delivery.event.id().as_str(), delivery.attempt) {
        ("head", 1) => Verdict::Failed { error: "no".to_owned(), after: Some(Duration::from_millis(500)) },
        _ => Verdict::Accepted,
    });
    let settings = EngineSettings {
        order: Order::PerGroup,
        poll_interval: Duration::from_secs(3_600),
        ..EngineSettings::default()
    };
    let mut engine = engine(Tampered::without_hints(&store), sink.clone(), settings, 1).await;
    sink.until_sent(1).await;
    store.commit(tx).await.unwrap();
    write(&store, "after", Some("g")).await;
    until(&store, "after", Status::Done).await;
    until(&store, "early", Status::Done).await;
    let ids = sink.ids();
    let place = |wanted: &str| ids.iter().position(|id| id == wanted).unwrap();
    assert!(place("early") < place("after"), "{ids:?}");
    engine.close().await;
}

/// PBX-019: an answer that is slow does not put an expiry off.
#[tokio::test(start_paused = true)]
async fn an_expiry_counts_from_when_the_read_was_asked_for() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let event = Event::text("t", "{}").id("a").expires(Duration::from_secs(5)).build().unwrap();
    store.write(Write { rows: vec![NewRow { event, placement: Placement::Slot }], now: None }).await.unwrap();
    tampered.next(Call::Fetch, How::HoldAnswer);
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(tampered.clone(), sink.clone(), EngineSettings::default(), 1).await;
    pass(Duration::from_secs(6)).await;
    tampered.release();
    let dead = until(&store, "a", Status::Dead).await;
    assert_eq!(dead.last_error.as_deref(), Some("expired before it was delivered"));
    assert!(sink.ids().is_empty());
    engine.close().await;
}

/// EVT-083
#[tokio::test(start_paused = true)]
async fn an_unreadable_row_is_dead_and_its_neighbours_are_delivered() {
    for order in [Order::None, Order::PerGroup] {
        let store = MemoryStore::new();
        write(&store, "before", Some("g")).await;
        let seq: Seq = store.plant(Unreadable {
            id: EventId::new("bad").unwrap(),
            event_type: "t".to_owned(),
            group: Some(GroupKey::new("g")),
            reason: "no payload".to_owned(),
        });
        assert!(seq > record(&store, "before").await.seq);
        write(&store, "after", Some("g")).await;
        let sink = Scripted::new(|_| Verdict::Accepted);
        let settings = EngineSettings { order, ..EngineSettings::default() };
        let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
        until(&store, "after", Status::Done).await;
        let dead = until(&store, "bad", Status::Dead).await;
        assert_eq!(dead.last_error.as_deref(), Some("undecodable: no payload"));
        assert_eq!(sink.ids(), ["before", "after"]);
        engine.close().await;
    }
}

/// EVT-150
#[tokio::test(start_paused = true)]
async fn with_one_worker_and_one_attempt_everything_goes_in_the_order_of_its_numbers() {
    let store = MemoryStore::new();
    let groups = [Some("g"), None, Some("h"), Some("g"), None, Some("i"), Some("h")];
    let ids: Vec<String> = (0..70).map(|n| format!("e{n}")).collect();
    for (n, id) in ids.iter().enumerate() {
        write(&store, id, groups[n % groups.len()]).await;
    }
    let sink = Scripted::new(|_| Verdict::Accepted);
    let settings =
        EngineSettings { order: Order::PerGroup, workers: 1, max_attempts: 1, ..EngineSettings::default() };
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
    sink.until_sent(70).await;
    assert_eq!(sink.ids(), ids);
    engine.close().await;
}

/// PBX-014: due and expiry are the database's affair, whatever the node's clock shows.
#[tokio::test(start_paused = true)]
async fn a_day_between_the_clocks_changes_nothing() {
    for hours in [-24, 0, 24] {
        let wall = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
        let clock = pillarbox::memory::MemoryClock::starting_at(wall);
        let options = pillarbox::memory::MemoryOptions { clock, ..Default::default() };
        let store = MemoryStore::with(options);
        let sink = Scripted::new(|_| Verdict::Accepted);
        let mut engine = engine(Arc::new(store.clone()), sink.clone(), EngineSettings::default(), 1).await;
        let due = store.clock().now() + Duration::from_secs(30);
        let delayed = Event::text("t", "{}").id("delayed").due(model::When::At(due)).build().unwrap();
        let stale = Event::text("t", "{}").id("stale").expires(store.clock().now()).build().unwrap();
        let rows = [delayed, stale].map(|event| NewRow { event, placement: Placement::Slot });
        store.write(Write { rows: rows.to_vec(), now: None }).await.unwrap();
        write(&store, "now", None).await;
        until(&store, "now", Status::Done).await;
        until(&store, "stale", Status::Dead).await;
        pass(Duration::from_secs(20)).await;
        assert_eq!(sink.ids(), ["now"], "{hours}");
        pass(Duration::from_secs(20)).await;
        assert_eq!(sink.ids(), ["now", "delayed"], "{hours}");
        engine.close().await;
    }
}
