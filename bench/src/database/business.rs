//! Writers that repeat a transaction of a business.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::ACCOUNTS;

/// Transactions of each writer before the clock starts: connections are open and statements prepared then.
const WARM: usize = 5;

/// What an order says.
pub(crate) const NOTE: &str = "a note of some length, as orders have them";

/// When writers stop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// After this time.
    Elapsed(Duration),
    /// After so many transactions, all together.
    Count(usize),
}

/// What writers have done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) began: Instant,
    pub(crate) took: Duration,
    pub(crate) transactions: usize,
}

impl Done {
    /// Transactions per second.
    pub(crate) fn rate(&self) -> f64 {
        self.transactions as f64 / self.took.as_secs_f64()
    }
}

/// One transaction of a business, again and again.
pub(crate) trait Work: Send + Sync + 'static {
    /// Does it for an account.
    fn once(&self, account: i64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Runs so many writers at once; no two ever touch the same account.
pub(crate) async fn drive<W: Work>(work: W, writers: usize, until: Until) -> anyhow::Result<Done> {
    let work = Arc::new(work);
    let ready = Arc::new(Barrier::new(writers + 1));
    let (count, own) = (Arc::new(AtomicUsize::new(0)), ACCOUNTS / writers);
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (work, ready, count) = (Arc::clone(&work), Arc::clone(&ready), Arc::clone(&count));
        tasks.spawn(async move {
            let account = |number: usize| (writer * own + number % own) as i64;
            for number in 0..WARM {
                work.once(account(number)).await?;
            }
            ready.wait().await;
            let began = Instant::now();
            for number in 0.. {
                let stop = match until {
                    Until::Elapsed(window) => began.elapsed() >= window,
                    Until::Count(all) => number >= all / writers,
                };
                if stop {
                    break;
                }
                work.once(account(number)).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    ready.wait().await;
    let began = Instant::now();
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(Done { began, took: began.elapsed(), transactions: count.load(Ordering::Relaxed) })
}
