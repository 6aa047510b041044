//! The handle: enqueue, claim, acknowledge, abandon, fail, extend, reap.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::Event;
use pillarbox::memory::MemoryStore;
use pillarbox::model::{Payload, Status};
use pillarbox::port::{Begin, OnDone, Table};
use pillarbox::queue::{Message, MessageId, QueueError, Settlement, WorkItemId};
use pillarbox::rules::Fixed;

use crate::kit::*;

/// OBX-001, OBX-002, OBX-010, OBX-014, OBX-015, OBX-016
#[tokio::test(start_paused = true)]
async fn a_message_is_enqueued_in_a_transaction_of_its_own() {
    let queue = queue();
    let first = queue.enqueue(message("Order.Created")).await.unwrap();
    let second = queue.enqueue(message("order.created")).await.unwrap();
    assert!(first.fresh && first.message != second.message);
    let record = record(&queue, &first.message).await;
    assert_eq!(
        (record.status, record.attempts, record.created_at),
        (Status::New, 0, queue.store().clock().now())
    );
    let claimed = queue.claim(&owner("ann"), LEASE, 9).await.unwrap();
    assert_eq!(claimed.iter().map(|one| one.topic()).collect::<Vec<_>>(), ["Order.Created", "order.created"]);
}

/// OBX-003
#[tokio::test(start_paused = true)]
async fn a_message_comes_with_the_callers_transaction_or_not_at_all() {
    let queue = queue();
    let store = queue.store();
    let mut tx = store.begin().await.unwrap();
    queue.enqueue_on(&mut tx, [message("a")]).await.unwrap();
    assert!(queue.claim(&owner("ann"), LEASE, 9).await.unwrap().is_empty(), "not committed");
    store.rollback(tx).await.unwrap();
    assert!(queue.claim(&owner("ann"), LEASE, 9).await.unwrap().is_empty());
    let mut tx = store.begin().await.unwrap();
    queue.enqueue_on(&mut tx, [message("a"), message("b")]).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!(queue.claim(&owner("ann"), LEASE, 9).await.unwrap().len(), 2);
}

/// OBX-006, OBX-008, OBX-011, OBX-012, OBX-013, OBX-018
#[tokio::test(start_paused = true)]
async fn payloads_are_taken_as_they_are_and_due_times_kept() {
    let queue = queue();
    let ann = owner("ann");
    queue.enqueue(Event::text("empty", "").correlation_id("")).await.unwrap();
    queue.enqueue(Event::text("odd", "no json {")).await.unwrap();
    queue.enqueue(message("past").due(Timestamp::UNIX_EPOCH)).await.unwrap();
    queue.enqueue(message("later").due(secs(60))).await.unwrap();
    let now = queue.claim(&ann, LEASE, 9).await.unwrap();
    let topics: Vec<_> = now.iter().map(|one| one.topic()).collect();
    assert_eq!(topics, ["empty", "odd", "past"]);
    assert_eq!((now[0].payload(), now[0].correlation_id()), (&Payload::Json("".into()), None));
    assert_eq!(now[1].payload(), &Payload::Json("no json {".into()));
    pass(secs(59)).await;
    queue.ack(&ann, &ids(&now)).await.unwrap();
    assert!(queue.claim(&ann, LEASE, 9).await.unwrap().is_empty());
    pass(secs(1)).await;
    let due = queue.claim(&ann, LEASE, 9).await.unwrap();
    assert_eq!((due.len(), due[0].due_time()), (1, Some(queue.store().clock().now())));
}

