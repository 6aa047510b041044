//! The same on the tables `outbox_events` and `outbox_dispatch_jobs`.

use pillarbox::model::Layout;
use pillarbox::port::{GroupAction, GroupChange, Verdict};
use pillarbox_relay::Route;

use crate::kit::{Fixture, Recorder, numbered, statuses, text, write, write_as};

/// RLY-001, RLY-005, RLY-011, RLY-020, RLY-031, RLY-033
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_tables_are_drained_in_order_each_to_its_path() {
    for fixture in Fixture::all() {
        let events = fixture.table(Layout::Flowcatalyst, "outbox_events").await;
        let jobs = fixture.table(Layout::Flowcatalyst, "outbox_dispatch_jobs").await;
        write(&events, Some("a"), &numbered("a", 25)).await;
        write_as(&jobs, "DISPATCH_JOB", Some("b"), &numbered("b", 25)).await;
        let recorder = Recorder::new();
        let mut relay = fixture.relay(&recorder, &[("api-batch-size", "10")]).await;
        relay.until_empty().await;
        relay.close().await;
        assert_eq!(relay.sources()[0].tables, ["outbox_events", "outbox_dispatch_jobs"]);
        for (group, route) in [("a", Route::Events), ("b", Route::DispatchJobs)] {
            assert_eq!(recorder.of_group(group), numbered(group, 25));
            let batches = recorder.batches();
            let mut own = batches.iter().filter(|batch| batch.group.as_deref() == Some(group));
            assert!(own.all(|batch| batch.route == route && batch.payloads.len() <= 10));
        }
        assert_eq!(statuses(&events).await, [0, 25, 0, 0]);
        assert_eq!(statuses(&jobs).await, [0, 25, 0, 0]);
    }
}

/// RLY-032: the limit is one for both tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_share_the_limit_of_groups() {
    let fixture = Fixture::sqlite();
    let events = fixture.table(Layout::Flowcatalyst, "outbox_events").await;
    let jobs = fixture.table(Layout::Flowcatalyst, "outbox_dispatch_jobs").await;
    for group in 0..6 {
        write(&events, Some(&format!("e{group}")), &numbered("e", 1)).await;
        write_as(&jobs, "DISPATCH_JOB", Some(&format!("j{group}")), &numbered("j", 1)).await;
    }
    let recorder = Recorder::gated();
    let mut relay = fixture.relay(&recorder, &[("max-concurrent-groups", "3")]).await;
    recorder.drain_by(&mut relay, 3).await;
    assert_eq!((recorder.most_at_once(), recorder.events()), (3, 12));
}

/// RLY-030: items without a group share one, or go side by side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_without_a_group_share_one_or_run_in_parallel() {
    for (word, at_once) in [("default", 1), ("parallel", 4)] {
        let fixture = Fixture::sqlite();
        let events = fixture.table(Layout::Flowcatalyst, "outbox_events").await;
        write(&events, None, &numbered("none", 4)).await;
        let recorder = Recorder::gated();
        let options = [("ungrouped", word), ("dispatch-jobs-table", ""), ("api-batch-size", "1")];
        let mut relay = fixture.relay(&recorder, &options).await;
        recorder.drain_by(&mut relay, at_once).await;
        assert_eq!((recorder.most_at_once(), recorder.events()), (at_once, 4), "{word}");
    }
}

/// RLY-006, RLY-034: with three retries the fourth attempt is the last, with the error in the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_fails_is_retried_and_then_failed_with_the_error() {
    for fixture in Fixture::all() {
        let events = fixture.table(Layout::Flowcatalyst, "outbox_events").await;
        let payloads = numbered("a", 3);
        write(&events, Some("a"), &payloads).await;
        let bad = payloads[0].clone();
        let recorder = Recorder::judging(move |delivery| {
            if text(delivery) == bad {
                return Verdict::Failed { error: "no stock".to_owned(), after: None };
            }
            Verdict::Accepted
        });
        let options = [("retry-min", "1ms"), ("retry-max", "5ms"), ("dispatch-jobs-table", "")];
        let mut relay = fixture.relay(&recorder, &options).await;
        relay.until_empty().await;
        relay.close().await;
        assert_eq!(statuses(&events).await, [0, 2, 0, 1]);
        let tries = recorder.of_group("a").iter().filter(|payload| **payload == payloads[0]).count();
        assert_eq!(tries, 4);
        let dead = pillarbox::port::List {
            select: pillarbox::port::Select {
                statuses: vec![pillarbox::model::Status::Dead],
                ..pillarbox::port::Select::default()
            },
            limit: 10,
            ..pillarbox::port::List::default()
        };
        let dead = events.admin().list(dead).await.unwrap();
        assert!(dead[0].last_error.as_deref().is_some_and(|error| error.contains("no stock")));
    }
}

