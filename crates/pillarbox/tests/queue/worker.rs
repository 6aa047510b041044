//! Workers: handlers by topic, retries, leases, deadlines, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox::events::Failure;
use pillarbox::memory::MemoryStore;
use pillarbox::model::{Event, OwnerId, Row, Status};
use pillarbox::port::{Begin, Change, Claim, ClaimFrom, Fence, OnDone, Outcome, Settle, Store, Table};
use pillarbox::queue::{Handler, Message, QueueError};
use pillarbox::rules::Fixed;
use pillarbox::{Queue, events::trace};
use tokio::sync::{Notify, Semaphore};

use crate::kit::*;

type Done = Result<(), Failure>;

/// A handler that notes what it gets and answers by its attempt.
fn noting(
    seen: &Seen,
    answer: impl Fn(&Message) -> Done + Send + Sync + 'static,
) -> impl Fn(Message) -> std::future::Ready<Done> + Send + Sync + 'static {
    let seen = seen.clone();
    move |message: Message| {
        let answer = answer(&message);
        seen.add(message);
        std::future::ready(answer)
    }
}

fn good(_: &Message) -> Done {
    Ok(())
}

/// OBX-054, OBX-057, OBX-060, OBX-029
#[tokio::test(start_paused = true)]
async fn each_message_goes_to_the_handler_of_its_topic() {
    let queue = queue();
    let (mails, orders) = (Seen::default(), Seen::default());
    let worker = queue
        .worker()
        .owner(owner("worker-1"))
        .handler("email.send", noting(&mails, good))
        .handler("order.created", noting(&orders, good))
        .start()
        .unwrap();
    let mail = queue.enqueue(message("email.send")).await.unwrap().message;
    queue.enqueue_all([message("order.created"), message("order.created")]).await.unwrap();
    mails.until(1).await;
    orders.until(2).await;
    let done = until(&queue, &mail, Status::Done).await;
    worker.close().await;
    assert_eq!((mails.topics(), orders.all().len()), (vec!["email.send".to_owned()], 2));
    assert_eq!((done.processed_by.as_deref(), worker.owner().as_str()), (Some("worker-1"), "worker-1"));
}

/// OBX-057
#[tokio::test(start_paused = true)]
async fn a_handler_learns_that_the_worker_shuts_down() {
    let queue = queue();
    let begun = Arc::new(Notify::new());
    let begins = Arc::clone(&begun);
    let stopping = move |message: Message| {
        let begins = Arc::clone(&begins);
        async move {
            begins.notify_one();
            message.cancellation().cancelled().await;
            Err::<(), _>(Failure::retry("told to stop"))
        }
    };
    let worker = queue.worker().handler("a", stopping).start().unwrap();
    let id = queue.enqueue(message("a")).await.unwrap().message;
    begun.notified().await;
    worker.close().await;
    assert_eq!(record(&queue, &id).await.last_error.as_deref(), Some("told to stop"));
}

/// OBX-057: what the handler has started outlives its future, and is told when that is dropped.
#[tokio::test(start_paused = true)]
async fn what_a_handler_has_started_learns_that_its_deadline_has_passed() {
    let queue = queue();
    let seen = Seen::default();
    let sees = seen.clone();
    let stuck = move |message: Message| {
        sees.add(message);
        std::future::pending::<Done>()
    };
    let worker = queue.worker().deadline(secs(1)).handler("a", stuck).start().unwrap();
    queue.enqueue(message("a")).await.unwrap();
    seen.until(1).await;
    let token = seen.all()[0].cancellation().clone();
    assert!(!token.is_cancelled());
    tokio::time::timeout(NEVER, token.cancelled()).await.unwrap();
    worker.close().await;
    let claimed = queue.claim(&owner("ann"), LEASE, 1).await.unwrap();
    assert!(claimed.iter().all(|message| !message.cancellation().is_cancelled()));
}