/// OBX-027, OBX-030, OBX-031, OBX-032, OBX-038, OBX-039, OBX-044, OBX-045
#[tokio::test(start_paused = true)]
async fn only_what_an_owner_holds_changes_and_the_rest_is_counted() {
    let queue = queue();
    let (ann, bob) = (owner("ann"), owner("bob"));
    for topic in ["a", "b", "c", "d"] {
        queue.enqueue(message(topic)).await.unwrap();
    }
    let mine = ids(&queue.claim(&ann, LEASE, 3).await.unwrap());
    let theirs = ids(&queue.claim(&bob, LEASE, 3).await.unwrap());
    let unknown = queue.find(&["no-such-message@7".to_owned()]).await.unwrap();
    let mixed = [&mine[..1], &theirs, &unknown].concat();
    assert_eq!(queue.ack(&ann, &mixed).await.unwrap(), Settlement { changed: 1, ignored: 2 });
    assert_eq!(queue.abandon(&ann, &theirs, None).await.unwrap(), Settlement { changed: 0, ignored: 1 });
    assert_eq!(queue.fail(&ann, &theirs, "no").await.unwrap(), Settlement { changed: 0, ignored: 1 });
    assert_eq!(queue.extend(&ann, &theirs, LEASE).await.unwrap(), Settlement { changed: 0, ignored: 1 });
    assert_eq!(queue.ack(&ann, &mine[..1]).await.unwrap(), Settlement { changed: 0, ignored: 1 }, "twice");
    assert_eq!(queue.ack(&ann, &[]).await.unwrap(), Settlement { changed: 0, ignored: 0 });
    assert_eq!(queue.fail(&ann, &mine[1..2], "never").await.unwrap(), Settlement { changed: 1, ignored: 0 });
    assert_eq!(record(&queue, mine[1].message()).await.status, Status::Dead);
}

/// OBX-036, OBX-037, OBX-040, OBX-041, OBX-061, OBX-062, OBX-063
#[tokio::test(start_paused = true)]
async fn abandoned_messages_wait_longer_each_time() {
    let queue = queue();
    let ann = owner("ann");
    let id = queue.enqueue(message("a")).await.unwrap().message;
    for wait in [2, 4, 8, 16, 32, 60, 60] {
        let claimed = queue.claim(&ann, LEASE, 9).await.unwrap();
        queue.abandon(&ann, &ids(&claimed), Some("busy")).await.unwrap();
        let record = record(&queue, &id).await;
        assert_eq!(record.available_at, queue.store().clock().now() + secs(wait));
        assert_eq!(record.last_error.as_deref(), Some("busy"));
        pass(secs(wait)).await;
    }
    let claimed = queue.claim(&ann, LEASE, 9).await.unwrap();
    assert_eq!((claimed[0].retry_count(), claimed[0].last_error()), (7, Some("busy")));
    let own = queue.clone().retry(Fixed(secs(3)));
    own.abandon(&ann, &ids(&claimed), None).await.unwrap();
    assert_eq!(record(&queue, &id).await.available_at, queue.store().clock().now() + secs(3));
}

/// OBX-019, OBX-049, OBX-050, OBX-051
#[tokio::test(start_paused = true)]
async fn claims_that_run_out_are_anybodys() {
    let queue = queue();
    let (ann, bob) = (owner("ann"), owner("bob"));
    queue.enqueue(message("a")).await.unwrap();
    let first = ids(&queue.claim(&ann, LEASE, 9).await.unwrap());
    pass(secs(20)).await;
    assert_eq!(queue.extend(&ann, &first, LEASE).await.unwrap().changed, 1);
    pass(secs(29)).await;
    assert!(queue.claim(&bob, LEASE, 9).await.unwrap().is_empty());
    assert_eq!(queue.reap(9).await.unwrap(), 0);
    pass(secs(1)).await;
    assert_eq!(queue.reap(9).await.unwrap(), 1);
    let second = queue.claim(&bob, LEASE, 9).await.unwrap();
    assert_eq!(second.len(), 1);
    assert_eq!(queue.ack(&ann, &first).await.unwrap().ignored, 1, "the first owner is too late");
    assert_eq!(queue.ack(&bob, &ids(&second)).await.unwrap().changed, 1);
}

/// PBX-019
#[tokio::test(start_paused = true)]
async fn expired_messages_end_dead_and_are_not_answered() {
    let queue = queue();
    let id = queue.enqueue(message("a").expires(secs(5))).await.unwrap().message;
    queue.enqueue(message("b").expires(secs(50))).await.unwrap();
    pass(secs(5)).await;
    let claimed = queue.claim(&owner("ann"), LEASE, 9).await.unwrap();
    assert_eq!((claimed.len(), claimed[0].topic()), (1, "b"));
    let record = record(&queue, &id).await;
    assert_eq!(
        (record.status, record.last_error.as_deref()),
        (Status::Dead, Some("expired before it was delivered"))
    );
}

