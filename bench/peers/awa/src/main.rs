//! awa in its fastest settings: queue storage, and sharded heads where many writers enqueue.

#[path = "../../../src/adapter/protocol.rs"]
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use awa::{
    Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig,
    insert_with, migrations,
};
use protocol::{CONNECTIONS, Content, Handled, Load, NOTE, ORDER, Peer};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

const QUEUE: &str = "job";
const PAGE: usize = 5_000;
const SHARDS: &str = "INSERT INTO awa.queue_meta (queue, enqueue_shards) VALUES ('job', 8) \
    ON CONFLICT (queue) DO UPDATE SET enqueue_shards = EXCLUDED.enqueue_shards";

#[derive(Clone, Serialize, Deserialize, JobArgs)]
struct PeerJob {
    filler: String,
}

struct Awa {
    pool: PgPool,
    job: PeerJob,
    client: Option<Client>,
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.to_owned(), ..InsertOpts::default() }
}

impl Peer for Awa {
    async fn migrate(&mut self) -> anyhow::Result<()> {
        migrations::run(&self.pool).await?;
        Ok(QueueStorage::new(QueueStorageConfig::default())?.install(&self.pool).await?)
    }

    async fn fill(&mut self, jobs: usize) -> anyhow::Result<()> {
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        let args = serde_json::to_value(&self.job)?;
        for first in (0..jobs).step_by(PAGE) {
            let page: Vec<InsertParams> = (first..jobs.min(first + PAGE))
                .map(|_| InsertParams {
                    kind: PeerJob::kind().to_owned(),
                    args: args.clone(),
                    opts: options(),
                })
                .collect();
            storage.enqueue_params_copy(&self.pool, &page).await?;
        }
        Ok(())
    }

    async fn connect(&mut self) -> anyhow::Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&mut self, handled: Arc<Handled>, load: Load) -> anyhow::Result<()> {
        if load == Load::Writers {
            sqlx::query(SHARDS).execute(&self.pool).await?;
        }
        let config =
            QueueConfig { max_workers: 256, deadline_duration: Duration::ZERO, ..QueueConfig::default() };
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, config)
            .register::<PeerJob, _, _>(move |_, _| {
                handled.job();
                std::future::ready(Ok(JobResult::Completed))
            })
            .build()?;
        client.start().await?;
        self.client = Some(client);
        Ok(())
    }

    async fn transact(&self, account: i64, content: Content) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        if content.has_business() {
            sqlx::query(ORDER).bind(account).bind(1_i64).bind(NOTE).execute(&mut *tx).await?;
        }
        if content.has_job() {
            insert_with(&mut *tx, &self.job, options()).await?;
        }
        Ok(tx.commit().await?)
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
    let pool = pool.connect(&protocol::url()?).await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let job = serde_json::from_str(&protocol::payload()?)?;
    protocol::run(Awa { pool, job, client: None }, &arguments).await?;
    // Without waiting for the workers.
    std::process::exit(0)
}
