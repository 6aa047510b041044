//! The MongoDB store beside bare commands of the same driver, on the same server, in turns.
//!
//! The business is a transaction on both sides; bare commands that read and delete are none.

mod business;
mod fixture;
mod reader;

use fixture::Fixture;

use crate::database::{drain, end_to_end};
use crate::figure::{Figure, Goal};
use crate::postgres::Sizes;

/// What can be measured, by name.
pub const PARTS: [&str; 2] = ["drain", "end-to-end"];

const WRITERS: usize = 8;
const GOAL: Goal = Goal::AtLeast(0.60);

/// Takes the figures of one part.
pub async fn run(part: &str, url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    match part {
        "drain" => drain::measure::<Fixture>(url, sizes.rounds, sizes.backlog, GOAL).await,
        "end-to-end" => end_to_end::measure::<Fixture>(url, sizes.rounds, WRITERS, sizes.window, GOAL).await,
        other => anyhow::bail!("unknown part `{other}`: one of {}", PARTS.join(", ")),
    }
}
