//! apalis-postgres in its fastest settings.

#[path = "../../../src/adapter/protocol.rs"]
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage, queries};
use protocol::{CONNECTIONS, Content, Handled, Load, NOTE, ORDER, Peer};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

const QUEUE: &str = "job";
const PAGE: usize = 5_000;
/// Results are written when the backend is polled, at the latest with a heartbeat.
const POLL: Duration = Duration::from_millis(10);

#[derive(Deserialize, Serialize)]
struct Job {
    filler: String,
}

struct Apalis {
    pool: PgPool,
    payload: Vec<u8>,
}

impl Apalis {
    fn config(batch: usize) -> Config {
        Config::default().queue(QUEUE).batch_size(batch).lock_tasks(false)
    }
}

async fn handle(job: Job, handled: Data<Arc<Handled>>) -> Result<(), BoxDynError> {
    std::hint::black_box(job.filler);
    handled.job();
    Ok(())
}

impl Peer for Apalis {
    async fn migrate(&mut self) -> anyhow::Result<()> {
        Ok(PostgresStorage::setup(&self.pool).await?)
    }

    async fn fill(&mut self, jobs: usize) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await?.detach();
        for first in (0..jobs).step_by(PAGE) {
            let page =
                (first..jobs.min(first + PAGE)).map(|_| TaskBuilder::new(self.payload.clone()).build());
            queries::push_tasks(&mut connection, QUEUE, page.collect()).await?;
        }
        Ok(())
    }

    async fn connect(&mut self) -> anyhow::Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&mut self, handled: Arc<Handled>, load: Load) -> anyhow::Result<()> {
        // The process ends before its tasks do.
        if load == Load::Backlog {
            for name in ["first", "second"] {
                let backend = PostgresStorage::new(&self.pool)
                    .with_config(Self::config(1_000))
                    .poll_with_interval(POLL);
                let worker = WorkerBuilder::new(name).backend(backend).data(Arc::clone(&handled));
                let worker = worker.parallelize(tokio::spawn).build(handle);
                tokio::spawn(worker.run());
            }
            return Ok(());
        }
        let backend = PostgresStorage::new(&self.pool)
            .with_config(Self::config(1_000))
            .with_pubsub()
            .poll_with_interval(POLL);
        let worker = WorkerBuilder::new("single").backend(backend).data(handled);
        tokio::spawn(worker.parallelize(tokio::spawn).build(handle).run());
        Ok(())
    }

    async fn transact(&self, account: i64, content: Content) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        if content.has_business() {
            sqlx::query(ORDER).bind(account).bind(1_i64).bind(NOTE).execute(&mut *tx).await?;
        }
        if content.has_job() {
            let task = TaskBuilder::new(self.payload.clone()).build();
            queries::push_tasks(&mut *tx, QUEUE, vec![task]).await?;
        }
        Ok(tx.commit().await?)
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
    let pool = pool.connect(&protocol::url()?).await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    protocol::run(Apalis { pool, payload: protocol::payload()?.into_bytes() }, &arguments).await?;
    // Without waiting for the workers.
    std::process::exit(0)
}
