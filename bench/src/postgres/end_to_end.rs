//! Business transactions with one event each, written, delivered and settled, beside the same without and with a bare insert.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::port::OnDone;
use pillarbox_postgres::{PostgresStore, PostgresWakeUp};

use super::business::{Alone, Bare, Beside, Ours};
use super::fixture::Fixture;
use super::{Sizes, pipelined};
pub(super) use crate::database::end_to_end::rate_when_settled;
use crate::database::{Arrivals, MEASURED, Until, drive};
use crate::figure::{Figure, Goal, Samples};

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for writers in [8, 32] {
        let (mut alone, mut bare, mut sqlx) = (Samples::default(), Samples::default(), Samples::default());
        let (mut clients, mut flights) = (Samples::default(), Samples::default());
        for round in 0..sizes.rounds {
            // Nobody always goes first.
            for turn in 0..5 {
                let fixture = Fixture::new(url).await?;
                match (turn + round) % 5 {
                    0 => alone.push(run_alone(&fixture, writers, sizes.window).await?),
                    1 => bare.push(run_bare(&fixture, writers, sizes.window).await?),
                    2 => sqlx.push(run_ours(&fixture, writers, sizes.window).await?),
                    3 => clients.push(pipelined::run_alone(&fixture, writers, sizes.window).await?),
                    _ => flights.push(pipelined::run_ours(&fixture, writers, sizes.window).await?),
                }
                fixture.remove().await?;
            }
        }
        let what = |base| format!("end to end, {writers} writers, sqlx, against {base}");
        figures.push(Figure::ratio(what("a bare insert"), "/s", &sqlx, &bare, Goal::AtLeast(0.92)));
        figures.push(Figure::ratio(what("business alone"), "/s", &sqlx, &alone, Goal::None));
        let what = format!("end to end, {writers} writers, tokio-postgres, against business alone");
        figures.push(Figure::ratio(what, "/s", &flights, &clients, Goal::AtLeast(0.95)));
        let what = format!("bare insert, {writers} writers, against business alone");
        figures.push(Figure::ratio(what, "/s", &bare, &alone, Goal::None));
    }
    Ok(figures)
}

async fn run_alone(fixture: &Fixture, writers: usize, window: Duration) -> anyhow::Result<f64> {
    let pool = fixture.pool(writers as u32).await?;
    let done = drive(Alone(pool.clone()), writers, Until::Elapsed(window)).await?;
    pool.close().await;
    Ok(done.rate())
}

async fn run_bare(fixture: &Fixture, writers: usize, window: Duration) -> anyhow::Result<f64> {
    let pool = fixture.pool(writers as u32).await?;
    let done = drive(Bare::new(pool.clone(), Beside::Business), writers, Until::Elapsed(window)).await?;
    pool.close().await;
    Ok(done.rate())
}

/// One node with a listener that does nothing.
pub(super) async fn open(fixture: &Fixture, writers: usize) -> anyhow::Result<Outbox<PostgresStore>> {
    let arrivals = Arc::new(Arrivals::default());
    let store = fixture.store(writers as u32, PostgresWakeUp::Notify).await?;
    let builder = Outbox::single_node(store).listener(MEASURED, arrivals.listener());
    Ok(builder.on_done(OnDone::Delete).no_purge().start().await?)
}

pub(super) async fn run_ours(fixture: &Fixture, writers: usize, window: Duration) -> anyhow::Result<f64> {
    let outbox = open(fixture, writers).await?;
    let done = drive(Ours::new(&outbox, Beside::Business), writers, Until::Elapsed(window)).await?;
    let rate = rate_when_settled(fixture, done).await?;
    outbox.close().await;
    outbox.store().pool().close().await;
    Ok(rate)
}
