//! From a native table to a sink: order, batches, ends.

use pillarbox::port::{GroupAction, GroupChange, Verdict};

use crate::kit::{Fixture, Recorder, numbered, start, statuses, text, write};
use pillarbox_relay::SourceStatus;
use pillarbox_relay::config::Input;

const QUICK: &[(&str, &str)] = &[("retry-min", "1ms"), ("retry-max", "5ms")];

/// RLY-001, RLY-031, RLY-033
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_arrive_in_order_in_batches_of_at_most_the_size_that_is_set() {
    for fixture in Fixture::all() {
        let store = fixture.native().await;
        for group in ["a", "b", "c"] {
            write(&store, Some(group), &numbered(group, 25)).await;
        }
        let recorder = Recorder::new();
        let mut relay = fixture.relay(&recorder, &[("api-batch-size", "10")]).await;
        relay.until_empty().await;
        relay.close().await;
        for group in ["a", "b", "c"] {
            assert_eq!(recorder.of_group(group), numbered(group, 25));
        }
        assert!(recorder.batches().iter().all(|batch| batch.payloads.len() <= 10));
        assert_eq!(statuses(&store).await, [0, 75, 0, 0]);
        assert_eq!(relay.sources()[0].counts.delivered, 75);
    }
}

/// RLY-032
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_groups_are_out_at_once_than_are_set() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    for group in 0..12 {
        write(&store, Some(&format!("g{group}")), &numbered("g", 2)).await;
    }
    let recorder = Recorder::gated();
    let mut relay = fixture.relay(&recorder, &[("max-concurrent-groups", "3")]).await;
    recorder.drain_by(&mut relay, 3).await;
    assert_eq!((recorder.most_at_once(), recorder.events()), (3, 24));
}

/// RLY-024: what is out is delivered, what is not is given back, and no lease is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_delivers_what_is_in_memory_and_leaves() {
    for fixture in Fixture::all() {
        let store = fixture.native().await;
        write(&store, Some("a"), &numbered("a", 30)).await;
        let recorder = Recorder::gated();
        let mut relay = fixture.relay(&recorder, &[("api-batch-size", "10")]).await;
        recorder.until_events(10).await;
        recorder.let_through(100);
        relay.close().await;
        assert_eq!(store.admin().nodes().await.unwrap(), []);
        let [new, done, retry, dead] = statuses(&store).await;
        assert_eq!((new + done, retry, dead), (30, 0, 0));
        assert_eq!(done as usize, recorder.events());
    }
}

/// RLY-024: with no time to drain, what is out fails nobody and stays pending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_drained_in_time_is_given_back() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("a"), &numbered("a", 5)).await;
    let recorder = Recorder::gated();
    let mut relay = fixture.relay(&recorder, &[("drain", "0s")]).await;
    recorder.until_events(5).await;
    relay.close().await;
    assert_eq!(statuses(&store).await, [5, 0, 0, 0]);
    assert_eq!(store.admin().nodes().await.unwrap(), []);
}

/// RLY-034: three retries by default, then dead, and the group goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_fails_is_retried_three_times_and_skipped_when_it_is_dead() {
    for fixture in Fixture::all() {
        let store = fixture.native().await;
        let payloads = numbered("a", 3);
        write(&store, Some("a"), &payloads).await;
        let bad = payloads[1].clone();
        let recorder = Recorder::judging(move |delivery| {
            if text(delivery) == bad {
                return Verdict::Failed { error: "no".to_owned(), after: None };
            }
            Verdict::Accepted
        });
        let mut relay = fixture.relay(&recorder, QUICK).await;
        relay.until_empty().await;
        relay.close().await;
        assert_eq!(statuses(&store).await, [0, 2, 0, 1]);
        let tries = recorder.of_group("a").iter().filter(|payload| **payload == payloads[1]).count();
        assert_eq!(tries, 4);
        let counts = relay.sources()[0].counts;
        assert_eq!((counts.delivered, counts.dead), (2, 1));
    }
}

