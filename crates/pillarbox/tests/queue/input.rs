//! Bad input: each a typed error with the bound, and nothing written.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::events::StartError;
use pillarbox::model::{Invalid, JoinId, Status};
use pillarbox::port::Table;
use pillarbox::queue::{JoinBuilder, JoinError, Message, QueueError, Waiting};

use crate::kit::*;

fn invalid<T: std::fmt::Debug>(result: Result<T, QueueError>) -> Invalid {
    match result {
        Err(QueueError::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    }
}

/// OBX-004, OBX-005, OBX-007, OBX-009, OBX-114
#[tokio::test(start_paused = true)]
async fn messages_keep_their_bounds() {
    let queue = queue();
    assert_eq!(invalid(queue.enqueue(message("")).await), Invalid::Empty { field: "event type" });
    let long = "t".repeat(256);
    assert!(matches!(
        invalid(queue.enqueue(message(&long)).await),
        Invalid::TooLong { max: 255, len: 256, .. }
    ));
    let long = invalid(queue.enqueue(message("t").correlation_id("c".repeat(256))).await);
    assert!(matches!(long, Invalid::TooLong { field: "correlation id", max: 255, .. }));
    let none = invalid(queue.enqueue(Event::builder("t")).await);
    assert!(matches!(none, Invalid::Missing { field: "payload", .. }));
    let large = invalid(queue.enqueue(Event::text("t", "x".repeat(1_048_577))).await);
    assert!(matches!(large, Invalid::TooLong { field: "payload", max: 1_048_576, .. }));
    queue.enqueue(message(&"é".repeat(255)).correlation_id("ж".repeat(255))).await.unwrap();
    assert_eq!(
        queue.store().admin().stats().await.unwrap().queue.pending(),
        1,
        "only the good one was written"
    );
}

/// OBX-114
#[tokio::test(start_paused = true)]
async fn the_payload_limit_of_a_queue_can_be_set() {
    let queue = queue().payload_limit(20 * 1_048_576);
    let large = Event::bytes("t", vec![7; 20 * 1_048_576]);
    let id = queue.enqueue(large).await.unwrap().message;
    let handler = |_: Message| std::future::ready(Ok(()));
    let worker = queue.worker().handler("t", handler).start().unwrap();
    until(&queue, &id, Status::Done).await;
    worker.close().await;
    let larger = queue.enqueue(Event::bytes("t", vec![7; 20 * 1_048_576 + 1])).await;
    assert!(matches!(invalid(larger), Invalid::TooLong { field: "payload", .. }));
    let smaller = queue.payload_limit(10);
    assert!(matches!(
        invalid(smaller.enqueue(Event::text("t", "x".repeat(11))).await),
        Invalid::TooLong { field: "payload", max: 10, .. }
    ));
}

/// OBX-116, OBX-117
#[tokio::test(start_paused = true)]
async fn leases_and_batches_are_above_zero() {
    let queue = queue();
    let ann = owner("ann");
    queue.enqueue(message("t")).await.unwrap();
    for lease in [Duration::ZERO, Duration::from_millis(299), Duration::MAX] {
        assert_eq!(invalid(queue.claim(&ann, lease, 1).await).field(), "lease");
        assert_eq!(invalid(queue.extend(&ann, &[], lease).await).field(), "lease");
    }
    for batch in [0, 10_001] {
        assert_eq!(invalid(queue.claim(&ann, LEASE, batch).await).field(), "batch");
    }
    assert_eq!(queue.claim(&ann, Duration::from_secs(10), 1).await.unwrap().len(), 1);
}

/// OBX-065, OBX-201
#[tokio::test(start_paused = true)]
async fn a_worker_says_everything_that_is_wrong_at_once() {
    let queue = queue();
    let handler = |_: Message| async { Ok(()) };
    let started = queue
        .worker()
        .handler("", handler)
        .handler("a", handler)
        .handler("a", handler)
        .lease(Duration::ZERO)
        .batch(0)
        .poll_interval(Duration::ZERO)
        .workers(0)
        .max_attempts(0)
        .start();
    let Err(StartError::Settings(problems)) = started else { panic!("it started") };
    let said = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    for part in [
        "topic is empty",
        "topic a is registered already",
        "lease",
        "batch",
        "poll interval",
        "workers",
        "max attempts",
    ] {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    let Err(StartError::Settings(problems)) = queue.worker().start() else { panic!("it started") };
    assert!(problems[0].to_string().contains("handler is missing"));
}

/// OBX-080: a join with no steps, texts too long, a wait for nothing.
#[tokio::test(start_paused = true)]
async fn joins_keep_their_bounds() {
    let queue = queue();
    let joins = queue.joins();
    for expected in [0, 1_000_001] {
        let refused = joins.start(JoinBuilder::of(expected)).await;
        assert!(matches!(
            refused,
            Err(JoinError::Invalid(Invalid::OutOfRange { field: "expected steps", .. }))
        ));
    }
    let refused = joins.start(JoinBuilder::of(1).grouping_key("k".repeat(256))).await;
    assert!(matches!(refused, Err(JoinError::Invalid(Invalid::TooLong { max: 255, .. }))));
    assert!(JoinId::new("x".repeat(37)).is_err() && JoinId::new("").is_err());
    let join = joins.start(JoinBuilder::of(1).grouping_key("")).await.unwrap();
    let refused = joins.wait(&join, Waiting::new()).await;
    assert!(matches!(refused, Err(JoinError::Invalid(Invalid::Missing { field: "continuation", .. }))));
    let refused = joins.wait(&join, Waiting::new().on_complete("", "{}")).await;
    assert!(matches!(refused, Err(JoinError::Invalid(Invalid::Empty { field: "topic" }))));
    let refused = joins.wait(&join, Waiting::new().on_complete("t", "x".repeat(1_048_577))).await;
    assert!(
        matches!(refused, Err(JoinError::Invalid(Invalid::TooLong { field: "payload", .. }))),
        "{refused:?}"
    );
    let refused = joins.start(JoinBuilder::of(1).metadata("\0")).await;
    assert!(
        matches!(refused, Err(JoinError::Invalid(Invalid::Character { field: "metadata", .. }))),
        "{refused:?}"
    );
}
