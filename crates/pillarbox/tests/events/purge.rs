//! The purger: batches, a schedule that survives failures, a clear end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::events::{PurgeSettings, Purger, StartError};
use pillarbox::model::Status;
use pillarbox::port::PurgeStatus;
use tokio::sync::Notify;
use tracing::Level;

use crate::kit::{Logs, Seen, Watched, event, seen::commit};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store with so many done events and one dead, all just ended.
async fn ended(done: usize) -> Watched {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    for n in 0..done {
        commit(&outbox, event(&n.to_string())).await;
    }
    commit(&outbox, pillarbox::Event::text("nobody", "{}").id("dead")).await;
    store.until("dead", Status::Dead).await;
    outbox.close().await;
    store
}

fn purger(store: &Watched, settings: PurgeSettings) -> Purger {
    Purger::new(Arc::new(store.clone()), settings).unwrap()
}

/// EVT-131
#[test]
fn the_defaults_keep_done_for_a_week_and_dead_for_a_month() {
    let settings = PurgeSettings::default();
    assert_eq!((settings.keep_done, settings.keep_dead, settings.keep_any), (DAY * 7, DAY * 30, None));
    assert_eq!((settings.batch, settings.interval), (500, Duration::from_secs(3_600)));
}

/// EVT-130, EVT-132
#[tokio::test(start_paused = true)]
async fn a_run_goes_on_until_a_batch_comes_back_short() {
    let store = ended(7).await;
    let purger = purger(&store, PurgeSettings { batch: 3, ..PurgeSettings::default() });
    assert_eq!(purger.run_once().await.unwrap(), 0, "nothing is old yet");
    store.inner.clock().advance(DAY * 8);
    let before = store.count("purge");
    assert_eq!(purger.run_once().await.unwrap(), 7);
    assert_eq!(store.count("purge") - before, 4, "three, three, one; and one for the dead");
    assert_eq!(store.status("dead").await, Some(Status::Dead), "kept longer");
    store.inner.clock().advance(DAY * 30);
    assert_eq!(purger.run_once().await.unwrap(), 1);
    assert_eq!(store.rows().await, 0);
}

/// EVT-131, EVT-133
#[tokio::test(start_paused = true)]
async fn a_failing_purge_is_logged_and_the_schedule_goes_on() {
    let logs = Logs::capture();
    let store = ended(1).await;
    store.inner.clock().advance(DAY * 8);
    store.fail("purge");
    let purger = purger(&store, PurgeSettings::default());
    let begun = tokio::time::Instant::now();
    purger.start().unwrap();
    purger.start().unwrap();
    store.until_that(async || (store.count("purge") >= 2).then_some(())).await;
    assert_eq!(begun.elapsed().as_secs(), 7_200, "hourly, and once although started twice");
    assert!(logs.has(Level::ERROR, "purge failed; the schedule continues"));
    store.heal();
    store.until_that(async || store.status("0").await.is_none().then_some(())).await;
    purger.close().await;
}

/// EVT-134
#[tokio::test(start_paused = true)]
async fn starting_after_closing_is_an_error_and_closing_twice_is_none() {
    let store = Watched::new();
    let purger = purger(&store, PurgeSettings::default());
    purger.start().unwrap();
    purger.close().await;
    purger.close().await;
    let error = purger.start().unwrap_err();
    assert!(matches!(error, StartError::Closed("the purger")));
    assert_eq!(error.to_string(), "the purger was closed and can't be started again");
    tokio::time::advance(DAY).await;
    assert_eq!(store.count("purge"), 0);
}

/// EVT-131, EVT-163
#[tokio::test(start_paused = true)]
async fn an_outbox_purges_by_itself_unless_told_not_to() {
    for purges in [true, false] {
        let store = ended(1).await;
        store.inner.clock().advance(DAY * 8);
        let builder = Outbox::single_node(store.clone()).listener("t", Seen::new().listener());
        let outbox = if purges { builder } else { builder.no_purge() }.start().await.unwrap();
        let heartbeats = store.count("heartbeat");
        store.until_that(async || (store.count("heartbeat") > heartbeats + 725).then_some(())).await;
        outbox.close().await;
        assert_eq!(store.status("0").await.is_none(), purges);
    }
}

/// EVT-135, EVT-190
#[tokio::test(start_paused = true)]
async fn writer_only_purges_by_age_alone() {
    let store = Watched::new();
    let settings = PurgeSettings { keep_any: Some(DAY), ..PurgeSettings::default() };
    let outbox = Outbox::writer_only(store.clone()).purge(settings).start().await.unwrap();
    commit(&outbox, event("old")).await;
    store.inner.clock().advance(DAY * 2);
    commit(&outbox, event("new")).await;
    store.until_that(async || store.status("old").await.is_none().then_some(())).await;
    assert_eq!(store.status("new").await, Some(Status::New));
    outbox.close().await;
}

/// Counts what it is asked to delete.
#[derive(Default)]
struct Archive {
    asked: Mutex<Vec<PurgeStatus>>,
    told: Notify,
}

impl pillarbox::events::EventPurger for Archive {
    fn purge(&self, request: pillarbox::port::Purge) -> pillarbox::port::StoreFuture<'_, u64> {
        self.asked.lock().unwrap().push(request.status);
        self.told.notify_one();
        Box::pin(async { Ok(0) })
    }

    fn name(&self) -> &str {
        "archive"
    }
}

/// EVT-131: the purger can be replaced.
#[tokio::test(start_paused = true)]
async fn a_purger_of_ones_own_runs_on_the_schedule() {
    let archive = Arc::new(Archive::default());
    let settings = PurgeSettings { interval: Duration::from_secs(60), ..PurgeSettings::default() };
    let outbox = Outbox::single_node(Watched::new())
        .listener("t", |_: pillarbox::Event| async { Ok::<_, pillarbox::Failure>(()) })
        .purge(settings)
        .purger(archive.clone())
        .start()
        .await
        .unwrap();
    while archive.asked.lock().unwrap().len() < 2 {
        archive.told.notified().await;
    }
    outbox.close().await;
    assert_eq!(archive.asked.lock().unwrap()[..2], [PurgeStatus::Done, PurgeStatus::Dead]);
}