/// OBX-056, OBX-061, OBX-062, OBX-064, OBX-065
#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_until_the_attempts_are_used_up() {
    let queue = queue();
    let seen = Seen::default();
    let began = tokio::time::Instant::now();
    let worker = queue
        .worker()
        .max_attempts(3)
        .handler("a", noting(&seen, |_| Err(Failure::retry("mail server said no"))))
        .start()
        .unwrap();
    let id = queue.enqueue(message("a")).await.unwrap().message;
    let dead = until(&queue, &id, Status::Dead).await;
    worker.close().await;
    assert_eq!(dead.last_error.as_deref(), Some("mail server said no"));
    let attempts: Vec<_> = seen.all().iter().map(|one| (one.retry_count(), one.id().token())).collect();
    assert_eq!(attempts, [(0, 1), (1, 2), (2, 3)]);
    assert_eq!(seen.all()[1].last_error(), Some("mail server said no"));
    assert!(began.elapsed() >= secs(2 + 4), "it waited in between: {:?}", began.elapsed());
}

/// OBX-056, OBX-063: a handler may know better than the policy.
#[tokio::test(start_paused = true)]
async fn a_handler_says_never_or_when() {
    let queue = queue();
    let seen = Seen::default();
    let later = |message: &Message| match message.retry_count() {
        0 => Err(Failure::retry_after("busy", secs(90))),
        _ => Ok(()),
    };
    let worker = queue
        .worker()
        .retry(Fixed(secs(1)))
        .handler("never", noting(&seen, |_| Err(Failure::permanent("no such account"))))
        .handler("later", noting(&seen, later))
        .start()
        .unwrap();
    let never = queue.enqueue(message("never")).await.unwrap().message;
    let dead = until(&queue, &never, Status::Dead).await;
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (1, Some("no such account")));
    let later = queue.enqueue(message("later")).await.unwrap().message;
    let retry = until(&queue, &later, Status::Retry).await;
    assert_eq!(retry.available_at.duration_since(retry.created_at).as_secs(), 90);
    until(&queue, &later, Status::Done).await;
    worker.close().await;
}

/// OBX-056: a panic is the handler's failure, and the worker goes on.
#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure() {
    let queue = queue();
    let panicking = |message: Message| async move {
        assert!(message.retry_count() > 0, "the first time is bad");
        Ok::<_, Failure>(())
    };
    let worker = queue.worker().handler("a", panicking).start().unwrap();
    let id = queue.enqueue(message("a")).await.unwrap().message;
    let retry = until(&queue, &id, Status::Retry).await;
    assert!(retry.last_error.unwrap().contains("the first time is bad"));
    until(&queue, &id, Status::Done).await;
    worker.close().await;
}

/// OBX-055, PBX-071: it waits untouched, however long, for a worker that has the handler.
#[tokio::test(start_paused = true)]
async fn a_topic_without_a_handler_waits_for_a_worker_that_has_one() {
    let queue = queue();
    let other = queue.worker().handler("other", noting(&Seen::default(), good)).start().unwrap();
    let id = queue.enqueue(message("new.topic").due(secs(5))).await.unwrap().message;
    pass(secs(2 * 3_600)).await;
    let waiting = record(&queue, &id).await;
    assert_eq!((waiting.status, waiting.attempts, waiting.token.0), (Status::New, 0, 0));
    assert_eq!(waiting.last_error, None);
    let seen = Seen::default();
    let newer = queue.worker().handler("new.topic", noting(&seen, good)).start().unwrap();
    until(&queue, &id, Status::Done).await;
    assert_eq!(seen.all().len(), 1);
    newer.close().await;
    other.close().await;
}

