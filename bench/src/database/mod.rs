//! A kind of database to measure on: our store beside the least that bare statements of the same driver do.

mod arrivals;
mod business;
pub(crate) mod drain;
pub(crate) mod end_to_end;
pub(crate) mod queue;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pillarbox::Event;
use pillarbox::model::{Lane, NewRow, Placement};
use pillarbox::port::{Store, Table, Write};

pub(crate) use arrivals::Arrivals;
pub(crate) use business::{Done, NOTE, Until, Work, drive};

/// The type of every event.
pub(crate) const MEASURED: &str = "Measured";
pub(crate) const ACCOUNTS: usize = 10_000;
/// Anything that takes longer is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
const PAYLOAD_BYTES: usize = 300;
/// Rows of one write that adds waiting rows.
const PAGE: usize = 1_000;

static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn payload() -> String {
    format!("{{\"filler\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 13))
}

/// A name that nothing else on the server has.
pub(crate) fn unique_name() -> String {
    format!("bench_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What waiting rows are like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// In the lane that the first node of an outbox gets.
    Lane,
    /// In so many groups.
    Groups(usize),
    /// In the queue.
    Queue,
}

/// Where a bare reader begins each of its reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Behind the row it read last: nobody writes meanwhile.
    Onwards,
    /// At the first row there is: rows may be committed out of order.
    FromTheStart,
}

/// A fixture on a server, with an outbox and business tables.
pub(crate) trait Database: Sized + Send + Sync {
    type Store: Store;
    type Reader: Reader;

    /// What its bare statements are called.
    const BARE: &'static str;

    /// A fresh one, with tables and nothing in them.
    fn fresh(url: &str) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// The store, beside so many connections for business transactions.
    fn open_store(&self, connections: u32) -> impl Future<Output = anyhow::Result<Self::Store>> + Send;

    /// Closes the store and its connections.
    fn close_store(store: &Self::Store) -> impl Future<Output = ()> + Send;

    /// One connection and no engine: the least that drains a table in order.
    fn reader(&self, reads: Reads) -> impl Future<Output = anyhow::Result<Self::Reader>> + Send;

    /// The same, but it keeps what it has read, in the best way known; none where that is not measured.
    fn keeper(&self) -> impl Future<Output = anyhow::Result<Option<Self::Reader>>> + Send {
        async { Ok(None) }
    }

    /// Adds rows that wait.
    fn add(&self, rows: usize, kind: Kind) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Lets the server settle, so that a round does not pay for what came before it.
    fn calmed(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// How many rows wait.
    fn waiting(&self) -> impl Future<Output = anyhow::Result<usize>> + Send;

    /// Drops everything.
    fn drop_all(self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Waits until no more than so many rows wait.
    fn until_left(&self, left: usize) -> impl Future<Output = anyhow::Result<()>> + Send {
        async move {
            let until = Instant::now() + PATIENCE;
            while self.waiting().await? > left {
                anyhow::ensure!(Instant::now() < until, "events were not settled");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok(())
        }
    }
}

/// Reads rows in order by bare statements.
pub(crate) trait Reader: Send + 'static {
    /// Reads at most so many rows and deletes them; how many there were.
    fn next(&mut self, rows: usize) -> impl Future<Output = anyhow::Result<usize>> + Send;
}

/// Adds rows that wait by the store's own writes.
pub(crate) async fn add_by_store(store: &impl Table, rows: usize, kind: Kind) -> anyhow::Result<()> {
    let payload = payload();
    for first in (0..rows).step_by(PAGE) {
        let page = (first..rows.min(first + PAGE)).map(|number| {
            let event = Event::text(MEASURED, payload.clone());
            let (event, placement) = match kind {
                Kind::Lane => (event, Placement::Lane(Lane(64))),
                Kind::Groups(groups) => (event.group(format!("group {}", number % groups)), Placement::Slot),
                Kind::Queue => (event, Placement::Queue),
            };
            Ok(NewRow { event: event.build()?, placement })
        });
        store.write(Write { rows: page.collect::<anyhow::Result<_>>()?, now: None }).await?;
    }
    Ok(())
}