/// PBX-025: the effect and the done mark commit together.
#[tokio::test(start_paused = true)]
async fn a_message_is_completed_in_the_callers_transaction() {
    let queue = queue();
    let store: &MemoryStore = queue.store();
    queue.enqueue(message("a")).await.unwrap();
    let claimed = queue.claim(&owner("ann"), LEASE, 9).await.unwrap().remove(0);
    let mut tx = store.begin().await.unwrap();
    queue.complete_on(&mut tx, &claimed).await.unwrap();
    store.rollback(tx).await.unwrap();
    assert_eq!(record(&queue, claimed.message_id()).await.status, Status::New);
    let mut tx = store.begin().await.unwrap();
    queue.complete_on(&mut tx, &claimed).await.unwrap();
    queue.enqueue_on(&mut tx, [message("effect")]).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!(record(&queue, claimed.message_id()).await.status, Status::Done);
    let mut tx = store.begin().await.unwrap();
    let late = queue.complete_on(&mut tx, &claimed).await;
    assert!(matches!(late, Err(QueueError::NotHeld(_))), "{late:?}");
}

/// OBX-202
#[tokio::test(start_paused = true)]
async fn a_message_tells_all_its_fields() {
    let queue = queue();
    let enqueued = queue.enqueue(message("t").correlation_id("c").due(Duration::ZERO)).await.unwrap();
    let one = queue.claim(&owner("ann"), LEASE, 1).await.unwrap().remove(0);
    assert_eq!(one.id().to_string(), format!("{}@1", enqueued.message));
    assert_eq!((one.message_id(), one.id().token()), (&enqueued.message, 1));
    assert_eq!((one.topic(), one.payload()), ("t", &Payload::Json(r#"{"n":1}"#.into())));
    assert_eq!((one.created_at(), one.due_time()), (queue.store().clock().now(), Some(one.created_at())));
    assert_eq!((one.is_processed(), one.processed_at(), one.processed_by()), (false, None, None));
    assert_eq!((one.retry_count(), one.last_error(), one.correlation_id()), (0, None, Some("c")));
}

#[tokio::test(start_paused = true)]
async fn work_items_are_found_by_their_text() {
    let queue = queue();
    let ann = owner("ann");
    queue.enqueue(message("a")).await.unwrap();
    let claimed = queue.claim(&ann, LEASE, 9).await.unwrap();
    let found = queue.find(&[claimed[0].id().to_string()]).await.unwrap();
    assert_eq!(found, ids(&claimed));
    assert_eq!(queue.ack(&ann, &found).await.unwrap().changed, 1);
    for bad in ["", "x", "x@", "@1", "x@y", "x@1.5"] {
        assert!(WorkItemId::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(WorkItemId::parse("a@b@3").unwrap(), (MessageId::parse("a@b").unwrap(), 3));
}

#[tokio::test(start_paused = true)]
async fn done_messages_can_be_deleted_at_once() {
    let queue = queue().on_done(OnDone::Delete);
    let ann = owner("ann");
    queue.enqueue(message("a")).await.unwrap();
    let claimed = queue.claim(&ann, LEASE, 9).await.unwrap();
    queue.ack(&ann, &ids(&claimed)).await.unwrap();
    let stats = queue.store().admin().stats().await.unwrap();
    assert_eq!(stats.by_status(), [0, 0, 0, 0]);
}

/// OBX-063: a worker on a queue does as the queue is set to.
#[tokio::test(start_paused = true)]
async fn a_worker_takes_the_settings_of_its_queue() {
    let queue = queue().on_done(OnDone::Delete).retry(Fixed(secs(7)));
    let seen = Seen::default();
    let noted = seen.clone();
    let fails_first = move |message: Message| {
        let failed = message.retry_count() == 0;
        noted.add(message);
        std::future::ready(if failed { Err("no".into()) } else { Ok(()) })
    };
    let worker = queue.worker().handler("a", fails_first).start().unwrap();
    let id = queue.enqueue(message("a")).await.unwrap().message;
    let retry = until(&queue, &id, Status::Retry).await;
    assert_eq!(retry.available_at.duration_since(retry.created_at).as_secs(), 7);
    seen.until(2).await;
    worker.close().await;
    let stats = queue.store().admin().stats().await.unwrap();
    assert_eq!(stats.by_status(), [0, 0, 0, 0], "what is done is deleted");
}
