//! The engine alone: memory store, no-op listener, one core.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox::memory::MemoryStore;
use pillarbox::port::OnDone;
use pillarbox::{Event, Outbox};
use tokio::sync::Notify;

/// Events of one burst: what fits the hot line.
const BURST: usize = 500;

/// How many events share a transaction.
#[derive(Debug, Clone, Copy)]
pub struct PerTransaction(pub usize);

/// Commits, delivers and settles so many events on one core; the processor time it took.
///
/// Processor time, not time by the clock: everything runs on one thread, and other work on the machine does not count.
/// Events are made before the clock starts: what is measured is commit, hot path, dispatch and settle.
pub fn run(events: usize, per: PerTransaction) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(drive(events, per))
}

pub(crate) async fn drive(events: usize, per: PerTransaction) -> anyhow::Result<Duration> {
    let delivered = Arc::new(AtomicUsize::new(0));
    let burst_done = Arc::new(Notify::new());
    let (count, signal) = (Arc::clone(&delivered), Arc::clone(&burst_done));
    let outbox = Outbox::single_node(MemoryStore::new())
        .listener("Measured", move |_: Event| {
            let (count, signal) = (Arc::clone(&count), Arc::clone(&signal));
            async move {
                if (count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(BURST) {
                    signal.notify_one();
                }
                Ok::<(), pillarbox::Failure>(())
            }
        })
        .on_done(OnDone::Delete)
        .start()
        .await?;
    let payload = "x".repeat(300);
    let made = (0..events).map(|_| Event::text("Measured", payload.clone()).build());
    let mut made = made.collect::<Result<Vec<_>, _>>()?.into_iter();
    let began = cpu_time()?;
    for _ in 0..events / BURST {
        for _ in 0..BURST / per.0 {
            let mut tx = outbox.begin().await?;
            tx.write(made.by_ref().take(per.0))?;
            tx.commit().await?;
        }
        burst_done.notified().await;
    }
    outbox.close().await;
    let took = cpu_time()? - began;
    anyhow::ensure!(
        delivered.load(Ordering::Relaxed) == events / BURST * BURST,
        "not every event was delivered once"
    );
    Ok(took)
}

/// The processor time of this thread.
fn cpu_time() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = stat.split_whitespace().next().ok_or_else(|| anyhow::anyhow!("no scheduler statistics"))?;
    Ok(Duration::from_nanos(nanos.parse()?))
}
