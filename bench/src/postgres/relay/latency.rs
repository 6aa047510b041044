//! From commit to request, at a steady thousand items a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pillarbox::Event;
use pillarbox::model::{Layout, NewRow, Placement};
use pillarbox::port::Write;

use super::{Accepted, Endpoint, GROUPS, Table, start};
use crate::figure::{Figure, Goal, Samples};
use crate::postgres::Sizes;

const PER_SECOND: usize = 1_000;

pub(crate) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let items = (sizes.window.as_secs_f64() * PER_SECOND as f64) as usize * 2;
    let mut figures = Vec::new();
    for layout in Layout::ALL {
        let (mut middle, mut high) = (Samples::default(), Samples::default());
        for _ in 0..sizes.rounds {
            let took = round(url, layout, items).await?;
            middle.push(took.quantile(0.5));
            high.push(took.quantile(0.99));
        }
        let what = |share| format!("relay, commit to request at {PER_SECOND}/s, {layout} layout, {share}");
        figures.push(Figure::alone(what("p50"), "ms", &middle, Goal::None));
        figures.push(Figure::alone(what("p99"), "ms", &high, Goal::AtMost(50.0)));
    }
    Ok(figures)
}

/// Milliseconds of each item.
async fn round(url: &str, layout: Layout, items: usize) -> anyhow::Result<Samples> {
    let arrived = Arc::new(Mutex::new(vec![None::<Instant>; items]));
    let noted = Arc::clone(&arrived);
    let endpoint = Endpoint::looking(Arc::new(move |body, at| {
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        for number in numbers(body) {
            noted[number].get_or_insert(at);
        }
    }))
    .await?;
    let table = Table::filled(url, layout, 0).await?;
    let (writer, accepted) = (table.store().await?, Arc::new(Accepted::default()));
    let mut engine = start(table.store().await?, &endpoint.url, &accepted).await?;
    let mut committed = Vec::with_capacity(items);
    let began = Instant::now();
    for number in 0..items {
        let due = Duration::from_secs_f64(number as f64 / PER_SECOND as f64);
        tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        let payload = format!("{{\"number\":{number}}}");
        let event = Event::text("EVENT", payload).group(format!("group {}", number % GROUPS));
        let event = event.build_within(&writer.facts().limits)?;
        let rows = vec![NewRow { event, placement: Placement::Slot }];
        writer.write(Write { rows, now: None }).await?;
        committed.push(Instant::now());
        writer.notify();
    }
    accepted.until(items).await?;
    engine.close().await;
    table.fixture.remove().await?;
    let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
    let mut took = Samples::default();
    for (committed, arrived) in committed.iter().zip(arrived.iter()) {
        let arrived = arrived.ok_or_else(|| anyhow::anyhow!("an item did not arrive"))?;
        took.push(arrived.saturating_duration_since(*committed).as_secs_f64() * 1_000.0);
    }
    Ok(took)
}

/// The numbers in the body of a request.
fn numbers(body: &[u8]) -> impl Iterator<Item = usize> {
    let text = String::from_utf8_lossy(body).into_owned();
    let found: Vec<usize> = text
        .split("\"number\":")
        .skip(1)
        .filter_map(|rest| rest.split('}').next().and_then(|number| number.parse().ok()))
        .collect();
    found.into_iter()
}
