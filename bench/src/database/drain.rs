//! A backlog, drained with a listener that does nothing, beside one bare connection that reads in order and deletes or keeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::Outbox;
use pillarbox::port::OnDone;

use super::{Arrivals, Database, Kind, MEASURED, Reader, Reads};
use crate::figure::{Figure, Goal, Samples};

const GROUPS: usize = 100;
/// Rows of one page and of one delete of the floor.
const PAGE: usize = 1_000;

/// Whether order is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordered {
    No,
    PerGroup,
}

/// Drains so many events, so many times; the goal is for rows that are deleted.
pub(crate) async fn measure<D: Database>(
    url: &str,
    rounds: usize,
    backlog: usize,
    goal: Goal,
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, ordered, kind) in [
        ("a lane", Ordered::No, Kind::Lane),
        (&*format!("{GROUPS} groups"), Ordered::PerGroup, Kind::Groups(GROUPS)),
    ] {
        let (mut delete, mut keep) = (Samples::default(), Samples::default());
        let (mut bare, mut kept) = (Samples::default(), Samples::default());
        for _ in 0..rounds {
            let rate = |took: Duration| backlog as f64 / took.as_secs_f64();
            let database = filled::<D>(url, backlog, kind).await?;
            let began = Instant::now();
            let reader = database.reader(Reads::Onwards).await?;
            bare.push(rate(drain_bare(reader, backlog, began).await?));
            database.drop_all().await?;
            let database = filled::<D>(url, backlog, kind).await?;
            let began = Instant::now();
            if let Some(keeper) = database.keeper().await? {
                kept.push(rate(drain_bare(keeper, backlog, began).await?));
            }
            database.drop_all().await?;
            for (samples, on_done) in [(&mut delete, OnDone::Delete), (&mut keep, OnDone::Keep)] {
                let database = filled::<D>(url, backlog, kind).await?;
                samples.push(rate(drain(&database, backlog, ordered, on_done).await?));
                database.drop_all().await?;
            }
        }
        let what = |done| format!("drain {backlog} events of {name}, {done}, against {}", D::BARE);
        figures.push(Figure::ratio(what("delete"), "/s", &delete, &bare, goal));
        figures.push(Figure::ratio(what("keep"), "/s", &keep, &bare, Goal::None));
        if !kept.is_empty() {
            let what = format!("{} that keeps", what("keep"));
            figures.push(Figure::ratio(what, "/s", &keep, &kept, Goal::AtLeast(0.70)));
        }
    }
    Ok(figures)
}

async fn filled<D: Database>(url: &str, backlog: usize, kind: Kind) -> anyhow::Result<D> {
    let database = D::fresh(url).await?;
    database.add(backlog, kind).await?;
    database.calmed().await?;
    Ok(database)
}

/// An outbox that counts what arrives.
pub(crate) async fn open<D: Database>(
    database: &D,
    ordered: Ordered,
    on_done: OnDone,
    arrivals: &Arc<Arrivals>,
) -> anyhow::Result<Outbox<D::Store>> {
    let store = database.open_store(1).await?;
    let builder = match ordered {
        Ordered::No => Outbox::single_node(store),
        Ordered::PerGroup => Outbox::ordered(store),
    };
    Ok(builder.listener(MEASURED, arrivals.listener()).on_done(on_done).no_purge().start().await?)
}

/// From the start of an outbox until everything is delivered and settled.
pub(crate) async fn drain<D: Database>(
    database: &D,
    events: usize,
    ordered: Ordered,
    on_done: OnDone,
) -> anyhow::Result<Duration> {
    let arrivals = Arc::new(Arrivals::default());
    arrivals.expect(events);
    let began = Instant::now();
    let outbox = open(database, ordered, on_done, &arrivals).await?;
    arrivals.all().await?;
    outbox.close().await;
    let took = began.elapsed();
    anyhow::ensure!(database.waiting().await? == 0, "events were left");
    D::close_store(outbox.store()).await;
    Ok(took)
}

/// From before the reader connected until everything is read.
async fn drain_bare(mut reader: impl Reader, events: usize, began: Instant) -> anyhow::Result<Duration> {
    let mut read = 0;
    while read < events {
        let rows = reader.next(PAGE).await?;
        anyhow::ensure!(rows > 0, "the table ran out of rows");
        read += rows;
    }
    Ok(began.elapsed())
}
