//! A queue on a memory store, and handlers that tell what they got.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::memory::MemoryStore;
use pillarbox::model::{EventBuilder, EventId, OwnerId, Record, Status};
use pillarbox::port::Store;
use pillarbox::queue::{Message, MessageId, WorkItemId};
use pillarbox::{Event, Queue};
use tokio::sync::watch;
use tokio::time::timeout;

/// Far more virtual time than anything here needs.
pub(crate) const NEVER: Duration = Duration::from_secs(48 * 3_600);

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn owner(name: &str) -> OwnerId {
    OwnerId::new(name).unwrap()
}

pub(crate) fn message(topic: &str) -> EventBuilder {
    Event::text(topic, r#"{"n":1}"#)
}

pub(crate) fn queue() -> Queue<MemoryStore> {
    Queue::new(MemoryStore::new())
}

pub(crate) async fn record<S: Store>(queue: &Queue<S>, id: &MessageId) -> Record {
    let id = EventId::new(id.as_str()).unwrap();
    queue.store().admin().show(id).await.unwrap().expect("the message is there").record
}

/// Waits until a message stands so; virtual time passes meanwhile.
pub(crate) async fn until<S: Store>(queue: &Queue<S>, id: &MessageId, status: Status) -> Record {
    let waiting = async {
        loop {
            let record = record(queue, id).await;
            if record.status == status {
                return record;
            }
            pass(Duration::from_millis(10)).await;
        }
    };
    timeout(NEVER, waiting).await.unwrap_or_else(|_| panic!("{id} is never {status}"))
}

/// Lets virtual time pass, and everything that is due in it happen.
pub(crate) async fn pass(time: Duration) {
    timeout(time, std::future::pending::<()>()).await.unwrap_err();
}

pub(crate) fn ids(messages: &[Message]) -> Vec<WorkItemId> {
    messages.iter().map(|message| message.id().clone()).collect()
}

/// What handlers got, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    messages: Arc<Mutex<Vec<Message>>>,
    count: Arc<watch::Sender<usize>>,
}

impl Seen {
    pub(crate) fn add(&self, message: Message) {
        self.messages.lock().unwrap().push(message);
        self.count.send_modify(|count| *count += 1);
    }

    pub(crate) fn all(&self) -> Vec<Message> {
        self.messages.lock().unwrap().clone()
    }

    pub(crate) fn topics(&self) -> Vec<String> {
        self.all().iter().map(|message| message.topic().to_owned()).collect()
    }

    pub(crate) async fn until(&self, count: usize) {
        let mut seen = self.count.subscribe();
        let all = seen.wait_for(|seen| *seen >= count);
        timeout(NEVER, all).await.expect("so many come").unwrap();
    }
}
