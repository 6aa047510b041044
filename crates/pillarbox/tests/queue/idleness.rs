//! A worker's handler for every topic, and how it tells that it has nothing to do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::memory::MemoryStore;
use pillarbox::model::{Event, OwnerId, Status};
use pillarbox::port::{List, Table};
use pillarbox::queue::{Message, Queue, Selection, SelectionState, Settlement};
use pillarbox::{Failure, events::StartError};
use tokio::sync::Semaphore;
use tokio::time::timeout;

type Taken = Arc<Mutex<Vec<(&'static str, String)>>>;

/// A handler that notes what it took.
fn noting(
    name: &'static str,
    taken: &Taken,
) -> impl Fn(Message) -> std::future::Ready<Result<(), Failure>> + Send + Sync + 'static + use<> {
    let taken = Arc::clone(taken);
    move |message| {
        taken.lock().expect("no handler panics").push((name, message.topic().to_owned()));
        std::future::ready(Ok(()))
    }
}

async fn statuses(store: &MemoryStore) -> Vec<Status> {
    let list = List { limit: 100, ..List::default() };
    store.admin().list(list).await.expect("the store answers").iter().map(|record| record.status).collect()
}

/// OBX-054, OBX-055
#[tokio::test(start_paused = true)]
async fn a_topic_without_a_handler_goes_to_the_one_for_all() {
    let store = MemoryStore::new();
    let queue = Queue::new(store.clone());
    for topic in ["mail", "fax", "telex"] {
        queue.enqueue(Event::text(topic, "{}")).await.unwrap();
    }
    let taken = Taken::default();
    let worker = queue
        .worker()
        .handler("mail", noting("mail", &taken))
        .handler_for_all(noting("all", &taken))
        .start()
        .unwrap();
    worker.wait_drained().await;
    worker.close().await;
    let mut taken = taken.lock().unwrap().clone();
    taken.sort_unstable();
    let expected = [("all", "fax"), ("all", "telex"), ("mail", "mail")];
    assert_eq!(taken, expected.map(|(handler, topic)| (handler, topic.to_owned())));
    assert_eq!(statuses(&store).await, [Status::Done; 3]);
}

/// OBX-054
#[tokio::test(start_paused = true)]
async fn the_handler_for_all_is_enough_to_start_and_none_is_not() {
    let queue = Queue::new(MemoryStore::new());
    assert!(matches!(queue.worker().start(), Err(StartError::Settings(_))));
    let worker = queue.worker().handler_for_all(noting("all", &Taken::default())).start().unwrap();
    worker.close().await;
}

/// OBX-122: a worker is empty only after a look that began with nothing in hand.
#[tokio::test(start_paused = true)]
async fn a_message_that_a_handler_enqueues_is_not_left_behind() {
    let store = MemoryStore::new();
    let queue = Queue::new(store.clone());
    queue.enqueue(Event::text("first", "{}")).await.unwrap();
    let (gate, again) = (Arc::new(Semaphore::new(0)), queue.clone());
    let open = Arc::clone(&gate);
    let worker = queue
        .worker()
        .handler("first", move |_: Message| {
            let (gate, queue) = (Arc::clone(&gate), again.clone());
            async move {
                gate.acquire().await?.forget();
                queue.enqueue(Event::text("second", "{}")).await?;
                Ok::<(), Failure>(())
            }
        })
        .handler("second", |_: Message| async { Ok::<(), Failure>(()) })
        .start()
        .unwrap();
    // Several looks find nothing meanwhile.
    let early = timeout(Duration::from_secs(5), worker.wait_drained()).await;
    assert!(early.is_err(), "the first one is in hand");
    open.add_permits(1);
    worker.wait_drained().await;
    worker.close().await;
    assert_eq!(statuses(&store).await, [Status::Done; 2]);
}

/// Looks until something was taken.
struct OneBatch;

impl Selection for OneBatch {
    fn select(&mut self, state: SelectionState<'_>) -> Option<usize> {
        if state.last.is_some_and(|(_, taken)| taken > 0) { None } else { Some(0) }
    }
}

/// OBX-067: a selection of one's own ends the looks, and quiet says when its messages have ended.
#[tokio::test(start_paused = true)]
async fn one_batch_is_taken_and_ended_and_the_rest_is_left() {
    let store = MemoryStore::new();
    let queue = Queue::new(store.clone());
    queue.enqueue_all((0..5).map(|_| Event::text("t", "{}"))).await.unwrap();
    let taken = Taken::default();
    let worker =
        queue.worker().batch(2).selection(OneBatch).handler("t", noting("t", &taken)).start().unwrap();
    worker.wait_idle().await;
    worker.close().await;
    assert_eq!(taken.lock().unwrap().len(), 2);
    let done = statuses(&store).await.into_iter().filter(|status| *status == Status::Done).count();
    assert_eq!(done, 2);
}

/// OBX-031, OBX-100: one call with a message twice, by an old claim and by the one that is held, ends it once.
#[tokio::test(start_paused = true)]
async fn a_message_named_twice_is_settled_by_its_newest_claim() {
    let (queue, owner) = (Queue::new(MemoryStore::new()), OwnerId::random());
    let lease = Duration::from_secs(1);
    queue.enqueue(Event::text("t", "{}")).await.unwrap();
    let old = queue.claim(&owner, lease, 1).await.unwrap().remove(0).id().clone();
    tokio::time::advance(lease * 2).await;
    let held = queue.claim(&owner, lease, 1).await.unwrap().remove(0).id().clone();
    let settlement = queue.ack(&owner, &[held.clone(), old, held]).await.unwrap();
    assert_eq!(settlement, Settlement { changed: 1, ignored: 2 });
}
