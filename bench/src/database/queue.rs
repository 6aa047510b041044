//! A backlog of the queue, drained by a worker and by bare statements that lease and delete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::port::{Begin, OnDone, WriteOn};
use pillarbox::queue::Message;
use pillarbox::{Event, Failure, Queue};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Arrivals, Database, MEASURED, PATIENCE, payload};
use crate::figure::{Figure, Goal, Samples};

/// Connections of the bare side. Each leases and deletes in turn.
const CONNECTIONS: usize = 2;
/// Jobs of one lease of the bare side, and messages of one claim with the best settings.
const BATCH: usize = 1_000;
/// Messages of one round of the latency.
const SINGLE: usize = 400;
/// Pause between two messages of the latency.
const PAUSE: Duration = Duration::from_millis(3);

/// What the server has spent so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    /// Processor time.
    pub(crate) cpu: Duration,
    /// Bytes of its log.
    pub(crate) log: i64,
}

/// A database that has a queue, and beside it a lean table of jobs.
pub(crate) trait Jobs: Database {
    type Leases: Leases;

    /// Adds messages that wait, without writing the table out.
    fn add_messages(&self, messages: usize) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Creates the lean table and fills it.
    fn add_jobs(&self, jobs: usize) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// One bare connection that leases jobs and deletes them.
    fn leases(&self) -> impl Future<Output = anyhow::Result<Self::Leases>> + Send;

    /// What the server has spent so far.
    fn spent(&self) -> impl Future<Output = anyhow::Result<Spent>> + Send;
}

/// Leases jobs by bare statements.
pub(crate) trait Leases: Send + 'static {
    /// Leases at most so many jobs, then deletes them; how many there were.
    fn next(&mut self, jobs: usize) -> impl Future<Output = anyhow::Result<usize>> + Send;
}

/// How a worker is set.
#[derive(Debug, Clone, Copy)]
enum Batch {
    Default,
    Best,
}

/// The rounds of one contender.
#[derive(Default)]
struct Rounds {
    rate: Samples,
    cpu: Samples,
    log: Samples,
}

impl Rounds {
    fn push(&mut self, jobs: usize, took: Duration, before: Spent, after: Spent) {
        self.rate.push(jobs as f64 / took.as_secs_f64());
        self.cpu.push((after.cpu - before.cpu).as_secs_f64() * 1e6 / jobs as f64);
        self.log.push((after.log - before.log) as f64 / jobs as f64);
    }
}

/// What is to be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goals {
    /// Of the drain that deletes, against bare statements.
    pub(crate) drain: Goal,
    /// Of the default settings, against the best ones.
    pub(crate) defaults: Goal,
    /// Of the server's processor time for a message, in microseconds.
    pub(crate) cpu: Goal,
}

const CONTENDERS: [(&str, OnDone, Batch); 4] = [
    ("delete, default batch", OnDone::Delete, Batch::Default),
    ("delete, batch of 1000", OnDone::Delete, Batch::Best),
    ("keep, default batch", OnDone::Keep, Batch::Default),
    ("keep, batch of 1000", OnDone::Keep, Batch::Best),
];

/// Drains so many messages, so many times.
pub(crate) async fn measure<D: Jobs>(
    url: &str,
    rounds: usize,
    backlog: usize,
    goals: Goals,
) -> anyhow::Result<Vec<Figure>> {
    let mut bare = Rounds::default();
    let mut ours: [Rounds; CONTENDERS.len()] = Default::default();
    for round in 0..rounds {
        // Nobody always goes first.
        for turn in 0..=CONTENDERS.len() {
            let turn = (turn + round) % (CONTENDERS.len() + 1);
            let database = D::fresh(url).await?;
            // Before the rows come, so that no drain writes whole pages to the log.
            database.calmed().await?;
            if let Some((_, on_done, batch)) = CONTENDERS.get(turn) {
                database.add_messages(backlog).await?;
                let before = database.spent().await?;
                let took = drain(&database, backlog, *on_done, *batch).await?;
                ours[turn].push(backlog, took, before, database.spent().await?);
            } else {
                database.add_jobs(backlog).await?;
                let before = database.spent().await?;
                let took = drain_bare(&database, backlog).await?;
                bare.push(backlog, took, before, database.spent().await?);
            }
            database.drop_all().await?;
        }
    }
    Ok(figures::<D>(backlog, &bare, &ours, goals))
}

