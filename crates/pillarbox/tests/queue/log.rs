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
        (Level::INFO, vec!["enqueued", "topic=\"mail\"", "correlation_id=\"order-9\""]),
        (Level::DEBUG, vec!["claimed", "messages=1", "store=\"tenant-7\""]),
        (Level::INFO, vec!["handling", "topic=\"mail\"", &of_message, "store=\"tenant-7\""]),
        (Level::ERROR, vec!["the mail server said no", &of_message, "store=\"tenant-7\""]),
        (Level::ERROR, vec!["event is dead", "store=\"tenant-7\""]),
        (Level::WARN, vec!["no handler", "topic=\"nobody\"", "store=\"tenant-7\""]),
        (Level::INFO, vec!["reaped", "messages=0"]),
    ] {
        let fits =
            |(at, line): &(Level, String)| *at == level && parts.iter().all(|part| line.contains(part));
        assert!(logs.all().iter().any(fits), "{level} {parts:?} is not in {:#?}", logs.all());
    }
    assert!(logs.all().iter().all(|(_, line)| !line.contains(SECRET)), "a payload was logged");
    assert!(!format!("{:?}", queue.claim(&owner("x"), LEASE, 1).await.unwrap()).contains(SECRET));
    assert!(logs.has(Level::INFO, "enqueued"));
}
