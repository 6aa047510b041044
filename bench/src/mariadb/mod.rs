//! The MySQL store on MariaDB beside bare statements of sqlx, on the same server, in turns.

mod business;
mod fixture;
mod queue;
mod reader;

use fixture::Fixture;

use crate::database::queue::{self as queue_drain, Goals};
use crate::database::{drain, end_to_end};
use crate::figure::{Figure, Goal};
use crate::postgres::Sizes;

/// What can be measured, by name.
pub const PARTS: [&str; 4] = ["drain", "end-to-end", "queue", "queue-latency"];

const WRITERS: usize = 8;
const GOAL: Goal = Goal::AtLeast(0.70);

/// Takes the figures of one part.
pub async fn run(part: &str, url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    match part {
        "drain" => drain::measure::<Fixture>(url, sizes.rounds, sizes.backlog, GOAL).await,
        "end-to-end" => end_to_end::measure::<Fixture>(url, sizes.rounds, WRITERS, sizes.window, GOAL).await,
        "queue" => {
            let goals = Goals { drain: Goal::None, defaults: Goal::AtLeast(0.80), cpu: Goal::None };
            queue_drain::measure::<Fixture>(url, sizes.rounds, sizes.backlog, goals).await
        }
        "queue-latency" => queue_drain::measure_latency::<Fixture>(url, sizes.rounds, Goal::None).await,
        other => anyhow::bail!("unknown part `{other}`: one of {}", PARTS.join(", ")),
    }
}