fn figures<D: Jobs>(
    backlog: usize,
    bare: &Rounds,
    ours: &[Rounds; CONTENDERS.len()],
    goals: Goals,
) -> Vec<Figure> {
    let mut figures = Vec::new();
    for ((name, on_done, batch), rounds) in CONTENDERS.iter().zip(ours) {
        let deletes = *on_done == OnDone::Delete;
        let only = |wanted: bool, goal| if wanted { goal } else { Goal::None };
        let what =
            format!("queue, drain {backlog} messages, {name}, against {} that lease and delete", D::BARE);
        figures.push(Figure::ratio(what, "/s", &rounds.rate, &bare.rate, only(deletes, goals.drain)));
        let what = format!("queue, server's processor time for a message, {name}");
        let cpu = only(deletes && matches!(batch, Batch::Default), goals.cpu);
        // The goal is the figure's own, so the bare statements have a line beside it.
        figures.push(Figure::alone(what, "µs", &rounds.cpu, cpu));
        let what = format!("queue, bytes of the server's log for a message, {name}");
        figures.push(Figure::ratio(what, "B", &rounds.log, &bare.log, Goal::None));
    }
    let what = format!("queue, server's processor time for a job, {} that lease and delete", D::BARE);
    figures.push(Figure::alone(what, "µs", &bare.cpu, Goal::None));
    for (name, pair) in [("delete", &ours[..2]), ("keep", &ours[2..])] {
        let what = format!("queue, drain {backlog} messages, {name}, default batch against a batch of 1000");
        figures.push(Figure::ratio(what, "/s", &pair[0].rate, &pair[1].rate, goals.defaults));
    }
    figures
}

/// From the start of a worker until everything is handled and settled.
async fn drain<D: Jobs>(
    database: &D,
    messages: usize,
    on_done: OnDone,
    batch: Batch,
) -> anyhow::Result<Duration> {
    let arrivals = Arc::new(Arrivals::default());
    arrivals.expect(messages);
    let store = database.open_store(1).await?;
    let queue = Queue::new(store).on_done(on_done);
    let began = Instant::now();
    let worker = queue.worker().handler(MEASURED, arrivals.handler()).no_purge();
    let worker = match batch {
        Batch::Default => worker.start()?,
        Batch::Best => worker.batch(BATCH).start()?,
    };
    arrivals.all().await?;
    worker.close().await;
    let took = began.elapsed();
    anyhow::ensure!(database.waiting().await? == 0, "messages were left");
    D::close_store(queue.store()).await;
    Ok(took)
}

async fn drain_bare<D: Jobs>(database: &D, jobs: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut leases = database.leases().await?;
        tasks.spawn(async move {
            let mut all = 0;
            loop {
                match leases.next(BATCH).await? {
                    0 => return anyhow::Ok(all),
                    count => all += count,
                }
            }
        });
    }
    let mut all = 0;
    while let Some(done) = tasks.join_next().await {
        all += done??;
    }
    anyhow::ensure!(all == jobs, "{all} jobs were leased, not {jobs}");
    Ok(began.elapsed())
}

/// From the answer to a commit to the call of the handler, one message at a time on an idle queue of one process.
pub(crate) async fn measure_latency<D: Jobs>(
    url: &str,
    rounds: usize,
    goal: Goal,
) -> anyhow::Result<Vec<Figure>>
where
    D::Store: Begin + WriteOn<<D::Store as Begin>::Tx>,
    <D::Store as Begin>::Tx: Send,
{
    let (mut p50, mut p99) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        let database = D::fresh(url).await?;
        let round = latency(&database).await?;
        p50.push(round.median());
        p99.push(round.quantile(0.99));
        database.drop_all().await?;
    }
    Ok(vec![
        Figure::alone("queue, commit to handler, one at a time, p50", "µs", &p50, goal),
        Figure::alone("queue, commit to handler, one at a time, p99", "µs", &p99, Goal::None),
    ])
}

async fn latency<D: Jobs>(database: &D) -> anyhow::Result<Samples>
where
    D::Store: Begin + WriteOn<<D::Store as Begin>::Tx>,
    <D::Store as Begin>::Tx: Send,
{
    let queue = Queue::new(database.open_store(1).await?).on_done(OnDone::Delete);
    let (called, mut calls) = mpsc::channel(SINGLE);
    let handler = move |_: Message| {
        // One message is on its way at a time, and the receiver outlives the worker.
        let _ = called.try_send(Instant::now());
        std::future::ready(Ok::<(), Failure>(()))
    };
    let worker = queue.worker().handler(MEASURED, handler).no_purge().start()?;
    let mut latencies = Samples::default();
    for message in 0..SINGLE {
        let mut tx = queue.store().begin().await?;
        queue.enqueue_on(&mut tx, [Event::text(MEASURED, payload())]).await?;
        queue.store().commit(tx).await?;
        let committed = Instant::now();
        queue.committed();
        let called = tokio::time::timeout(PATIENCE, calls.recv()).await?;
        let called = called.ok_or_else(|| anyhow::anyhow!("the worker ended"))?;
        // The first messages pay for new connections and plans.
        if message >= SINGLE / 8 {
            latencies.push((called - committed).as_secs_f64() * 1e6);
        }
        tokio::time::sleep(PAUSE).await;
    }
    worker.close().await;
    D::close_store(queue.store()).await;
    Ok(latencies)
}
