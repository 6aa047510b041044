//! graphile_worker in its fastest settings.

#[path = "../../../src/adapter/protocol.rs"]
mod protocol;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, RefetchDelayConfig, TaskHandler,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use protocol::{CONNECTIONS, Content, Handled, Load, NOTE, ORDER, Peer};
use sqlx::postgres::{PgPool, PgPoolOptions};

const PAGE: usize = 5_000;
const ADD: &str = "SELECT graphile_worker.add_job('job', $1::json)";

#[derive(serde::Serialize, serde::Deserialize)]
struct Job {
    filler: String,
}

#[derive(Clone)]
struct Calls(Arc<Handled>);

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "job";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(calls) = context.get_ext::<Calls>() {
            calls.0.job();
        }
        Ok::<(), String>(())
    }
}

struct Graphile {
    pool: PgPool,
    payload: serde_json::Value,
}

impl Peer for Graphile {
    async fn migrate(&mut self) -> anyhow::Result<()> {
        Ok(WorkerUtils::new(self.pool.clone(), "graphile_worker").migrate().await?)
    }

    async fn fill(&mut self, jobs: usize) -> anyhow::Result<()> {
        let utils = WorkerUtils::new(self.pool.clone(), "graphile_worker");
        for first in (0..jobs).step_by(PAGE) {
            let page: Vec<RawJobSpec> = (first..jobs.min(first + PAGE))
                .map(|_| RawJobSpec {
                    identifier: "job".to_owned(),
                    payload: self.payload.clone(),
                    spec: JobSpec::default(),
                })
                .collect();
            utils.add_raw_jobs(&page).await?;
        }
        Ok(())
    }

    async fn connect(&mut self) -> anyhow::Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&mut self, handled: Arc<Handled>, load: Load) -> anyhow::Result<()> {
        let queue = match load {
            Load::Backlog | Load::Single => LocalQueueConfig::default().with_size(1_000).with_queue_count(2),
            Load::Writers => LocalQueueConfig::default()
                .with_size(500)
                .with_refetch_delay(RefetchDelayConfig::default().with_duration(Duration::from_millis(100))),
        };
        let worker = WorkerOptions::default()
            .pg_pool(self.pool.clone())
            .concurrency(24)
            .complete_job_batch_delay(Duration::from_millis(1))
            .local_queue(queue)
            .listen_os_shutdown_signals(false)
            .add_extension(Calls(handled))
            .define_job::<Job>()
            .init()
            .await?;
        // The process ends before its tasks do.
        tokio::spawn(async move { worker.run().await });
        Ok(())
    }

    async fn transact(&self, account: i64, content: Content) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        if content.has_business() {
            sqlx::query(ORDER).bind(account).bind(1_i64).bind(NOTE).execute(&mut *tx).await?;
        }
        if content.has_job() {
            sqlx::query(ADD).bind(&self.payload).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
    let pool = pool.connect(&protocol::url()?).await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let payload = serde_json::from_str(&protocol::payload()?)?;
    protocol::run(Graphile { pool, payload }, &arguments).await?;
    // Without waiting for the worker.
    std::process::exit(0)
}
