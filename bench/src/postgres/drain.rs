//! A backlog, drained with a listener that does nothing, beside one bare connection that reads in order and deletes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::Outbox;
use pillarbox::port::OnDone;
use pillarbox_postgres::sqlx::postgres::PgConnection;
use pillarbox_postgres::sqlx::{Connection, Row, query};
use pillarbox_postgres::{PostgresStore, WakeUp};

use super::Sizes;
use super::ground::{Arrivals, Ground, Kind, MEASURED};
use crate::figure::{Figure, Goal, Samples};

const GROUPS: usize = 100;
/// Rows of one page and of one delete of the floor.
const PAGE: i64 = 1_000;

/// Whether order is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordered {
    No,
    PerGroup,
}

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, ordered, kind) in [
        ("a lane", Ordered::No, Kind::Lane),
        (&*format!("{GROUPS} groups"), Ordered::PerGroup, Kind::Groups(GROUPS)),
    ] {
        let (mut delete, mut keep, mut bare) = (Samples::default(), Samples::default(), Samples::default());
        for _ in 0..sizes.rounds {
            let rate = |took: Duration| sizes.backlog as f64 / took.as_secs_f64();
            let ground = Ground::new(url).await?;
            ground.fill(sizes.backlog, kind).await?;
            ground.calm().await?;
            bare.push(rate(drain_bare(&ground, sizes.backlog).await?));
            for (samples, on_done) in [(&mut delete, OnDone::Delete), (&mut keep, OnDone::Keep)] {
                ground.calm().await?;
                ground.fill(sizes.backlog, kind).await?;
                ground.calm().await?;
                samples.push(rate(drain(&ground, sizes.backlog, ordered, on_done).await?));
            }
            ground.remove().await?;
        }
        let what = |done| format!("drain {} events of {name}, {done}, against bare SQL", sizes.backlog);
        figures.push(Figure::ratio(what("delete"), "/s", &delete, &bare, Goal::AtLeast(0.80)));
        figures.push(Figure::ratio(what("keep"), "/s", &keep, &bare, Goal::None));
    }
    Ok(figures)
}

/// An outbox that counts what arrives.
pub(super) async fn open(
    ground: &Ground,
    ordered: Ordered,
    on_done: OnDone,
    arrivals: &Arc<Arrivals>,
) -> anyhow::Result<Outbox<PostgresStore>> {
    let store = ground.store(1, WakeUp::Notify).await?;
    let builder = match ordered {
        Ordered::No => Outbox::single_node(store),
        Ordered::PerGroup => Outbox::ordered(store),
    };
    Ok(builder.listener(MEASURED, arrivals.listener()).on_done(on_done).no_purge().start().await?)
}

/// From the start of an outbox until everything is delivered and settled.
pub(super) async fn drain(
    ground: &Ground,
    events: usize,
    ordered: Ordered,
    on_done: OnDone,
) -> anyhow::Result<Duration> {
    let arrivals = Arc::new(Arrivals::default());
    arrivals.expect(events);
    let began = Instant::now();
    let outbox = open(ground, ordered, on_done, &arrivals).await?;
    arrivals.all().await?;
    outbox.close().await;
    let took = began.elapsed();
    anyhow::ensure!(ground.pending().await? == 0, "events were left");
    outbox.store().pool().close().await;
    Ok(took)
}

/// One connection, no engine: the least that drains a table in order. Done marks need not survive a crash, as in the store.
async fn drain_bare(ground: &Ground, events: usize) -> anyhow::Result<Duration> {
    let pool = ground.pool(1).await?;
    let began = Instant::now();
    let mut connection = PgConnection::connect_with(&pool.connect_options()).await?;
    query("SET synchronous_commit = off").execute(&mut connection).await?;
    let (mut after, mut read) = (0_i64, 0);
    while read < events {
        let rows = query(
            "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, message_group, headers, payload, attempts \
             FROM outbox_event WHERE status IN (0, 2) AND seq > $1 ORDER BY seq LIMIT $2",
        )
        .bind(after)
        .bind(PAGE)
        .fetch_all(&mut connection)
        .await?;
        let mut numbers = Vec::with_capacity(rows.len());
        for row in &rows {
            let event: (String, String, Option<String>, String) =
                (row.get(1), row.get(2), row.get(5), row.get(7));
            std::hint::black_box(event);
            numbers.push(row.get::<i64, _>(0));
        }
        after = *numbers.last().ok_or_else(|| anyhow::anyhow!("the table ran out of rows"))?;
        read += numbers.len();
        query("DELETE FROM outbox_event WHERE seq = ANY($1) AND status IN (0, 2)")
            .bind(numbers)
            .execute(&mut connection)
            .await?;
    }
    let took = began.elapsed();
    connection.close().await?;
    pool.close().await;
    Ok(took)
}
