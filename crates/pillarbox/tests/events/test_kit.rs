//! The test kit, as the tests of a user's service have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::rules::Fixed;
use pillarbox::testing::{Ran, TestOutbox};
use pillarbox::{Event, Failure, Writer};

use crate::kit::{Seen, event};

/// A user's service, that writes what it does.
async fn place_order(writer: &Writer<MemoryStore>, number: u32) -> Result<(), Box<dyn std::error::Error>> {
    let mut tx = writer.begin().await?;
    if number == 13 {
        return Err("unlucky".into());
    }
    tx.write(Event::json("order.placed", &number)?.aggregate("order", number))?;
    tx.commit().await?;
    Ok(())
}

/// PBX-026
#[tokio::test]
async fn it_tells_what_was_written() {
    let outbox = TestOutbox::new();
    place_order(outbox.writer(), 7).await.unwrap();
    assert!(place_order(outbox.writer(), 13).await.is_err());
    let written = outbox.written().await;
    assert_eq!(written.len(), 1);
    assert_eq!((written[0].event_type(), written[0].json_as::<u32>().unwrap()), ("order.placed", 7));
}

/// PBX-026
#[tokio::test]
async fn nothing_runs_until_told_and_then_everything_does_in_order() {
    let seen = Seen::new();
    let outbox = TestOutbox::new().listener("t", seen.listener()).listener_for("order", "t", seen.listener());
    for id in ["a", "b"] {
        outbox.write(event(id)).await.unwrap();
    }
    outbox.write(event("c").aggregate("order", 1)).await.unwrap();
    assert_eq!(seen.count(), 0);
    assert_eq!(outbox.run().await.unwrap(), Ran { delivered: 3, retried: 0, dead: 0 });
    assert_eq!(seen.ids(), ["a", "b", "c"]);
    assert_eq!(outbox.run().await.unwrap(), Ran::default(), "done is done");
    assert_eq!(outbox.with_status(Status::Done).await.len(), 3);
}

/// PBX-026
#[tokio::test]
async fn what_a_listener_writes_runs_too() {
    let outbox = Arc::new(std::sync::OnceLock::<Writer<MemoryStore>>::new());
    let (seen, inner) = (Seen::new(), Arc::clone(&outbox));
    let kit = TestOutbox::new().listener("t", seen.listener()).listener("first", move |_: Event| {
        let writer = inner.get().unwrap().clone();
        async move {
            let mut tx = writer.begin().await?;
            tx.write(event("second"))?;
            tx.commit().await?;
            Ok::<_, Failure>(())
        }
    });
    outbox.set(kit.writer().clone()).ok().unwrap();
    kit.write(Event::text("first", "{}")).await.unwrap();
    assert_eq!(kit.run().await.unwrap().delivered, 2);
    assert_eq!(seen.ids(), ["second"]);
}

/// PBX-026
#[tokio::test]
async fn its_clock_brings_delayed_events_and_retries_about() {
    let tries = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&tries);
    let outbox = TestOutbox::new().max_attempts(2).retry(Fixed(Duration::from_secs(60))).listener(
        "t",
        move |_: Event| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Err("no".into()) }
        },
    );
    outbox.write(event("a").due(Duration::from_secs(3_600))).await.unwrap();
    assert_eq!(outbox.run().await.unwrap(), Ran::default());
    outbox.advance(Duration::from_secs(3_600));
    assert_eq!(outbox.run().await.unwrap(), Ran { retried: 1, ..Ran::default() });
    assert_eq!(outbox.run().await.unwrap(), Ran::default(), "its time has not come");
    outbox.advance(Duration::from_secs(60));
    assert_eq!(outbox.run().await.unwrap(), Ran { dead: 1, ..Ran::default() });
    let dead = outbox.with_status(Status::Dead).await;
    assert_eq!(
        (dead[0].attempts, dead[0].last_error.as_deref(), tries.load(Ordering::SeqCst)),
        (2, Some("no"), 2)
    );
}

/// PBX-026, PBX-019
#[tokio::test]
async fn what_has_no_listener_or_has_expired_is_dead() {
    let outbox = TestOutbox::new();
    outbox.write(event("a")).await.unwrap();
    outbox.write(event("b").expires(Duration::from_secs(5))).await.unwrap();
    outbox.advance(Duration::from_secs(5));
    assert_eq!(outbox.run().await.unwrap().dead, 2);
    let errors: Vec<_> =
        outbox.with_status(Status::Dead).await.into_iter().map(|one| one.last_error.unwrap()).collect();
    assert_eq!(
        errors,
        ["no listener for aggregate type __GLOBAL__, event type t", "expired before it was delivered",]
    );
}

/// PBX-026, PBX-061: as in the engine, what is down costs an event no attempt, and never kills it.
#[tokio::test]
async fn an_outage_counts_no_attempt() {
    let up = Arc::new(AtomicU32::new(0));
    let calls = Arc::clone(&up);
    let listener = move |_: Event| {
        let down = calls.fetch_add(1, Ordering::SeqCst) < 4;
        std::future::ready(if down { Err(Failure::unavailable("down", None)) } else { Ok(()) })
    };
    let delay = Duration::from_secs(1);
    let outbox = TestOutbox::new().listener("t", listener).max_attempts(2).retry(Fixed(delay));
    outbox.write(event("a")).await.unwrap();
    for _ in 0..4 {
        assert_eq!(outbox.run().await.unwrap(), Ran { delivered: 0, retried: 1, dead: 0 });
        let waiting = outbox.with_status(Status::Retry).await;
        assert_eq!((waiting[0].attempts, waiting[0].last_error.as_deref()), (0, Some("down")));
        outbox.advance(delay);
    }
    assert_eq!(outbox.run().await.unwrap(), Ran { delivered: 1, retried: 0, dead: 0 });
    assert_eq!(outbox.with_status(Status::Done).await[0].attempts, 0);
}
