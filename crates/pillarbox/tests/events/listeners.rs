//! Listeners that fail, panic, hang or need longer than the lease.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::events::Failure;
use pillarbox::model::Status;
use pillarbox::port::Admin;
use pillarbox::rules::{Fixed, RetryPolicy};
use pillarbox::{Event, Outbox};
use tokio::sync::Semaphore;

use crate::kit::{Seen, Watched, event, seen::commit};

/// EVT-066, EVT-067, EVT-183
#[tokio::test(start_paused = true)]
async fn a_failing_listener_goes_through_retry_to_dead_with_the_attempts_counted() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.failing())
        .max_attempts(3)
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    let retry = store.until("a", Status::Retry).await;
    assert_eq!((retry.attempts, retry.last_error.as_deref()), (1, Some("the listener said no")));
    let dead = store.until("a", Status::Dead).await;
    outbox.close().await;
    assert_eq!((dead.attempts, seen.count()), (3, 3));
    let shown = store.inner.show(dead.id).await.unwrap().unwrap();
    assert_eq!(shown.attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2, 3]);
}

/// EVT-100
#[tokio::test(start_paused = true)]
async fn the_retry_policy_can_be_replaced() {
    #[derive(Clone, Default)]
    struct Steps(Arc<Mutex<Vec<(u32, bool)>>>);
    impl RetryPolicy for Steps {
        fn delay(&self, attempts: u32, random: f64) -> Duration {
            self.0.lock().unwrap().push((attempts, (0.0..1.0).contains(&random)));
            Duration::from_secs(u64::from(attempts) * 100)
        }
    }
    let (store, seen, policy) = (Watched::new(), Seen::new(), Steps::default());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.failing())
        .retry(policy.clone())
        .max_attempts(3)
        .start()
        .await
        .unwrap();
    let begun = tokio::time::Instant::now();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Dead).await;
    assert_eq!(begun.elapsed().as_secs(), 300, "100 s and then 200 s");
    assert_eq!(*policy.0.lock().unwrap(), [(1, true), (2, true)]);
    outbox.close().await;
}

/// EVT-073
#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_with_its_message_and_others_go_on() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("bad", |_: Event| async { panic!("poison") as Result<(), Failure> })
        .listener("t", seen.listener())
        .workers(1)
        .max_attempts(2)
        .start()
        .await
        .unwrap();
    commit(&outbox, Event::text("bad", "{}").id("p")).await;
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    let dead = store.until("p", Status::Dead).await;
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (2, Some("panicked: poison")));
    outbox.close().await;
}

/// EVT-067
#[tokio::test(start_paused = true)]
async fn a_listener_past_its_deadline_has_failed_and_its_worker_is_free() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("slow", |_: Event| std::future::pending::<Result<(), Failure>>())
        .listener("t", seen.listener())
        .workers(1)
        .deadline(Duration::from_secs(20))
        .max_attempts(1)
        .start()
        .await
        .unwrap();
    let begun = tokio::time::Instant::now();
    commit(&outbox, Event::text("slow", "{}").id("s")).await;
    commit(&outbox, event("a")).await;
    let dead = store.until("s", Status::Dead).await;
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert_eq!(dead.last_error.as_deref(), Some("not finished within its deadline of 20s"));
    store.until("a", Status::Done).await;
    outbox.close().await;
}

/// PBX-012
#[tokio::test(start_paused = true)]
async fn a_listener_may_need_longer_than_the_lease() {
    let (store, seen, gate) = (Watched::new(), Seen::new(), Arc::new(Semaphore::new(0)));
    let (note, wait) = (seen.clone(), Arc::clone(&gate));
    let outbox = Outbox::multi_node(store.clone())
        .listener("t", move |event: Event| {
            note.note(event);
            let wait = Arc::clone(&wait);
            async move { Ok(wait.acquire().await.map(|permit| permit.forget())?) }
        })
        .lease(Duration::from_secs(3))
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    seen.wait(1).await;
    let heartbeats = store.count("heartbeat");
    store.until_that(async || (store.count("heartbeat") >= heartbeats + 12).then_some(())).await;
    gate.add_permits(1);
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert_eq!(seen.count(), 1, "the heartbeats kept it");
}

/// EVT-067
#[tokio::test(start_paused = true)]
async fn a_listener_says_when_to_try_again_or_that_it_never_will_work() {
    let (store, seen) = (Watched::new(), Seen::new());
    let note = seen.clone();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", move |event: Event| {
            note.note(event);
            async { Err::<(), _>(Failure::retry_after("busy", Duration::from_secs(77))) }
        })
        .listener("never", |_: Event| async { Err::<(), _>(Failure::permanent("gone for good")) })
        .retry(Fixed(Duration::from_secs(1)))
        .start()
        .await
        .unwrap();
    let begun = tokio::time::Instant::now();
    commit(&outbox, event("a")).await;
    commit(&outbox, Event::text("never", "{}").id("n")).await;
    seen.wait(2).await;
    assert_eq!(begun.elapsed().as_secs(), 77);
    let dead = store.until("n", Status::Dead).await;
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (1, Some("gone for good")));
    outbox.close().await;
}

/// EVT-067
#[tokio::test(start_paused = true)]
async fn an_outage_of_what_the_listener_needs_burns_no_attempts() {
    let (store, seen) = (Watched::new(), Seen::new());
    let note = seen.clone();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", move |event: Event| {
            note.note(event);
            let down = note.count() < 20;
            async move { if down { Err(Failure::unavailable("down", None)) } else { Ok(()) } }
        })
        .max_attempts(2)
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    let done = store.until("a", Status::Done).await;
    outbox.close().await;
    assert_eq!((done.attempts, seen.count()), (0, 20));
}
