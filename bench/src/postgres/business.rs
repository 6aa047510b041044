//! The business transaction, alone, with a bare insert into the outbox, and with our outbox; and writers that repeat it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pillarbox::{Event, Outbox};
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::postgres::{PgConnection, PgPool};
use pillarbox_postgres::sqlx::query;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::ground::{ACCOUNTS, MEASURED, payload};

/// Transactions of each writer before the clock starts: connections are open and statements prepared then.
const WARM: usize = 5;

/// What an order says.
pub(super) const NOTE: &str = "a note of some length, as orders have them";

/// When writers stop.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// After this time.
    Elapsed(Duration),
    /// After so many transactions, all together.
    Count(usize),
}

/// What writers have done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) began: Instant,
    pub(super) took: Duration,
    pub(super) transactions: usize,
}

impl Done {
    /// Transactions per second.
    pub(super) fn rate(&self) -> f64 {
        self.transactions as f64 / self.took.as_secs_f64()
    }
}

/// One transaction of a business, again and again.
pub(super) trait Work: Send + Sync + 'static {
    /// Does it for an account.
    fn once(&self, account: i64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Runs so many writers at once; no two ever touch the same account.
pub(super) async fn drive<W: Work>(work: W, writers: usize, until: Until) -> anyhow::Result<Done> {
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

/// Writes an order and changes an account.
pub(super) async fn business(connection: &mut PgConnection, account: i64) -> anyhow::Result<()> {
    query("INSERT INTO orders (account_id, amount, note) VALUES ($1, $2, $3)")
        .bind(account)
        .bind(1_i64)
        .bind(NOTE)
        .execute(&mut *connection)
        .await?;
    query("UPDATE account SET balance = balance + $2 WHERE id = $1")
        .bind(account)
        .bind(1_i64)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// The business alone.
pub(super) struct Alone(pub(super) PgPool);

impl Work for Alone {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.0.begin().await?;
        business(&mut tx, account).await?;
        Ok(tx.commit().await?)
    }
}

/// Whether the business is part of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    Business,
    Nothing,
}

/// A bare insert of an equal row.
pub(super) struct Bare {
    pool: PgPool,
    beside: Beside,
    payload: String,
    ids: AtomicU64,
}

impl Bare {
    pub(super) fn new(pool: PgPool, beside: Beside) -> Self {
        Self { pool, beside, payload: payload(), ids: AtomicU64::new(0) }
    }
}

impl Work for Bare {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        if self.beside == Beside::Business {
            business(&mut tx, account).await?;
        }
        let id = format!("{:026}", self.ids.fetch_add(1, Ordering::Relaxed));
        query(
            "INSERT INTO outbox_event (event_id, event_type, aggregate_type, lane, payload, occurred_at, available_at, created_at) \
             VALUES ($1, $2, '__GLOBAL__', 64, $3, now(), now(), now())",
        )
        .bind(id)
        .bind(MEASURED)
        .bind(&self.payload)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }
}

/// Our outbox.
pub(super) struct Ours {
    outbox: Outbox<PostgresStore>,
    beside: Beside,
    payload: String,
    /// Events go to so many groups; none: every event for itself.
    groups: Option<i64>,
}

impl Ours {
    pub(super) fn new(outbox: &Outbox<PostgresStore>, beside: Beside) -> Self {
        Self { outbox: outbox.clone(), beside, payload: payload(), groups: None }
    }

    pub(super) fn grouped(mut self, groups: i64) -> Self {
        self.groups = Some(groups);
        self
    }
}

impl Work for Ours {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.outbox.begin().await?;
        if self.beside == Beside::Business {
            business(&mut tx, account).await?;
        }
        let mut event = Event::text(MEASURED, self.payload.clone());
        if let Some(groups) = self.groups {
            event = event.group(format!("group {}", account % groups));
        }
        tx.write(event)?;
        Ok(tx.commit().await?)
    }
}
