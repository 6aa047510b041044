//! A sink that does as it is told and remembers, and an engine on a memory store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::Event;
use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::memory::{MemoryOptions, MemoryStore};
use pillarbox::model::{EventId, NewRow, Placement, Record, Status};
use pillarbox::port::{AnyTable, Delivery, Handed, NoMetrics, Sink, Store, Table, Verdict, Write};
use tokio::sync::watch;
use tokio::time::timeout;

/// Far more virtual time than anything here needs.
const NEVER: Duration = Duration::from_secs(48 * 3_600);

type Script = Box<dyn FnMut(&Delivery) -> Verdict + Send>;

/// A sink that answers by a script and notes what it was sent.
pub(crate) struct Scripted {
    script: Mutex<Script>,
    sent: watch::Sender<Vec<(String, u32)>>,
}

impl Scripted {
    pub(crate) fn new(script: impl FnMut(&Delivery) -> Verdict + Send + 'static) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(Box::new(script)), sent: watch::Sender::default() })
    }

    /// Ids and attempts, in the order they were sent.
    pub(crate) fn sent(&self) -> Vec<(String, u32)> {
        self.sent.borrow().clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.sent().into_iter().map(|(id, _)| id).collect()
    }

    pub(crate) async fn until_sent(&self, count: usize) {
        let mut sent = self.sent.subscribe();
        let all = sent.wait_for(|sent| sent.len() >= count);
        timeout(NEVER, all).await.expect("the events are sent").expect("the sink is there");
    }
}

impl Sink for Scripted {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let mut verdicts = Vec::new();
            for delivery in batch {
                let verdict = (self.script.lock().unwrap())(delivery);
                self.sent.send_modify(|sent| sent.push((delivery.event.id().to_string(), delivery.attempt)));
                verdicts.push(verdict);
            }
            verdicts
        })
    }
}

pub(crate) async fn engine(
    store: Arc<dyn Store>,
    sink: Arc<dyn Sink>,
    settings: EngineSettings,
    seed: u64,
) -> Engine {
    engine_on(store.into(), sink, settings, seed).await
}

pub(crate) async fn engine_on(
    table: AnyTable,
    sink: Arc<dyn Sink>,
    settings: EngineSettings,
    seed: u64,
) -> Engine {
    let parts = EngineParts { table, sink, metrics: Arc::new(NoMetrics), settings, seed };
    Engine::start(parts).await.unwrap()
}

/// A memory store whose rows a leader takes.
pub(crate) fn led() -> MemoryStore {
    MemoryStore::with(MemoryOptions { has_leader: true, ..MemoryOptions::default() })
}

/// The store as a table of its kind: one with one slot has a leader.
pub(crate) fn table(store: &MemoryStore) -> AnyTable {
    let store = Arc::new(store.clone());
    if store.facts().slots == 1 { AnyTable::Items(store) } else { AnyTable::Native(store) }
}

/// Writes an event of a group, or of none.
pub(crate) async fn write(store: &MemoryStore, id: &str, group: Option<&str>) {
    let builder = Event::text("t", "{}").id(id);
    let builder = match group {
        Some(group) => builder.group(group),
        None => builder,
    };
    let rows = vec![NewRow { event: builder.build().unwrap(), placement: Placement::Slot }];
    store.write(Write { rows, now: None }).await.unwrap();
}

pub(crate) async fn record(store: &MemoryStore, id: &str) -> Record {
    store.admin().show(EventId::new(id).unwrap()).await.unwrap().unwrap().record
}

/// Waits until the event has this status; virtual time passes meanwhile.
pub(crate) async fn until(store: &MemoryStore, id: &str, status: Status) -> Record {
    let began = tokio::time::Instant::now();
    loop {
        let record = record(store, id).await;
        if record.status == status {
            return record;
        }
        assert!(began.elapsed() < NEVER, "{id} stays {}", record.status);
        pass(Duration::from_millis(10)).await;
    }
}

/// Lets virtual time pass, and everything that is due in it happen.
pub(crate) async fn pass(time: Duration) {
    timeout(time, std::future::pending::<()>()).await.unwrap_err();
}
