//! The MongoDB store beside bare commands of the same driver, on the same server, in turns.
//!
//! Without transactions, on both sides: a server that only speaks the wire protocol has none.

mod business;
mod ground;
mod reader;

use ground::Ground;

use crate::database::{drain, end_to_end};
use crate::figure::{Figure, Goal};
use crate::postgres::Sizes;

/// What can be measured, by name.
pub const PARTS: [&str; 2] = ["drain", "end-to-end"];

const WRITERS: usize = 8;
const GOAL: Goal = Goal::AtLeast(0.70);
/// A server that keeps documents in another database takes ten times as long.
const SHARE_OF_BACKLOG: usize = 10;

/// Takes the figures of one part.
pub async fn run(part: &str, url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    match part {
        "drain" => drain::measure::<Ground>(url, sizes.rounds, sizes.backlog / SHARE_OF_BACKLOG, GOAL).await,
        "end-to-end" => end_to_end::measure::<Ground>(url, sizes.rounds, WRITERS, sizes.window, GOAL).await,
        other => anyhow::bail!("unknown part `{other}`: one of {}", PARTS.join(", ")),
    }
}
