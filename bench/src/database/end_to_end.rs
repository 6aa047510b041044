//! Business transactions with one event each, written, delivered and settled, beside bare statements that do the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::port::OnDone;
use tokio::task::JoinSet;

use super::{Arrivals, Database, Done, MEASURED, Reader, Reads, Until, Work, drive};
use crate::figure::{Figure, Goal, Samples};

/// Rows of one page of the bare reader.
const PAGE: usize = 1_000;
/// How long the bare reader waits when there is nothing to read.
const PAUSE: Duration = Duration::from_millis(1);

/// What a business does on a database.
pub(crate) trait Business: Database {
    /// It alone.
    type Alone: Work;
    /// With a bare insert of an equal row.
    type Bare: Work;
    /// With our outbox.
    type Ours: Work;

    fn alone(&self, writers: u32) -> impl Future<Output = anyhow::Result<Self::Alone>> + Send;
    fn bare(&self, writers: u32) -> impl Future<Output = anyhow::Result<Self::Bare>> + Send;
    fn ours(&self, outbox: &Outbox<Self::Store>) -> anyhow::Result<Self::Ours>;
}

/// The same number of writers on each side, each for the same time; the goal is against bare statements that do it all.
pub(crate) async fn measure<D: Business>(
    url: &str,
    rounds: usize,
    writers: usize,
    window: Duration,
    goal: Goal,
) -> anyhow::Result<Vec<Figure>> {
    let (mut alone, mut insert) = (Samples::default(), Samples::default());
    let (mut bare, mut ours) = (Samples::default(), Samples::default());
    for round in 0..rounds {
        // Nobody always goes first.
        for turn in 0..4 {
            let database = D::fresh(url).await?;
            let (count, until) = (writers as u32, Until::Elapsed(window));
            match (turn + round) % 4 {
                0 => alone.push(drive(database.alone(count).await?, writers, until).await?.rate()),
                1 => insert.push(drive(database.bare(count).await?, writers, until).await?.rate()),
                2 => bare.push(run_bare(&database, writers, until).await?),
                _ => ours.push(run_ours(&database, writers, until).await?),
            }
            database.drop_all().await?;
        }
    }
    let what = |base: &str| format!("end to end, {writers} writers, against {base}");
    let like = format!("{} that write, read and delete", D::BARE);
    Ok(vec![
        Figure::ratio(what(&like), "/s", &ours, &bare, goal),
        Figure::ratio(what("a bare insert that nobody reads"), "/s", &ours, &insert, Goal::None),
        Figure::ratio(what("business alone"), "/s", &ours, &alone, Goal::None),
    ])
}

/// One bare connection reads and deletes what the writers insert.
async fn run_bare<D: Business>(database: &D, writers: usize, until: Until) -> anyhow::Result<f64> {
    let mut reader = database.reader(Reads::FromTheStart).await?;
    let work = database.bare(writers as u32).await?;
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        while !told.load(Ordering::Relaxed) {
            if reader.next(PAGE).await? == 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        anyhow::Ok(())
    });
    let rate = match drive(work, writers, until).await {
        Ok(done) => rate_when_settled(database, done).await,
        Err(error) => Err(error),
    };
    ended.store(true, Ordering::Relaxed);
    while let Some(read) = reading.join_next().await {
        read??;
    }
    rate
}

/// One node with a listener that does nothing.
async fn run_ours<D: Business>(database: &D, writers: usize, until: Until) -> anyhow::Result<f64> {
    let arrivals = Arc::new(Arrivals::default());
    let store = database.open_store(writers as u32).await?;
    let builder = Outbox::single_node(store).listener(MEASURED, arrivals.listener());
    let outbox = builder.on_done(OnDone::Delete).no_purge().start().await?;
    let done = drive(database.ours(&outbox)?, writers, until).await?;
    let rate = rate_when_settled(database, done).await?;
    outbox.close().await;
    D::close_store(outbox.store()).await;
    Ok(rate)
}

/// The clock stops when 99 in 100 are settled.
pub(crate) async fn rate_when_settled<D: Database>(database: &D, done: Done) -> anyhow::Result<f64> {
    let left = done.transactions / 100;
    if database.waiting().await? <= left {
        return Ok(done.rate());
    }
    database.until_left(left).await?;
    Ok(Done { took: done.began.elapsed(), ..done }.rate())
}
