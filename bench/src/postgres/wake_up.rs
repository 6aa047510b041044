//! Writes with wake-up on, beside writes with it off: two nodes that keep order, so that there is someone to tell.

use std::sync::Arc;

use pillarbox::Outbox;
use pillarbox::port::OnDone;
use pillarbox_postgres::{PostgresStore, PostgresWakeUp};

use super::Sizes;
use super::business::{Beside, Ours};
use super::fixture::Fixture;
use crate::database::{Arrivals, MEASURED, Until, drive};
use crate::figure::{Figure, Goal, Samples};

const WRITERS: usize = 32;
const GROUPS: i64 = 1_000;

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let (mut on, mut off) = (Samples::default(), Samples::default());
    for round in 0..sizes.rounds {
        for turn in 0..2 {
            let (samples, wake_up) = if (round + turn) % 2 == 0 {
                (&mut on, PostgresWakeUp::Notify)
            } else {
                (&mut off, PostgresWakeUp::Off)
            };
            samples.push(run(url, sizes, wake_up).await?);
        }
    }
    let what = format!("writes of {WRITERS} writers, two nodes, wake-up on, against off");
    Ok(vec![Figure::ratio(what, "/s", &on, &off, Goal::AtLeast(0.95))])
}

async fn run(url: &str, sizes: &Sizes, wake_up: PostgresWakeUp) -> anyhow::Result<f64> {
    let fixture = Fixture::new(url).await?;
    let other = node(&fixture, 1, wake_up).await?;
    // Joins second, and so knows at once that it is not alone.
    let writing = node(&fixture, WRITERS as u32, wake_up).await?;
    let work = Ours::new(&writing, Beside::Business).grouped(GROUPS);
    let done = drive(work, WRITERS, Until::Elapsed(sizes.window)).await?;
    for outbox in [writing, other] {
        outbox.close().await;
        outbox.store().pool().close().await;
    }
    fixture.remove().await?;
    Ok(done.rate())
}

async fn node(
    fixture: &Fixture,
    connections: u32,
    wake_up: PostgresWakeUp,
) -> anyhow::Result<Outbox<PostgresStore>> {
    let arrivals = Arc::new(Arrivals::default());
    let builder = Outbox::ordered(fixture.store(connections, wake_up).await?).on_done(OnDone::Delete);
    Ok(builder.listener(MEASURED, arrivals.listener()).no_purge().start().await?)
}
