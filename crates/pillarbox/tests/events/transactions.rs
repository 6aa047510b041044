//! Transactions: what is written stands and falls with them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::events::Transaction;
use pillarbox::model::{EventId, Status};
use pillarbox::port::{Begin, CommitError, Table};
use pillarbox::queue::Message;
use pillarbox::{Event, Outbox, Queue, Writer};
use tokio::sync::mpsc;
use tokio::time::{Instant, advance};

use crate::kit::{Answered, Seen, Watched, event};

type Ends = Arc<Mutex<Vec<&'static str>>>;

fn note_ends(tx: &mut Transaction<Watched>, ends: &Ends) {
    let (commits, rollbacks) = (Arc::clone(ends), Arc::clone(ends));
    tx.after_commit(move || commits.lock().unwrap().push("commit"));
    tx.after_rollback(move || rollbacks.lock().unwrap().push("rollback"));
}

async fn started(store: &Watched, seen: &Seen) -> Outbox<Watched> {
    Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap()
}

/// EVT-021, EVT-022, EVT-180
#[tokio::test(start_paused = true)]
async fn rolled_back_means_no_row_and_the_rollback_callback() {
    let (store, seen, ends) = (Watched::new(), Seen::new(), Ends::default());
    let outbox = started(&store, &seen).await;
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    tx.flush().await.unwrap();
    tx.write(event("b")).unwrap();
    note_ends(&mut tx, &ends);
    tx.rollback().await.unwrap();
    outbox.close().await;
    assert_eq!((store.rows().await, seen.count()), (0, 0));
    assert_eq!(*ends.lock().unwrap(), ["rollback"]);
}

/// EVT-022, EVT-180
#[tokio::test(start_paused = true)]
async fn a_rollback_that_the_store_fails_runs_the_callback_too() {
    let (store, seen, ends) = (Watched::new(), Seen::new(), Ends::default());
    let outbox = started(&store, &seen).await;
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    note_ends(&mut tx, &ends);
    store.fail("rollback");
    tx.rollback().await.unwrap_err();
    assert_eq!(*ends.lock().unwrap(), ["rollback"]);
    outbox.close().await;
}

/// EVT-021, EVT-022, EVT-181
#[tokio::test(start_paused = true)]
async fn committed_means_delivered_hot_and_done() {
    let (store, seen, ends) = (Watched::new(), Seen::new(), Ends::default());
    let outbox = started(&store, &seen).await;
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    note_ends(&mut tx, &ends);
    assert_eq!(store.rows().await, 0, "nothing before the commit");
    tx.commit().await.unwrap();
    assert_eq!(*ends.lock().unwrap(), ["commit"]);
    let done = store.until("a", Status::Done).await;
    assert!(done.slot.is_lane() && done.done_at.is_some());
    outbox.close().await;
    assert_eq!(seen.ids(), ["a"]);
}

/// EVT-022, PBX-024
#[tokio::test(start_paused = true)]
async fn a_transaction_dropped_unfinished_is_rolled_back() {
    let (store, seen, ends) = (Watched::new(), Seen::new(), Ends::default());
    let outbox = started(&store, &seen).await;
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    tx.flush().await.unwrap();
    note_ends(&mut tx, &ends);
    drop(tx);
    assert_eq!(*ends.lock().unwrap(), ["rollback"]);
    outbox.close().await;
    assert_eq!((store.rows().await, seen.count()), (0, 0));
}

/// EVT-022, PBX-024
#[tokio::test(start_paused = true)]
async fn a_refused_commit_leaves_nothing_and_counts_as_a_rollback() {
    for refuse in ["insert", "commit"] {
        let (store, seen, ends) = (Watched::new(), Seen::new(), Ends::default());
        let outbox = started(&store, &seen).await;
        let mut tx = outbox.begin().await.unwrap();
        tx.write(event("a")).unwrap();
        note_ends(&mut tx, &ends);
        store.fail(refuse);
        assert!(matches!(tx.commit().await, Err(CommitError::Refused(_))), "{refuse}");
        store.heal();
        outbox.close().await;
        assert_eq!(*ends.lock().unwrap(), ["rollback"], "{refuse}");
        assert_eq!((store.rows().await, seen.count()), (0, 0), "{refuse}");
    }
}

