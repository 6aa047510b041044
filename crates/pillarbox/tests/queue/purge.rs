//! Old messages: a worker deletes them beside its work.

use std::time::Duration;

use pillarbox::Queue;
use pillarbox::events::{Failure, PurgeSettings, StartError};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{EventId, Status};
use pillarbox::port::Table;
use pillarbox::queue::{JoinBuilder, Message, MessageId, WorkerBuilder};
use tokio::time::timeout;

use crate::kit::*;

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn worker(queue: &Queue<MemoryStore>) -> WorkerBuilder<MemoryStore> {
    let good = |_: Message| std::future::ready(Ok(()));
    let never = |_: Message| std::future::ready(Err::<(), _>(Failure::permanent("never")));
    queue.worker().handler("good", good).handler("bad", never)
}

/// A message that was done, one that is dead, and one that was a step of a join which has not ended.
async fn ended(queue: &Queue<MemoryStore>) -> [MessageId; 3] {
    let worker = worker(queue).no_purge().start().unwrap();
    let join = queue.joins().start(JoinBuilder::of(2)).await.unwrap();
    let step = queue.enqueue(message("good")).await.unwrap().message;
    queue.joins().attach(&join, std::slice::from_ref(&step)).await.unwrap();
    let done = queue.enqueue(message("good")).await.unwrap().message;
    let dead = queue.enqueue(message("bad")).await.unwrap().message;
    for (id, status) in [(&step, Status::Done), (&done, Status::Done), (&dead, Status::Dead)] {
        until(queue, id, status).await;
    }
    worker.close().await;
    [done, dead, step]
}

async fn is_there(queue: &Queue<MemoryStore>, id: &MessageId) -> bool {
    queue.store().admin().show(EventId::new(id.as_str()).unwrap()).await.unwrap().is_some()
}

async fn until_gone(queue: &Queue<MemoryStore>, id: &MessageId) {
    let waiting = async {
        while is_there(queue, id).await {
            pass(secs(1)).await;
        }
    };
    timeout(NEVER, waiting).await.expect("it is deleted");
}

/// PBX-073, PBX-105
#[tokio::test(start_paused = true)]
async fn a_worker_deletes_old_messages_but_no_step_of_an_open_join() {
    let queue = queue();
    let [done, dead, step] = ended(&queue).await;
    queue.store().clock().advance(DAY * 8);
    let worker = worker(&queue).start().unwrap();
    until_gone(&queue, &done).await;
    assert!(is_there(&queue, &dead).await, "dead ones are kept for 30 days");
    queue.store().clock().advance(DAY * 23);
    until_gone(&queue, &dead).await;
    worker.close().await;
    assert!(is_there(&queue, &step).await);
}

/// PBX-105
#[tokio::test(start_paused = true)]
async fn a_worker_keeps_what_it_is_told_to_keep() {
    let queue = queue();
    let [done, dead, _] = ended(&queue).await;
    queue.store().clock().advance(DAY * 365);
    let off = worker(&queue).no_purge().start().unwrap();
    pass(secs(2 * 3_600)).await;
    off.close().await;
    let settings = PurgeSettings { keep_done: Duration::MAX, ..PurgeSettings::default() };
    let worker = worker(&queue).purge(settings).start().unwrap();
    until_gone(&queue, &dead).await;
    worker.close().await;
    assert!(is_there(&queue, &done).await);
}

/// PBX-105: what was not handled is never purged.
#[test]
fn a_worker_does_not_purge_by_age_alone() {
    let settings = PurgeSettings { keep_any: Some(DAY), batch: 0, ..PurgeSettings::default() };
    let Err(StartError::Settings(problems)) = worker(&queue()).purge(settings).start() else {
        panic!("it does not start")
    };
    assert_eq!(problems.len(), 2, "{problems:?}");
}