/// RLY-024
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_gives_back_what_was_not_delivered() {
    for fixture in Fixture::all() {
        let events = fixture.table(Layout::Flowcatalyst, "outbox_events").await;
        write(&events, Some("a"), &numbered("a", 5)).await;
        let recorder = Recorder::gated();
        let options = [("drain", "0s"), ("dispatch-jobs-table", "")];
        let mut relay = fixture.relay(&recorder, &options).await;
        recorder.until_events(5).await;
        relay.close().await;
        // A second relay gets them at once, whatever the time-out of the first.
        let second = Recorder::new();
        let mut relay = fixture.relay(&second, &options).await;
        second.until_events(5).await;
        relay.until_empty().await;
        relay.close().await;
        assert_eq!(second.of_group("a"), numbered("a", 5));
    }
}

/// RLY-070: however many groups are held, and if items without a group share a held one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_of_held_groups_are_counted_as_held() {
    let fixture = Fixture::sqlite();
    let events = fixture.table(Layout::Flowcatalyst, "outbox_events").await;
    let groups: Vec<String> = (0..201).map(|n| format!("g{n:03}")).collect();
    for group in groups.iter().map(String::as_str).chain(["default"]) {
        let (group, by) = (pillarbox::model::GroupKey::new(group), "ann".to_owned());
        let change = GroupChange { group, action: GroupAction::Pause, by, reason: None, now: None };
        assert!(events.admin().change_group(change).await.unwrap());
    }
    for group in [Some("default"), groups.first().map(String::as_str), groups.last().map(String::as_str)] {
        write(&events, group, &numbered("x", 1)).await;
    }
    write(&events, None, &numbered("none", 2)).await;
    let recorder = Recorder::new();
    let mut relay = fixture.relay(&recorder, &[("dispatch-jobs-table", "")]).await;
    relay.until_empty().await;
    relay.close().await;
    let left = relay.left().await.unwrap();
    assert_eq!((left.held, left.waiting, recorder.events()), (5, 0, 0));
}

/// PBX-102: the same refusal as that of `pillarbox migrate`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn native_tables_are_not_made_beside_pending_items() {
    for fixture in Fixture::all() {
        let events = fixture.table(Layout::Flowcatalyst, "outbox_events").await;
        write(&events, None, &numbered("a", 2)).await;
        let flags = fixture.flags(&[("layout", "native"), ("migrate", "true")]);
        let input = pillarbox_relay::config::Input { flags, ..Default::default() };
        let config = pillarbox_relay::config::RelayConfig::load(&input).unwrap();
        let sinks = std::sync::Arc::new(crate::kit::Recorded(Recorder::new()));
        let error = pillarbox_relay::Relay::start(pillarbox_relay::RelayParts { config, sinks }).await.err();
        let error = error.expect("it refuses").to_string();
        assert!(error.contains("outbox_events") && error.contains("2 pending events"), "{error}");
        // The tables that someone made on purpose are used.
        fixture.native().await;
        let recorder = Recorder::new();
        let mut relay = fixture.relay(&recorder, &[("layout", "native"), ("migrate", "true")]).await;
        relay.close().await;
    }
}

/// A table that is not there is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_table_is_named() {
    let fixture = Fixture::sqlite();
    fixture.table(Layout::Flowcatalyst, "outbox_events").await;
    let input = pillarbox_relay::config::Input {
        flags: fixture.flags(&[("layout", "flowcatalyst")]),
        ..Default::default()
    };
    let config = pillarbox_relay::config::RelayConfig::load(&input).unwrap();
    let sinks = std::sync::Arc::new(crate::kit::Recorded(Recorder::new()));
    let error = pillarbox_relay::Relay::start(pillarbox_relay::RelayParts { config, sinks }).await.err();
    let error = error.unwrap().to_string();
    assert!(error.contains("outbox_dispatch_jobs") && error.contains("pillarbox migrate"), "{error}");
}
