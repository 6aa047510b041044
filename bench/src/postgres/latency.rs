//! From the answer to a commit to the call of the listener, with settles as they are and ten times slower.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::port::OnDone;
use pillarbox::{Event, Failure, Outbox};
use pillarbox_postgres::PostgresWakeUp;
use tokio::task::JoinSet;

use super::Sizes;
use super::business::business;
use super::fixture::Fixture;
use super::watched::{Moments, Settling, WRITING, Watched};
use crate::database::{MEASURED, payload};
use crate::figure::{Figure, Goal, Samples};

const WRITERS: usize = 4;
/// Events of one writer in one round.
const EVENTS: usize = 150;
/// Transactions of each writer before that.
const WARM: usize = 5;

/// How quickly a writer goes on.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// A pause between transactions: the server and the machine have time.
    Paced(Duration),
    Full,
}

/// The median and the 99th percentile of the rounds.
#[derive(Default)]
struct Latency {
    p50: Samples,
    p99: Samples,
}

impl Latency {
    fn push(&mut self, round: &Samples) {
        self.p50.push(round.median());
        self.p99.push(round.quantile(0.99));
    }
}

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let paces = [("paced", Pace::Paced(Duration::from_millis(4))), ("flat out", Pace::Full)];
    for (name, pace) in paces {
        let (mut plain, mut slow) = (Latency::default(), Latency::default());
        for _ in 0..sizes.rounds {
            let fixture = Fixture::new(url).await?;
            plain.push(&run(&fixture, Settling::AsIs, pace).await?);
            slow.push(&run(&fixture, Settling::TenTimesSlower, pace).await?);
            fixture.remove().await?;
        }
        let goals = match pace {
            Pace::Paced(_) => (Goal::AtMost(50.0), Goal::AtMost(1_000.0), Goal::AtMost(1.2)),
            Pace::Full => (Goal::None, Goal::None, Goal::None),
        };
        let what = |which: &str| format!("commit to listener, {WRITERS} writers {name}, {which}");
        figures.push(Figure::alone(what("p50"), "µs", &plain.p50, goals.0));
        figures.push(Figure::alone(what("p99"), "µs", &plain.p99, goals.1));
        let slower = "settles 10 times slower, against as they are";
        figures.push(Figure::ratio(what(&format!("p50, {slower}")), "µs", &slow.p50, &plain.p50, goals.2));
        figures.push(Figure::ratio(what(&format!("p99, {slower}")), "µs", &slow.p99, &plain.p99, Goal::None));
    }
    Ok(figures)
}

async fn run(fixture: &Fixture, settling: Settling, pace: Pace) -> anyhow::Result<Samples> {
    let began = Instant::now();
    let all = WRITERS * EVENTS;
    let (committed, arrived) = (Arc::new(Moments::new(began, all)), Arc::new(Moments::new(began, all)));
    let store = fixture.store(WRITERS as u32, PostgresWakeUp::Notify).await?;
    let store = Watched { store, settling, committed: Arc::clone(&committed) };
    let noted = Arc::clone(&arrived);
    let outbox = Outbox::single_node(store)
        .listener(MEASURED, move |event: Event| {
            if let Some(number) = event.aggregate_id().and_then(|number| number.parse().ok()) {
                noted.note(number);
            }
            std::future::ready(Ok::<(), Failure>(()))
        })
        .on_done(OnDone::Delete)
        .no_purge()
        .start()
        .await?;
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        tasks.spawn(write(outbox.clone(), writer, pace));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    fixture.settled(0).await?;
    outbox.close().await;
    outbox.store().store.pool().close().await;
    let mut latencies = Samples::default();
    for event in 0..all {
        if let (Some(committed), Some(arrived)) = (committed.micros(event), arrived.micros(event)) {
            latencies.push(arrived - committed);
        }
    }
    Ok(latencies)
}

async fn write(outbox: Outbox<Watched>, writer: usize, pace: Pace) -> anyhow::Result<()> {
    let account = writer as i64;
    let once = async |number: String| {
        let mut tx = outbox.begin().await?;
        business(&mut tx, account).await?;
        tx.write(Event::text(MEASURED, payload()).aggregate_id(number))?;
        anyhow::Ok(tx.commit().await?)
    };
    for _ in 0..WARM {
        once("none".to_owned()).await?;
    }
    for event in 0..EVENTS {
        let number = writer * EVENTS + event;
        WRITING.scope(number, once(number.to_string())).await?;
        if let Pace::Paced(pause) = pace {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}
