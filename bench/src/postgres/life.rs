//! What the whole life of an event costs the server: processor time, bytes of the log, dead rows.

use super::Sizes;
use super::business::{Alone, Bare, Beside, Ours};
use super::end_to_end::open;
use super::fixture::Fixture;
use super::server::{Server, dead_rows, wal};
use crate::database::{Until, Work, drive};
use crate::figure::{Figure, Goal, Samples};

const WRITERS: usize = 8;

/// The cost of one transaction, and of what follows from it.
#[derive(Default)]
struct Cost {
    cpu_us: Samples,
    wal: Samples,
    dead: Samples,
}

/// The states of the server before and after.
struct Meter<'a> {
    fixture: &'a Fixture,
    server: Server,
    cpu_us: f64,
    wal: i64,
    dead: i64,
}

impl<'a> Meter<'a> {
    async fn new(fixture: &'a Fixture) -> anyhow::Result<Self> {
        fixture.calm().await?;
        let server = Server::find(fixture.admin()).await?;
        let (wal, dead) = (wal(fixture.admin()).await?, dead_rows(fixture.admin(), fixture.schema()).await?);
        Ok(Self { fixture, server, cpu_us: server.cpu()?.as_secs_f64() * 1e6, wal, dead })
    }

    async fn note(&self, transactions: usize, cost: &mut Cost) -> anyhow::Result<()> {
        let admin = self.fixture.admin();
        let each = |sum: f64| sum / transactions as f64;
        cost.cpu_us.push(each(self.server.cpu()?.as_secs_f64() * 1e6 - self.cpu_us));
        cost.wal.push(each((wal(admin).await? - self.wal) as f64));
        cost.dead.push(each((dead_rows(admin, self.fixture.schema()).await? - self.dead) as f64));
        Ok(())
    }
}

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let (mut alone, mut bare, mut ours) = (Cost::default(), Cost::default(), Cost::default());
    let (mut insert, mut event) = (Cost::default(), Cost::default());
    for _ in 0..sizes.rounds {
        let fixture = Fixture::new(url).await?;
        let pool = fixture.pool(WRITERS as u32).await?;
        bare_cost(&fixture, Alone(pool.clone()), sizes, &mut alone).await?;
        pool.close().await;
        let pool = fixture.pool(WRITERS as u32).await?;
        bare_cost(&fixture, Bare::new(pool.clone(), Beside::Business), sizes, &mut bare).await?;
        pool.close().await;
        fixture.remove().await?;
        let fixture = Fixture::new(url).await?;
        our_cost(&fixture, Beside::Business, sizes, &mut ours).await?;
        fixture.remove().await?;
        let fixture = Fixture::new(url).await?;
        let pool = fixture.pool(WRITERS as u32).await?;
        bare_cost(&fixture, Bare::new(pool.clone(), Beside::Nothing), sizes, &mut insert).await?;
        pool.close().await;
        fixture.remove().await?;
        let fixture = Fixture::new(url).await?;
        our_cost(&fixture, Beside::Nothing, sizes, &mut event).await?;
        fixture.remove().await?;
    }
    let (us, bytes, rows) = ("µs", "bytes", "rows");
    Ok(vec![
        Figure::ratio(
            "server CPU, business and event, against business alone",
            us,
            &ours.cpu_us,
            &alone.cpu_us,
            Goal::AtMost(1.5),
        ),
        Figure::ratio(
            "server CPU, business and event, against business and a bare insert",
            us,
            &ours.cpu_us,
            &bare.cpu_us,
            Goal::None,
        ),
        Figure::ratio(
            "WAL of an event's life, against the bare insert of its row",
            bytes,
            &event.wal,
            &insert.wal,
            Goal::AtMost(1.25),
        ),
        Figure::ratio(
            "server CPU of an event's life, against the bare insert of its row",
            us,
            &event.cpu_us,
            &insert.cpu_us,
            Goal::None,
        ),
        Figure::alone("dead rows of an event's life", rows, &event.dead, Goal::None),
    ])
}

async fn bare_cost<W: Work>(
    fixture: &Fixture,
    work: W,
    sizes: &Sizes,
    cost: &mut Cost,
) -> anyhow::Result<()> {
    let meter = Meter::new(fixture).await?;
    let done = drive(work, WRITERS, Until::Count(sizes.counted)).await?;
    meter.note(done.transactions, cost).await
}

async fn our_cost(fixture: &Fixture, beside: Beside, sizes: &Sizes, cost: &mut Cost) -> anyhow::Result<()> {
    let outbox = open(fixture, WRITERS).await?;
    let meter = Meter::new(fixture).await?;
    let done = drive(Ours::new(&outbox, beside), WRITERS, Until::Count(sizes.counted)).await?;
    fixture.settled(0).await?;
    outbox.close().await;
    outbox.store().close().await;
    outbox.store().pool().close().await;
    drop(outbox);
    meter.note(done.transactions, cost).await
}
