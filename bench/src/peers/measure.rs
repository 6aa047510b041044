//! The scenarios, measured for one contender at a time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::contenders::Contender;
use super::database::{Database, Host};
use super::process::Adapter;
use super::protocol::Said;
use crate::database::payload;
use crate::figure::Samples;
use crate::postgres::server::Times;

/// The longest start of an adapter, with its tables.
const START: Duration = Duration::from_secs(60);
/// The longest that a backlog may take to be added or drained.
const BACKLOG: Duration = Duration::from_secs(300);
/// The longest that one job may take.
const SINGLE: Duration = Duration::from_secs(20);
/// How often pending jobs are counted before the adapter says that it has handled all.
const SELDOM: Duration = Duration::from_millis(500);

/// A contender that is built.
pub(crate) struct Runner<'a> {
    pub(crate) host: &'a Host,
    pub(crate) contender: &'static Contender,
    pub(crate) program: Vec<PathBuf>,
}

/// One drain, for each job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drained {
    pub(crate) rate: f64,
    pub(crate) server_us: f64,
    pub(crate) client_us: f64,
    pub(crate) wal_bytes: f64,
}

/// One window of writers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) rate: f64,
    /// How long the last job took after the writers stopped.
    pub(crate) tail_ms: f64,
}

impl Runner<'_> {
    fn adapter(&self, database: &Database, arguments: &[&str], jobs: usize) -> anyhow::Result<Adapter> {
        let variables = [
            ("PEER_URL", database.url.clone()),
            ("PEER_PAYLOAD", payload()),
            ("PEER_JOBS", jobs.to_string()),
        ];
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Adapter::start(&self.program, &arguments, &variables)
    }

    /// Drains a backlog: from `go` until no job is pending.
    pub(crate) async fn drain(&self, jobs: usize) -> anyhow::Result<Drained> {
        let mut database = self.host.database().await?;
        let drained = self.drain_in(&mut database, jobs / self.contender.share).await;
        database.remove().await?;
        drained
    }

    async fn drain_in(&self, database: &mut Database, jobs: usize) -> anyhow::Result<Drained> {
        // Before the jobs come, so that no drain writes whole pages to the log.
        database.checkpoint().await?;
        self.adapter(database, &["fill", &jobs.to_string()], jobs)?.end(BACKLOG).await?;
        database.vacuum().await?;
        let left = database.pending(self.contender.pending).await?;
        anyhow::ensure!(usize::try_from(left)? == jobs, "{left} jobs are pending, not {jobs}");
        let mut adapter = self.adapter(database, &["drain"], jobs)?;
        adapter.ready(START).await?;
        let (before, client) = (database.spent().await?, Times::of_threads(adapter.id())?);
        let began = Instant::now();
        adapter.say("go")?;
        self.handled(&mut adapter, database, began).await?;
        database.finished(self.contender.pending, BACKLOG).await?;
        let took = began.elapsed();
        let (after, client_after) = (database.spent().await?, Times::of_threads(adapter.id())?);
        adapter.stop().await;
        let each = |spent: Duration| spent.as_secs_f64() * 1e6 / jobs as f64;
        Ok(Drained {
            rate: jobs as f64 / took.as_secs_f64(),
            server_us: each(after.cpu.since(&before.cpu)),
            client_us: each(client_after.since(&client)),
            wal_bytes: (after.wal - before.wal) as f64 / jobs as f64,
        })
    }

    /// Waits until the handler has been called for every job, and looks seldom meanwhile.
    async fn handled(
        &self,
        adapter: &mut Adapter,
        database: &mut Database,
        began: Instant,
    ) -> anyhow::Result<()> {
        while began.elapsed() < BACKLOG {
            match adapter.hear(SELDOM).await? {
                Some(Said::Handled) => return Ok(()),
                Some(said) => anyhow::bail!("expected handled, not {said:?}"),
                None if database.pending(self.contender.pending).await? == 0 => return Ok(()),
                None => {}
            }
        }
        anyhow::bail!("did not handle all jobs within {BACKLOG:?}")
    }

    /// Latencies of single jobs in microseconds.
    pub(crate) async fn latency(&self, jobs: usize) -> anyhow::Result<Samples> {
        let database = self.host.database().await?;
        let latencies = self.latency_in(&database, jobs).await;
        database.remove().await?;
        latencies
    }

    async fn latency_in(&self, database: &Database, jobs: usize) -> anyhow::Result<Samples> {
        let mut adapter = self.adapter(database, &["latency", &jobs.to_string()], 0)?;
        adapter.ready(START).await?;
        adapter.say("go")?;
        let mut latencies = Samples::default();
        loop {
            match adapter.expect(SINGLE).await? {
                Said::Latency(latency) => latencies.push(latency.as_secs_f64() * 1e6),
                Said::Done => break,
                said => anyhow::bail!("expected a latency, not {said:?}"),
            }
        }
        adapter.stop().await;
        Ok(latencies)
    }

    /// Business transactions, each with a job, until the last is handled.
    pub(crate) async fn end_to_end(&self, writers: usize, window: Duration) -> anyhow::Result<Written> {
        let mut database = self.host.database().await?;
        let written = self.write_in(&mut database, "end-to-end", writers, window).await;
        database.remove().await?;
        written
    }

    /// The same transactions without jobs.
    pub(crate) async fn business(&self, writers: usize, window: Duration) -> anyhow::Result<Written> {
        let mut database = self.host.database().await?;
        let written = self.write_in(&mut database, "business", writers, window).await;
        database.remove().await?;
        written
    }

    async fn write_in(
        &self,
        database: &mut Database,
        scenario: &str,
        writers: usize,
        window: Duration,
    ) -> anyhow::Result<Written> {
        database.checkpoint().await?;
        let arguments = [scenario, &writers.to_string(), &window.as_millis().to_string()];
        let mut adapter = self.adapter(database, &arguments, 0)?;
        adapter.ready(START).await?;
        adapter.say("go")?;
        let said = adapter.expect(START + window).await?;
        let stopped = Instant::now();
        let Said::Committed { transactions, took } = said else {
            anyhow::bail!("expected committed, not {said:?}");
        };
        if scenario == "end-to-end" {
            database.finished(self.contender.pending, BACKLOG).await?;
        }
        let tail_ms = stopped.elapsed().as_secs_f64() * 1e3;
        adapter.stop().await;
        Ok(Written { rate: transactions as f64 / took.as_secs_f64(), tail_ms })
    }
}