/// OBX-019, OBX-059: while a handler runs its claim is renewed, so that nobody else gets the message.
#[tokio::test(start_paused = true)]
async fn a_long_handler_keeps_its_message() {
    let queue = queue();
    let (running, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = {
        let (running, go_on, calls) = (Arc::clone(&running), Arc::clone(&go_on), Arc::clone(&calls));
        move |_: Message| {
            let (running, go_on, calls) = (Arc::clone(&running), Arc::clone(&go_on), Arc::clone(&calls));
            async move {
                calls.fetch_add(1, Ordering::SeqCst);
                running.notify_one();
                go_on.notified().await;
                Ok::<_, Failure>(())
            }
        }
    };
    let worker = queue.worker().lease(secs(3)).deadline(secs(600)).handler("a", handler).start().unwrap();
    let id = queue.enqueue(message("a")).await.unwrap().message;
    running.notified().await;
    for _ in 0..30 {
        pass(secs(1)).await;
        assert!(queue.claim(&owner("thief"), LEASE, 9).await.unwrap().is_empty());
    }
    go_on.notify_one();
    until(&queue, &id, Status::Done).await;
    worker.close().await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// OBX-053: a worker that is gone leaves nothing behind for longer than its lease, and nobody has to reap.
#[tokio::test(start_paused = true)]
async fn a_dead_workers_messages_come_back_by_themselves() {
    let queue = queue();
    queue.enqueue(message("a")).await.unwrap();
    let lost = queue.claim(&owner("crashed"), LEASE, 9).await.unwrap();
    let seen = Seen::default();
    let worker = queue.worker().handler("a", noting(&seen, good)).start().unwrap();
    seen.until(1).await;
    until(&queue, lost[0].message_id(), Status::Done).await;
    worker.close().await;
    assert_eq!(seen.all()[0].id().token(), 2);
    assert_eq!(queue.ack(&owner("crashed"), &ids(&lost)).await.unwrap().ignored, 1);
}

async fn claim_all<S: Store>(queue: &Queue<S>, owner: &OwnerId) -> Vec<Row> {
    let claim = Claim {
        topics: Arc::default(),
        from: ClaimFrom::Queue,
        owner: owner.clone(),
        lease: LEASE,
        bytes: pillarbox::port::ByteLimits::NONE,
        rows: 9,
        skip_recent: Duration::ZERO,
        now: None,
    };
    queue.store().claim(claim).await.unwrap()
}

/// What a worker leaves behind whose process ends while it delivers: it has claimed, and perhaps begun.
async fn crash<S: Store>(queue: &Queue<S>, begun: bool) {
    let owner = owner("crashed");
    let rows = claim_all(queue, &owner).await;
    let attempt = |row: &Row| {
        let change = Change::Attempt { attempts: row.attempts + 1 };
        Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change }
    };
    if begun {
        let outcomes = rows.iter().take(1).map(attempt).collect();
        let settle =
            Settle { fence: Fence::Owner(owner), outcomes, on_done: OnDone::Keep, repeats: None, now: None };
        assert!(queue.store().settle(settle).await.unwrap().stale.is_empty());
    }
    pass(LEASE).await;
}

/// PBX-070, OBX-064: a message that ends the process each time dies unsent, and what was claimed beside it pays nothing.
#[tokio::test(start_paused = true)]
async fn a_message_that_ends_its_worker_dies_and_its_neighbours_pay_nothing() {
    let queue = queue();
    let sent = queue.enqueue_all([message("bad"), message("good"), message("good")]).await.unwrap();
    crash(&queue, false).await;
    queue.reap(1).await.unwrap();
    for _ in 0..3 {
        crash(&queue, true).await;
    }
    let (bad, good_ones) = (Seen::default(), Seen::default());
    let worker = queue
        .worker()
        .max_attempts(3)
        .handler("bad", noting(&bad, good))
        .handler("good", noting(&good_ones, good))
        .start()
        .unwrap();
    let dead = until(&queue, &sent[0].message, Status::Dead).await;
    assert_eq!(dead.last_error.as_deref(), Some("the process ended during its last attempt"));
    for one in &sent[1..] {
        until(&queue, &one.message, Status::Done).await;
    }
    worker.close().await;
    assert!(bad.all().is_empty(), "it was not sent again");
    let tries: Vec<_> = good_ones.all().iter().map(Message::retry_count).collect();
    assert_eq!(tries, [0, 0], "they were never tried before");
}

/// PBX-070: one at a time, its attempt in the store before it is handled.
#[tokio::test(start_paused = true)]
async fn suspects_go_one_at_a_time_with_their_attempt_written_first() {
    let queue = queue();
    queue.enqueue_all((0..4).map(|_| message("a"))).await.unwrap();
    crash(&queue, false).await;
    let (now, seen, store) = (Arc::new(AtomicUsize::new(0)), Seen::default(), Arc::clone(queue.store()));
    let handler = {
        let seen = seen.clone();
        move |message: Message| {
            let (now, seen, queue) = (Arc::clone(&now), seen.clone(), Queue::shared(Arc::clone(&store)));
            async move {
                assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "alone");
                let written = record(&queue, message.message_id()).await.attempts;
                assert_eq!((message.retry_count(), written), (0, 2), "its attempt is written");
                pass(secs(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                seen.add(message);
                Ok::<_, Failure>(())
            }
        }
    };
    let worker = queue.worker().workers(4).max_attempts(1).handler("a", handler).start().unwrap();
    seen.until(4).await;
    worker.close().await;
    let stats = queue.store().admin().stats().await.unwrap();
    assert_eq!(stats.by_status(), [0, 4, 0, 0]);
}

/// PBX-070, OBX-050: one that is given back before its turn came has lost nothing, and stays suspect.
#[tokio::test(start_paused = true)]
async fn a_suspect_that_is_given_back_has_lost_nothing() {
    let queue = queue();
    let sent = queue.enqueue_all([message("stuck"), message("a")]).await.unwrap();
    crash(&queue, false).await;
    let running = Arc::new(Notify::new());
    let began = Arc::clone(&running);
    let stuck = move |_: Message| {
        began.notify_one();
        std::future::pending::<Done>()
    };
    let builder = queue.worker().lease(secs(3_600)).handler("stuck", stuck);
    let worker = builder.handler("a", noting(&Seen::default(), good)).start().unwrap();
    running.notified().await;
    worker.close().await;
    assert_eq!(record(&queue, &sent[1].message).await.status, Status::New);
    let again = claim_all(&queue, &owner("next")).await;
    let told: Vec<_> = again.iter().map(|row| (row.lapsed, row.attempts)).collect();
    assert_eq!(told, [(false, 1), (true, 1)], "the worker outlived the first, the other was never handled");
}

/// OBX-057: a handler past its deadline is dropped where it waits, and has failed.
#[tokio::test(start_paused = true)]
async fn a_handler_has_a_deadline_below_its_lease() {
    let queue = queue();
    let stuck = |message: Message| async move {
        if message.retry_count() == 0 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Failure>(())
    };
    let worker = queue.worker().lease(secs(8)).handler("a", stuck).start().unwrap();
    let id = queue.enqueue(message("a")).await.unwrap().message;
    let retry = until(&queue, &id, Status::Retry).await;
    assert_eq!(retry.last_error.as_deref(), Some("not finished within its deadline of 7s"));
    until(&queue, &id, Status::Done).await;
    worker.close().await;
}

/// OBX-060, PBX-013: no more at once than workers, no more held than the batch.
#[tokio::test(start_paused = true)]
async fn handlers_run_at_once_up_to_a_bound() {
    let queue = queue();
    let (gate, peak, now) =
        (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Seen::default();
    let handler = {
        let (gate, peak, now, seen) = (Arc::clone(&gate), Arc::clone(&peak), Arc::clone(&now), seen.clone());
        move |message: Message| {
            let (gate, peak, now, seen) =
                (Arc::clone(&gate), Arc::clone(&peak), Arc::clone(&now), seen.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                seen.add(message);
                gate.acquire().await?.forget();
                now.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Failure>(())
            }
        }
    };
    queue.enqueue_all((0..20).map(|_| message("a"))).await.unwrap();
    let worker = queue.worker().workers(3).batch(5).handler("a", handler).start().unwrap();
    seen.until(3).await;
    pass(secs(5)).await;
    let claimed =
        queue.store().admin().list(pillarbox::port::List { limit: 99, ..Default::default() }).await.unwrap();
    assert_eq!(claimed.iter().filter(|record| record.locked_by.is_some()).count(), 5, "what fits is held");
    gate.add_permits(20);
    seen.until(20).await;
    worker.close().await;
    assert_eq!(peak.load(Ordering::SeqCst), 3);
    let stats = queue.store().admin().stats().await.unwrap();
    assert_eq!(stats.by_status(), [0, 20, 0, 0]);
}

/// OBX-050: closing finishes what runs and gives back what waits, attempts not counted.
#[tokio::test(start_paused = true)]
async fn closing_leaves_no_claim_behind() {
    let queue = queue();
    let (running, go_on) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let handler = {
        let (running, go_on) = (Arc::clone(&running), Arc::clone(&go_on));
        move |message: Message| {
            let (running, go_on) = (Arc::clone(&running), Arc::clone(&go_on));
            async move {
                running.notify_one();
                if message.topic() == "stuck" {
                    std::future::pending::<()>().await;
                }
                go_on.acquire().await?.forget();
                Ok::<_, Failure>(())
            }
        }
    };
    let ids = queue.enqueue_all([message("stuck"), message("waits"), message("waits")]).await.unwrap();
    let worker = queue
        .worker()
        .workers(1)
        .lease(secs(3_600))
        .handler("stuck", handler.clone())
        .handler("waits", handler)
        .start()
        .unwrap();
    running.notified().await;
    worker.close().await;
    worker.close().await;
    for one in ids {
        let record = record(&queue, &one.message).await;
        assert_eq!((record.status, record.attempts, record.locked_by), (Status::New, 0, None));
    }
}

/// PBX-025
#[tokio::test(start_paused = true)]
async fn a_handler_settles_in_its_own_transaction() {
    struct Pays(Queue<MemoryStore>);
    impl Handler for Pays {
        async fn handle(&self, message: Message) -> Done {
            let mut tx = self.0.store().begin().await?;
            self.0.enqueue_on(&mut tx, [Event::text("effect", "")]).await?;
            self.0.complete_on(&mut tx, &message).await?;
            self.0.store().commit(tx).await?;
            Ok(())
        }
    }
    let queue = queue();
    let effects = Seen::default();
    let worker = queue
        .worker()
        .handler("pay", Pays(queue.clone()))
        .handler("effect", noting(&effects, good))
        .start()
        .unwrap();
    let id = queue.enqueue(message("pay")).await.unwrap().message;
    until(&queue, &id, Status::Done).await;
    effects.until(1).await;
    pass(secs(120)).await;
    worker.close().await;
    assert_eq!(effects.all().len(), 1, "the effect happens once");
}

/// PBX-025, OBX-030: who lost its claim is told before it commits.
#[tokio::test(start_paused = true)]
async fn a_handler_that_lost_its_claim_can_not_settle() {
    let queue = queue();
    queue.enqueue(message("a")).await.unwrap();
    let mine = queue.claim(&owner("ann"), secs(1), 1).await.unwrap().remove(0);
    pass(secs(1)).await;
    assert_eq!(queue.claim(&owner("bob"), LEASE, 1).await.unwrap().len(), 1);
    let mut tx = queue.store().begin().await.unwrap();
    assert!(matches!(queue.complete_on(&mut tx, &mine).await, Err(QueueError::NotHeld(_))));
}

/// OBX-012: nothing is touched before its time, and all of it runs within a second after.
#[tokio::test(start_paused = true)]
async fn a_thousand_messages_due_later_run_when_they_are_due() {
    let queue = queue();
    let seen = Seen::default();
    let worker = queue.worker().workers(8).handler("a", noting(&seen, good)).start().unwrap();
    queue.enqueue_all((0..1_000).map(|_| message("a").due(secs(3_600)))).await.unwrap();
    pass(secs(3_599)).await;
    assert!(seen.all().is_empty());
    let list = pillarbox::port::List { limit: 2_000, ..Default::default() };
    let waiting = queue.store().admin().list(list).await.unwrap();
    assert!(waiting.iter().all(|record| record.attempts == 0 && record.token.0 == 0), "not even claimed");
    pass(secs(2)).await;
    assert_eq!(seen.all().len(), 1_000);
    worker.close().await;
}

/// OBX-122, OBX-201: an empty queue is looked at every half second at first, then less often.
#[tokio::test(start_paused = true)]
async fn a_message_of_another_process_is_found_by_polling() {
    let queue = queue();
    let seen = Seen::default();
    let worker = queue.worker().handler("a", noting(&seen, good)).start().unwrap();
    pass(secs(60)).await;
    let began = tokio::time::Instant::now();
    // Past the queue that the worker listens to, as another process does it.
    Queue::shared(Arc::clone(queue.store())).enqueue(message("a")).await.unwrap();
    seen.until(1).await;
    assert!(began.elapsed() <= Duration::from_millis(801), "{:?}", began.elapsed());
    worker.close().await;
}

/// PBX-020
#[tokio::test(start_paused = true)]
async fn a_handler_runs_in_the_trace_of_its_message() {
    let queue = queue();
    let context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let got = Arc::new(std::sync::Mutex::new(None));
    let noted = Arc::clone(&got);
    let handler = move |_: Message| {
        *noted.lock().unwrap() = trace::current().map(|context| context.traceparent().to_owned());
        std::future::ready(Ok::<_, Failure>(()))
    };
    let worker = queue.worker().handler("a", handler).start().unwrap();
    let context_of = pillarbox::model::TraceContext::new(context, None).unwrap();
    let id = trace::scope(context_of, queue.enqueue(message("a"))).await.unwrap().message;
    until(&queue, &id, Status::Done).await;
    worker.close().await;
    assert_eq!(got.lock().unwrap().as_deref(), Some(context));
}

/// PBX-062: a topic whose handler's dependency is down is not claimed, but for a probe now and then.
#[tokio::test(start_paused = true)]
async fn a_topic_whose_handler_is_down_leaves_room_for_others() {
    let queue = queue();
    let (down, up) = (Seen::default(), Seen::default());
    let back = Arc::new(AtomicUsize::new(0));
    let is_back = Arc::clone(&back);
    let failing = noting(&down, move |_| match is_back.load(Ordering::SeqCst) {
        0 => Err(Failure::unavailable("no connection", None)),
        _ => Ok(()),
    });
    let waiting: Vec<_> = (0..1_000).map(|_| message("down")).collect();
    let waiting = queue.enqueue_all(waiting).await.unwrap();
    let worker = queue.worker().handler("down", failing).handler("up", noting(&up, good)).start().unwrap();
    down.until(5).await;
    for _ in 0..20 {
        queue.enqueue_all((0..10).map(|_| message("up")).collect::<Vec<_>>()).await.unwrap();
    }
    up.until(200).await;
    pass(secs(600)).await;
    assert!(down.all().len() < 150, "{} calls of what is down", down.all().len());
    back.store(1, Ordering::SeqCst);
    for id in waiting {
        let record = until(&queue, &id.message, Status::Done).await;
        assert_eq!(record.attempts, 1, "an outage burns no attempt");
    }
    worker.close().await;
}
