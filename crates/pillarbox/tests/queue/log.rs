//! What is logged: enough to find a message, never what is in it.

use pillarbox::Event;
use pillarbox::events::Failure;
use pillarbox::model::Status;
use pillarbox::queue::{Databases, Message};
use tracing::Level;

use crate::kit::*;
use crate::logs::Logs;

const SECRET: &str = "hunter2";

/// OBX-071, OBX-102, OBX-103, OBX-104, OBX-105, OBX-106, OBX-107, OBX-125
#[tokio::test(start_paused = true)]
async fn every_step_is_logged_with_its_store_and_without_its_payload() {
    let logs = Logs::capture();
    let databases = Databases::stores([("tenant-7", queue().store().as_ref().clone())]);
    let queue = databases.queue("tenant-7").await.unwrap();
    let fails = |_: Message| async { Err::<(), _>(Failure::permanent("the mail server said no")) };
    let worker = databases.worker().handler("mail", fails).start().unwrap();
    let payload = format!(r#"{{"password":"{SECRET}"}}"#);
    let id = queue.enqueue(Event::text("mail", payload).correlation_id("order-9")).await.unwrap().message;
    until(&queue, &id, Status::Dead).await;
    queue.enqueue(message("nobody")).await.unwrap();
    pass(secs(10)).await;
    queue.reap(10).await.unwrap();
    worker.close().await;
    let of_message = format!("message={id}");
    for (level, parts) in [
        (Level::INFO, vec!["enqueued", "topic=\"mail\"", "correlation_id=\"order-9\"", "store=\"tenant-7\""]),
        (Level::DEBUG, vec!["claimed", "messages=1", "store=\"tenant-7\""]),
        (Level::INFO, vec!["handling", "topic=\"mail\"", &of_message, "store=\"tenant-7\""]),
        (Level::ERROR, vec!["the mail server said no", &of_message, "store=\"tenant-7\""]),
        (Level::ERROR, vec!["event is dead", "store=\"tenant-7\""]),
        (Level::WARN, vec!["no handler", "topic=\"nobody\"", "store=\"tenant-7\""]),
        (Level::INFO, vec!["reaped", "messages=0", "store=\"tenant-7\""]),
    ] {
        let fits =
            |(at, line): &(Level, String)| *at == level && parts.iter().all(|part| line.contains(part));
        assert!(logs.all().iter().any(fits), "{level} {parts:?} is not in {:#?}", logs.all());
    }
    assert!(logs.all().iter().all(|(_, line)| !line.contains(SECRET)), "a payload was logged");
    assert!(!format!("{:?}", queue.claim(&owner("x"), LEASE, 1).await.unwrap()).contains(SECRET));
    assert!(logs.has(Level::INFO, "enqueued"));
}

/// OBX-105: neither can be logged by the handler itself.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_or_misses_its_deadline_is_logged_at_each_attempt() {
    let logs = Logs::capture();
    let queue = queue();
    let panics = |message: Message| async move {
        assert!(message.retry_count() > 1, "not yet");
        Ok::<_, Failure>(())
    };
    let hangs = |message: Message| async move {
        if message.retry_count() == 0 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Failure>(())
    };
    let worker = queue.worker().handler("panics", panics).handler("hangs", hangs).start().unwrap();
    for (topic, error, times) in [("panics", "panicked: not yet", 2), ("hangs", "within its deadline", 1)] {
        let id = queue.enqueue(message(topic)).await.unwrap().message;
        until(&queue, &id, Status::Done).await;
        let parts = ["delivery was broken off", error, &format!("event={id}"), "attempt=", "store="];
        let fits = |(at, line): &(Level, String)| {
            *at == Level::ERROR && parts.iter().all(|part| line.contains(part))
        };
        let lines = logs.all();
        assert_eq!(lines.iter().filter(|line| fits(line)).count(), times, "{topic}: {lines:#?}");
    }
    worker.close().await;
}

/// OBX-053, OBX-106
#[tokio::test(start_paused = true)]
async fn a_worker_reaps_from_time_to_time() {
    let logs = Logs::capture();
    let databases = Databases::stores([("tenant-7", queue().store().as_ref().clone())]);
    let queue = databases.queue("tenant-7").await.unwrap();
    let id = queue.enqueue(message("of another worker")).await.unwrap().message;
    assert_eq!(queue.claim(&owner("crashed"), LEASE, 1).await.unwrap().len(), 1);
    let handler = |_: Message| async { Ok::<_, Failure>(()) };
    let worker = databases.worker().handler("a", handler).start().unwrap();
    let waiting = async {
        while record(&queue, &id).await.locked_by.is_some() {
            pass(secs(1)).await;
        }
    };
    tokio::time::timeout(NEVER, waiting).await.expect("the claim that expired is taken off the row");
    worker.close().await;
    let line = |(at, line): &(Level, String)| {
        *at == Level::INFO
            && ["reaped", "messages=1", "store=\"tenant-7\""].iter().all(|part| line.contains(part))
    };
    assert_eq!(logs.all().iter().filter(|one| line(one)).count(), 1, "{:#?}", logs.all());
}
