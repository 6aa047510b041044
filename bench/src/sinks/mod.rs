//! Sinks for brokers, fed from memory, against a bare producer that does the least with the same messages.

#[cfg(feature = "kafka")]
pub mod kafka;
pub mod nats;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use pillarbox::Event;
use pillarbox::port::{Delivery, Sink, Verdict};
use tokio::task::JoinSet;

/// The parts that can be asked for.
pub const PARTS: [&str; 1] = ["sink"];

/// How many groups are delivered at once: the relay's default, and one for a machine with nothing else to do.
const WORKERS: [usize; 2] = [10, 100];
const GROUPS: usize = 100;
/// Events of one group that go to the sink together: the relay's default.
const BATCH: usize = 100;
const PAYLOAD_BYTES: usize = 200;
const GOAL: f64 = 0.7;

/// The events of one round, in batches of one group each.
fn batches(events: usize) -> anyhow::Result<Vec<Vec<Delivery>>> {
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 11));
    let batch = |number: usize| {
        let group = format!("group-{}", number % GROUPS);
        let event = || Event::text("order.placed", payload.as_str()).group(group.as_str()).build();
        let delivery = |event| Delivery::first(event);
        (0..BATCH).map(|_| Ok(delivery(event()?))).collect::<anyhow::Result<Vec<_>>>()
    };
    (0..events / BATCH).map(batch).collect()
}

/// Delivers all of it as the engine's workers do; tells how long it took.
async fn deliver(
    sink: Arc<dyn Sink>,
    batches: &Arc<Vec<Vec<Delivery>>>,
    at_once: usize,
) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..at_once {
        let (sink, batches) = (sink.clone(), batches.clone());
        workers.spawn(async move {
            let mut accepted = 0;
            for batch in batches.iter().skip(worker).step_by(at_once) {
                let verdicts = sink.deliver(batch).await;
                accepted += verdicts.iter().filter(|verdict| **verdict == Verdict::Accepted).count();
            }
            accepted
        });
    }
    let mut accepted = 0;
    while let Some(worker) = workers.join_next().await {
        accepted += worker.context("a worker")?;
    }
    let expected: usize = batches.iter().map(Vec::len).sum();
    anyhow::ensure!(accepted == expected, "{accepted} of {expected} events were accepted");
    Ok(begun.elapsed())
}

/// A name that no run before used.
fn unique(what: &str) -> anyhow::Result<String> {
    Ok(format!("{what}-{:x}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros()))
}

fn per_second(batches: &[Vec<Delivery>], took: Duration) -> f64 {
    batches.iter().map(Vec::len).sum::<usize>() as f64 / took.as_secs_f64()
}