/// A group that is blocked or paused is kept so across restarts, and nothing waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_and_paused_groups_stay_so_across_restarts() {
    for fixture in Fixture::all() {
        let store = fixture.native().await;
        let change = |group: &str, action| GroupChange {
            group: pillarbox::model::GroupKey::new(group),
            action,
            reason: None,
            by: "tester".to_owned(),
            now: None,
        };
        store.admin().change_group(change("paused", GroupAction::Pause)).await.unwrap();
        for group in ["paused", "blocked", "free"] {
            write(&store, Some(group), &numbered(group, 3)).await;
        }
        let recorder = Recorder::judging(|delivery| match delivery.event.message_group() {
            Some("blocked") if text(delivery).contains("\"n\":0") => {
                Verdict::Rejected { error: "never".to_owned() }
            }
            _ => Verdict::Accepted,
        });
        for _ in 0..2 {
            let mut relay = fixture.relay(&recorder, &[("on-dead", "block")]).await;
            relay.until_empty().await;
            relay.close().await;
            assert_eq!(statuses(&store).await, [5, 3, 0, 1]);
        }
        store.admin().change_group(change("paused", GroupAction::Resume)).await.unwrap();
        store.admin().change_group(change("blocked", GroupAction::Skip)).await.unwrap();
        let mut relay = fixture.relay(&recorder, &[("on-dead", "block")]).await;
        relay.until_empty().await;
        relay.close().await;
        assert_eq!(statuses(&store).await, [0, 8, 0, 1]);
        assert_eq!(recorder.of_group("paused"), numbered("paused", 3));
    }
}

/// Several databases in one relay; one that is away does not hold up the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_run_side_by_side_and_one_that_is_away_is_waited_for() {
    let (first, second, away) = (Fixture::sqlite(), Fixture::sqlite(), Fixture::sqlite());
    let stores = [first.native().await, second.native().await];
    write(&stores[0], Some("a"), &numbered("a", 3)).await;
    write(&stores[1], Some("b"), &numbered("b", 3)).await;
    let text = format!(
        "api-base-url = 'http://localhost:1'\n[[source]]\nname = 'one'\ndatabase-url = {:?}\n\
         [[source]]\nname = 'two'\ndatabase-url = {:?}\n[[source]]\nname = 'away'\ndatabase-url = {:?}\n",
        first.url, second.url, away.url
    );
    let recorder = Recorder::new();
    let input = || Input { file: Some(("relay.toml".to_owned(), text.clone())), ..Input::default() };
    let mut relay = start(input(), &recorder).await;
    recorder.until_events(6).await;
    let statuses: Vec<SourceStatus> = relay.sources().iter().map(|source| source.status).collect();
    assert_eq!(statuses, [SourceStatus::Running, SourceStatus::Running, SourceStatus::Waiting]);
    assert_eq!(relay.troubles()[0].name, "away");
    let third = away.native().await;
    write(&third, Some("c"), &numbered("c", 3)).await;
    recorder.until_events(9).await;
    relay.until_empty().await;
    relay.close().await;
    assert_eq!(recorder.of_group("c"), numbered("c", 3));
}

/// Tables that are missing are an error that says what to do, and made if that is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_tables_are_named_or_made() {
    for fixture in Fixture::all() {
        // The database is there, and another table is not.
        fixture.native().await;
        let flags = fixture.flags(&[("table", "letters")]);
        let load = |flags: &[(String, String)]| {
            let input = Input { flags: flags.to_vec(), ..Input::default() };
            pillarbox_relay::config::RelayConfig::load(&input).unwrap()
        };
        let sinks = || std::sync::Arc::new(crate::kit::Recorded(Recorder::new()));
        let parts = pillarbox_relay::RelayParts { config: load(&flags), sinks: sinks() };
        let error = pillarbox_relay::Relay::start(parts).await.err().unwrap().to_string();
        assert!(error.contains("source default"), "{error}");
        let made = [flags, vec![("migrate".to_owned(), "true".to_owned())]].concat();
        let parts = pillarbox_relay::RelayParts { config: load(&made), sinks: sinks() };
        let mut relay = pillarbox_relay::Relay::start(parts).await.unwrap();
        assert_eq!(relay.sources()[0].tables, ["letters"]);
        relay.close().await;
    }
}
