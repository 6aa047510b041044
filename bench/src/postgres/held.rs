//! Throughput while a transaction beside it keeps every dead row from being cleaned up.

use pillarbox::port::OnDone;
use pillarbox_postgres::sqlx::postgres::{PgConnection, PgPool, Postgres};
use pillarbox_postgres::sqlx::{Transaction, query};

use super::Sizes;
use super::drain::{Ordered, drain};
use super::end_to_end::run_ours;
use super::fixture::Fixture;
use crate::database::Kind;
use crate::figure::{Figure, Goal, Samples};

const WRITERS: usize = 8;

/// Whether a transaction is open beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Snapshot,
}

/// Both kinds of throughput, in rounds.
#[derive(Default)]
struct Rates {
    drain: Samples,
    end_to_end: Samples,
}

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let (mut free, mut held) = (Rates::default(), Rates::default());
    for _ in 0..sizes.rounds {
        round(url, sizes, Beside::Nothing, &mut free).await?;
        round(url, sizes, Beside::Snapshot, &mut held).await?;
    }
    let goal = Goal::AtLeast(0.90);
    let what = format!("drain of {} with a transaction held open, against without", sizes.backlog);
    let drain = Figure::ratio(what, "/s", &held.drain, &free.drain, goal);
    let what = format!("end to end, {WRITERS} writers, with a transaction held open, against without");
    Ok(vec![drain, Figure::ratio(what, "/s", &held.end_to_end, &free.end_to_end, goal)])
}

async fn round(url: &str, sizes: &Sizes, beside: Beside, rates: &mut Rates) -> anyhow::Result<()> {
    let fixture = Fixture::new(url).await?;
    let pool = fixture.pool(1).await?;
    let holder = match beside {
        Beside::Nothing => None,
        Beside::Snapshot => Some(hold(&pool).await?),
    };
    // What this leaves behind stays there while the transaction is open.
    fixture.fill(sizes.backlog, Kind::Lane).await?;
    drain(&fixture, sizes.backlog, Ordered::No, OnDone::Delete).await?;
    fixture.fill(sizes.backlog, Kind::Lane).await?;
    fixture.calm().await?;
    let took = drain(&fixture, sizes.backlog, Ordered::No, OnDone::Delete).await?;
    rates.drain.push(sizes.backlog as f64 / took.as_secs_f64());
    fixture.calm().await?;
    rates.end_to_end.push(run_ours(&fixture, WRITERS, sizes.window).await?);
    if let Some(holder) = holder {
        holder.rollback().await?;
    }
    pool.close().await;
    fixture.remove().await
}

async fn hold(pool: &PgPool) -> anyhow::Result<Transaction<'static, Postgres>> {
    let mut tx = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    // The snapshot is taken by the first statement, and one of a writer keeps its own number open too.
    let connection: &mut PgConnection = &mut tx;
    query("SELECT txid_current(), count(*) FROM account").execute(connection).await?;
    Ok(tx)
}