/// PBX-024, EVT-022
#[tokio::test(start_paused = true)]
async fn of_a_commit_without_an_answer_the_reader_decides() {
    for (answered, delivered) in [(Answered::LostAfter, true), (Answered::LostBefore, false)] {
        let (store, seen, ends) = (Watched::new(), Seen::new(), Ends::default());
        let outbox = started(&store, &seen).await;
        store.answer(answered);
        let mut tx = outbox.begin().await.unwrap();
        tx.write(event("a")).unwrap();
        note_ends(&mut tx, &ends);
        assert!(matches!(tx.commit().await, Err(CommitError::Unknown(_))));
        store.answer(Answered::Truly);
        assert!(ends.lock().unwrap().is_empty(), "nobody knows how it ended");
        if delivered {
            store.until("a", Status::Done).await;
        } else {
            let mut tx = outbox.begin().await.unwrap();
            tx.write(event("later")).unwrap();
            tx.commit().await.unwrap();
            store.until("later", Status::Done).await;
        }
        outbox.close().await;
        assert_eq!(seen.ids(), [if delivered { "a" } else { "later" }]);
    }
}

/// EVT-030
#[tokio::test(start_paused = true)]
async fn one_many_and_pairs_are_written_with_one_statement_and_ids_in_order() {
    let store = Watched::new();
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    assert_eq!(tx.write(event("one")).unwrap().unwrap().as_str(), "one");
    let pair = tx.write(Event::text("type", "{\"json\":true}")).unwrap().unwrap();
    let many = tx.write(["x", "c", "m"].map(event)).unwrap();
    assert_eq!(many.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["x", "c", "m"]);
    assert_eq!(tx.write(Vec::<Event>::new()).unwrap(), []);
    assert_eq!(tx.written().count(), 5);
    tx.commit().await.unwrap();
    assert_eq!((store.count("insert"), store.count("commit"), store.rows().await), (1, 1, 5));
    assert_eq!(store.record(pair.as_str()).await.unwrap().event.unwrap().event_type(), "type");
    let seqs = [store.record("one").await, store.record("x").await, store.record("m").await];
    assert!(seqs.map(|record| record.unwrap().seq).is_sorted(), "rows stand in the order they were written");
}

/// EVT-023
#[tokio::test(start_paused = true)]
async fn the_writer_never_ends_what_the_caller_opened() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = started(&store, &seen).await;
    let mut tx = store.inner.begin().await.unwrap();
    let receipt = outbox.write_on(&mut tx, [event("a")]).await.unwrap();
    store.fail("insert");
    assert!(outbox.write_on(&mut tx, [event("b")]).await.is_err());
    drop(receipt);
    assert_eq!(store.rows().await, 0, "neither a write, nor a failed one, nor a receipt commits");
    assert!(!store.calls().iter().any(|call| ["commit", "rollback", "begin"].contains(call)));
    store.inner.commit(tx).await.unwrap();
    assert_eq!(store.rows().await, 1);
    outbox.close().await;
}

