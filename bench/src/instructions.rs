//! Paths of the engine whose instructions are counted: memory store, one thread, and a clock that stands still.
//!
//! The count depends on no timer and on nothing else that runs on the machine. What differs from run to run is the
//! order within hash tables, which is below a hundredth.

use std::sync::Arc;

use pillarbox::memory::MemoryStore;
use pillarbox::port::OnDone;
use pillarbox::{Outbox, Queue};

use crate::database::{Arrivals, Kind, MEASURED, add_by_store};
use crate::engine::{self, PerTransaction};

const GROUPS: usize = 100;

/// A path of an event through the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Written one by one, each in its own transaction, and delivered from memory.
    Single,
    /// The same, a hundred in each transaction.
    Hundred,
    /// Read from the store, in the order of its group.
    Ordered,
    /// Claimed from the queue and acknowledged.
    Queue,
}

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 4] = [Self::Single, Self::Hundred, Self::Ordered, Self::Queue];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Hundred => "hundred",
            Self::Ordered => "ordered",
            Self::Queue => "queue",
        }
    }
}

/// Writes the events, delivers them and settles them.
pub fn run(scenario: Scenario, events: usize) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        match scenario {
            Scenario::Single => engine::drive(events, PerTransaction(1)).await.map(drop),
            Scenario::Hundred => engine::drive(events, PerTransaction(100)).await.map(drop),
            Scenario::Ordered => ordered(events).await,
            Scenario::Queue => queue(events).await,
        }
    })
}

async fn ordered(events: usize) -> anyhow::Result<()> {
    let store = MemoryStore::new();
    add_by_store(&store, events, Kind::Groups(GROUPS)).await?;
    let arrivals = Arc::new(Arrivals::default());
    arrivals.expect(events);
    let outbox = Outbox::ordered(store).listener(MEASURED, arrivals.listener());
    let outbox = outbox.on_done(OnDone::Delete).no_purge().start().await?;
    arrivals.all().await?;
    outbox.close().await;
    Ok(())
}

async fn queue(messages: usize) -> anyhow::Result<()> {
    let store = MemoryStore::new();
    add_by_store(&store, messages, Kind::Queue).await?;
    let arrivals = Arc::new(Arrivals::default());
    arrivals.expect(messages);
    let worker = Queue::new(store).worker().handler(MEASURED, arrivals.handler());
    let worker = worker.on_done(OnDone::Delete).no_purge().start()?;
    arrivals.all().await?;
    worker.close().await;
    Ok(())
}
