//! Joins by the handle: what is refused says why, and a fan-out ends in one message.

use pillarbox::model::{FailedSteps, JoinId, JoinStatus};
use pillarbox::port::Begin;
use pillarbox::queue::{JoinBuilder, JoinError, Message, MessageId, Waiting};

use crate::kit::*;

/// OBX-090, OBX-093, OBX-096: from start to the message it ends in, with no join in any handler.
#[tokio::test(start_paused = true)]
async fn a_fan_out_ends_in_one_message() {
    let queue = queue();
    let joins = queue.joins();
    let join = joins.start(JoinBuilder::of(3).grouping_key("customer-7").metadata("{}")).await.unwrap();
    for step in ["customers", "orders", "products"] {
        let enqueued = queue.enqueue(message(step)).await.unwrap();
        assert!(joins.attach(&join, std::slice::from_ref(&enqueued.message)).await.unwrap());
        assert!(!joins.attach(&join, &[enqueued.message]).await.unwrap(), "once is enough");
    }
    joins.wait(&join, Waiting::new().on_complete("transform", r#"{"customer":7}"#)).await.unwrap();
    let seen = Seen::default();
    let handler = |seen: Seen| {
        move |message: Message| {
            let seen = seen.clone();
            async move {
                seen.add(message);
                Ok(())
            }
        }
    };
    let mut worker = queue.worker();
    for topic in ["customers", "orders", "products", "transform"] {
        worker = worker.handler(topic, handler(seen.clone()));
    }
    let worker = worker.start().unwrap();
    seen.until(4).await;
    worker.close().await;
    assert_eq!(seen.topics().last().map(String::as_str), Some("transform"));
    let shown = joins.show(&join, 9).await.unwrap();
    assert_eq!((shown.join.status, shown.join.completed, shown.members.len()), (JoinStatus::Completed, 3, 3));
    assert_eq!(joins.list(Some("customer-7"), None, 9).await.unwrap()[0].id, join);
}

/// PBX-214: the whole fan-out is there with the commit of a transaction of the queue, or nothing of it.
#[tokio::test(start_paused = true)]
async fn a_transaction_of_the_queue_enqueues_steps_and_attaches_them() {
    let queue = queue();
    let joins = queue.joins();
    let mut tx = queue.begin().await.unwrap();
    let join = joins.start_on(&mut tx, JoinBuilder::of(1)).await.unwrap();
    let step = tx.enqueue(message("step")).unwrap().unwrap();
    tx.flush().await.unwrap();
    assert!(joins.attach_on(&mut tx, &join, &[MessageId::from(step)]).await.unwrap());
    joins.wait_on(&mut tx, &join, Waiting::new().on_complete("next", "{}")).await.unwrap();
    tx.commit().await.unwrap();
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |message: Message| {
        noted.add(message);
        async { Ok(()) }
    };
    let worker = queue.worker().handler_for_all(handler).start().unwrap();
    seen.until(2).await;
    worker.close().await;
    assert_eq!(seen.topics(), ["step", "next"]);
}

/// OBX-092, OBX-093: a step that its handler completes in its own transaction wakes the worker for what follows it.
#[tokio::test(start_paused = true)]
async fn a_continuation_of_a_step_completed_by_its_handler_waits_for_no_poll() {
    let queue = queue();
    let joins = queue.joins();
    let join = joins.start(JoinBuilder::of(1)).await.unwrap();
    let step = queue.enqueue(message("step")).await.unwrap().message;
    joins.attach(&join, std::slice::from_ref(&step)).await.unwrap();
    joins.wait(&join, Waiting::new().on_complete("next", "{}")).await.unwrap();
    let (seen, inner) = (Seen::default(), queue.clone());
    let complete = move |message: Message| {
        let queue = inner.clone();
        async move {
            let mut tx = queue.store().begin().await?;
            queue.complete_on(&mut tx, &message).await?;
            queue.store().commit(tx).await?;
            Ok(())
        }
    };
    let began = tokio::time::Instant::now();
    let next = {
        let seen = seen.clone();
        move |message: Message| {
            seen.add(message);
            std::future::ready(Ok(()))
        }
    };
    let builder = queue.worker().poll_interval(secs(3_600)).handler("step", complete);
    let worker = builder.handler("next", next).start().unwrap();
    seen.until(1).await;
    assert!(began.elapsed() < secs(60), "{:?}", began.elapsed());
    worker.close().await;
}

/// OBX-083, OBX-085, OBX-087: what can't be done is told by type.
#[tokio::test(start_paused = true)]
async fn refusals_name_what_is_wrong() {
    let queue = queue();
    let joins = queue.joins();
    let unknown = JoinId::new("nowhere").unwrap();
    let id = queue.enqueue(message("a")).await.unwrap().message;
    let other = queue.enqueue(message("b")).await.unwrap().message;
    let join = joins.start(JoinBuilder::of(1)).await.unwrap();
    let ids = std::slice::from_ref(&id);
    assert!(
        matches!(joins.attach(&unknown, ids).await, Err(JoinError::NoSuchJoin(named)) if named == unknown)
    );
    assert!(matches!(joins.show(&unknown, 1).await, Err(JoinError::NoSuchJoin(_))));
    let nothing = MessageId::parse("nothing").unwrap();
    let missing = joins.attach(&join, std::slice::from_ref(&nothing)).await;
    assert!(matches!(missing, Err(JoinError::NoSuchMessage(named)) if named == nothing));
    assert!(matches!(joins.report_completed(&join, &id).await, Err(JoinError::NotAMember { .. })));
    joins.attach(&join, ids).await.unwrap();
    assert!(matches!(joins.attach(&join, &[other]).await, Err(JoinError::Full { expected: 1, .. })));
    joins.wait(&join, Waiting::new().on_complete("next", "{}")).await.unwrap();
    let twice = joins.wait(&join, Waiting::new().on_complete("next", "{}")).await;
    assert!(matches!(twice, Err(JoinError::AlreadyWaiting(_))));
    assert!(joins.report_failed(&join, &id).await.unwrap());
    assert!(!joins.report_failed(&join, &id).await.unwrap());
    assert!(matches!(
        joins.cancel(&join, "ann").await,
        Err(JoinError::Ended { status: JoinStatus::Failed, .. })
    ));
}

/// OBX-003, OBX-092: everything in one transaction of the caller.
#[tokio::test(start_paused = true)]
async fn a_join_is_made_in_the_callers_transaction() {
    let queue = queue();
    let joins = queue.joins();
    let mut tx = queue.store().begin().await.unwrap();
    let join = joins.start_on(&mut tx, JoinBuilder::of(1)).await.unwrap();
    let id = queue.enqueue_on(&mut tx, [message("a")]).await.unwrap().remove(0).message;
    joins.attach_on(&mut tx, &join, std::slice::from_ref(&id)).await.unwrap();
    let waiting = Waiting::new().on_complete("done", "").failed_steps(FailedSteps::Ignore);
    joins.wait_on(&mut tx, &join, waiting).await.unwrap();
    assert!(matches!(joins.show(&join, 1).await, Err(JoinError::NoSuchJoin(_))), "not committed");
    queue.store().commit(tx).await.unwrap();
    let claimed = queue.claim(&owner("ann"), LEASE, 9).await.unwrap();
    queue.fail(&owner("ann"), &ids(&claimed), "no").await.unwrap();
    let next = queue.claim(&owner("ann"), LEASE, 9).await.unwrap();
    assert_eq!(next[0].topic(), "done");
    assert_eq!(joins.show(&join, 1).await.unwrap().join.status, JoinStatus::Completed);
}
