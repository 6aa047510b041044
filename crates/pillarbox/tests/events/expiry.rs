//! Events that expire are never delivered past their time.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::Status;
use pillarbox::{Event, Outbox, Writer};
use tokio::sync::Semaphore;

use crate::kit::{Seen, Watched, event, seen::commit};

/// PBX-019
#[tokio::test(start_paused = true)]
async fn an_event_read_past_its_time_is_dead_with_the_reason() {
    let (store, seen) = (Watched::new(), Seen::new());
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("late").expires(Duration::from_secs(10))).unwrap();
    tx.write(event("in time").expires(Duration::from_secs(1_000))).unwrap();
    tx.commit().await.unwrap();
    tokio::time::advance(Duration::from_secs(10)).await;
    let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
    let dead = store.until("late", Status::Dead).await;
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (0, Some("expired before it was delivered")));
    store.until("in time", Status::Done).await;
    outbox.close().await;
    assert_eq!(seen.ids(), ["in time"]);
}

/// PBX-019
#[tokio::test(start_paused = true)]
async fn an_event_that_waited_too_long_in_memory_is_dead_hot_or_not() {
    for at in [false, true] {
        let (store, seen, gate) = (Watched::new(), Seen::new(), Arc::new(Semaphore::new(0)));
        let (note, wait) = (seen.clone(), Arc::clone(&gate));
        let outbox = Outbox::single_node(store.clone())
            .listener("t", move |event: Event| {
                note.note(event);
                let wait = Arc::clone(&wait);
                async move { Ok(wait.acquire().await.map(|permit| permit.forget())?) }
            })
            .workers(1)
            .start()
            .await
            .unwrap();
        commit(&outbox, event("first")).await;
        seen.wait(1).await;
        let ten = Duration::from_secs(10);
        let second = event("second");
        let now = store.inner.clock().now();
        commit(&outbox, if at { second.expires(now + ten) } else { second.expires(ten) }).await;
        tokio::time::advance(ten).await;
        gate.add_permits(10);
        let dead = store.until("second", Status::Dead).await;
        assert_eq!(dead.last_error.as_deref(), Some("expired before it was delivered"));
        outbox.close().await;
        assert_eq!(seen.ids(), ["first"], "at {at}");
    }
}

/// PBX-019
#[tokio::test(start_paused = true)]
async fn a_retry_that_comes_too_late_is_dead() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.failing())
        .retry(pillarbox::rules::Fixed(Duration::from_secs(30)))
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a").expires(Duration::from_secs(10))).await;
    let dead = store.until("a", Status::Dead).await;
    assert_eq!((dead.attempts, seen.count()), (1, 1));
    outbox.close().await;
}