/// EVT-021, PBX-012, PBX-024
#[tokio::test(start_paused = true)]
async fn events_on_the_callers_own_transaction_are_delivered_once_whatever_becomes_of_the_receipt() {
    for fate in ["told", "forgotten", "rolled back"] {
        let (store, seen) = (Watched::new(), Seen::new());
        let outbox = started(&store, &seen).await;
        let mut tx = store.inner.begin().await.unwrap();
        let receipt = outbox.write_on(&mut tx, ["a", "b"].map(event)).await.unwrap();
        assert_eq!(receipt.ids().iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        if fate == "rolled back" {
            store.inner.rollback(tx).await.unwrap();
            receipt.rolled_back();
        } else {
            store.inner.commit(tx).await.unwrap();
            if fate == "told" {
                receipt.committed()
            } else {
                drop(receipt)
            }
            store.until("b", Status::Done).await;
        }
        outbox.close().await;
        let delivered: &[&str] = if fate == "rolled back" { &[] } else { &["a", "b"] };
        assert_eq!(seen.ids(), delivered, "{fate}");
    }
}

/// PBX-215
#[tokio::test(start_paused = true)]
async fn a_receipt_that_is_dropped_untold_wakes_the_reader_then_and_a_moment_later() {
    for dropped in ["after the commit", "before it"] {
        let (store, seen) = (Watched::silent(), Seen::new());
        let outbox = started(&store, &seen).await;
        store.until_that(async || (store.count("fetch") > 0).then_some(())).await;
        let mut tx = store.inner.begin().await.unwrap();
        let receipt = outbox.write_on(&mut tx, event("a")).await.unwrap();
        let began = Instant::now();
        if dropped == "before it" {
            drop(receipt);
            advance(Duration::from_millis(100)).await;
            store.inner.commit(tx).await.unwrap();
        } else {
            store.inner.commit(tx).await.unwrap();
            drop(receipt);
        }
        seen.wait(1).await;
        assert!(began.elapsed() < Duration::from_secs(1), "{dropped}: {:?}", began.elapsed());
        outbox.close().await;
    }
}

/// PBX-214
#[tokio::test(start_paused = true)]
async fn messages_enqueued_beside_events_are_handled_right_after_the_commit() {
    let (store, seen) = (Watched::silent(), Seen::new());
    let outbox = started(&store, &seen).await;
    let (handled, mut messages) = mpsc::channel(16);
    let handler = move |message: Message| {
        let sent = handled.try_send(message.message_id().to_string());
        async move {
            sent?;
            Ok(())
        }
    };
    let hour = Duration::from_secs(3_600);
    let worker = outbox.queue().worker().handler("mail", handler).poll_interval(hour).start().unwrap();
    worker.wait_drained().await;

    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    let mail = |id: &str| Event::text("mail", "{}").id(id);
    assert_eq!(tx.enqueue(mail("m")).unwrap().unwrap().as_str(), "m");
    assert_eq!(tx.enqueue([mail("n"), mail("taken back")]).unwrap().len(), 2);
    let taken_back = EventId::from_row("taken back");
    assert_eq!(tx.cancel(std::slice::from_ref(&taken_back), "me").await.unwrap(), [taken_back]);
    assert_eq!(store.rows().await, 0, "nothing is written before the commit");
    let began = Instant::now();
    tx.commit().await.unwrap();
    let mut found = [messages.recv().await.unwrap(), messages.recv().await.unwrap()];
    found.sort();
    assert_eq!(found, ["m", "n"]);
    seen.wait(1).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(store.count("insert"), 1, "events and messages go in by one statement");

    let mut tx = outbox.begin().await.unwrap();
    tx.enqueue(mail("flushed")).unwrap();
    tx.flush().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(messages.recv().await.unwrap(), "flushed");
    let mut tx = outbox.begin().await.unwrap();
    tx.enqueue(mail("rolled back")).unwrap();
    tx.rollback().await.unwrap();
    worker.wait_drained().await;
    assert_eq!(store.status("rolled back").await, None);
    worker.close().await;
    outbox.close().await;
}

/// PBX-214
#[tokio::test(start_paused = true)]
async fn a_transaction_of_the_queue_enqueues_and_settles_and_tells_its_workers() {
    let store = Watched::silent();
    let queue = Queue::new(store.clone());
    let (handled, mut messages) = mpsc::channel(16);
    let settles = queue.clone();
    let handler = move |message: Message| {
        let (settles, handled) = (settles.clone(), handled.clone());
        async move {
            let mut tx = settles.begin().await?;
            settles.complete_on(&mut tx, &message).await?;
            tx.commit().await?;
            handled.try_send(message.message_id().to_string())?;
            Ok(())
        }
    };
    let hour = Duration::from_secs(3_600);
    let worker = queue.worker().handler("t", handler).poll_interval(hour).start().unwrap();
    worker.wait_drained().await;
    let mut tx = queue.begin().await.unwrap();
    tx.enqueue(event("m")).unwrap();
    let began = Instant::now();
    tx.commit().await.unwrap();
    assert_eq!(messages.recv().await.unwrap(), "m");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(store.status("m").await, Some(Status::Done));
    worker.close().await;
}

/// PBX-024
#[tokio::test(start_paused = true)]
async fn a_receipt_that_lies_makes_no_phantom() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = started(&store, &seen).await;
    let mut tx = store.inner.begin().await.unwrap();
    let receipt = outbox.write_on(&mut tx, [event("a")]).await.unwrap();
    store.inner.rollback(tx).await.unwrap();
    receipt.committed();
    outbox.close().await;
    assert_eq!(seen.count(), 0);
}

/// EVT-021, PBX-012
#[tokio::test(start_paused = true)]
async fn flushed_events_have_rows_before_the_commit_and_are_delivered_once_after_it() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = started(&store, &seen).await;
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    tx.flush().await.unwrap();
    tx.flush().await.unwrap();
    assert_eq!(store.count("insert"), 1, "nothing is inserted twice");
    tx.write(event("b")).unwrap();
    tx.commit().await.unwrap();
    store.until("a", Status::Done).await;
    store.until("b", Status::Done).await;
    outbox.close().await;
    assert_eq!(seen.count(), 2);
}

/// EVT-022
#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_keeps_neither_the_commit_nor_the_others_back() {
    let (store, ends) = (Watched::new(), Ends::default());
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    tx.after_commit(|| panic!("in a callback"));
    note_ends(&mut tx, &ends);
    tx.commit().await.unwrap();
    assert_eq!(*ends.lock().unwrap(), ["commit"]);
    assert_eq!(store.facts().kind, "memory");
}
