//! The PostgreSQL store beside bare statements of the same driver, on the same server, in turns.

mod business;
mod drain;
mod end_to_end;
mod fetch;
mod fixture;
mod held;
mod idle;
mod insert;
mod latency;
mod life;
mod pipelined;
mod proxy;
mod queue;
mod relay;
mod relays;
pub(crate) mod server;
mod wake_up;
mod watched;

use std::time::Duration;

use crate::figure::Figure;

/// What can be measured, by name.
pub const PARTS: [&str; 15] = [
    "drain",
    "end-to-end",
    "insert",
    "latency",
    "queue",
    "queue-latency",
    "fetch",
    "held",
    "life",
    "idle",
    "wake-up",
    "relays",
    "relay",
    "relay-latency",
    "relay-memory",
];

/// How large everything is.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Rounds of each comparison.
    pub rounds: usize,
    /// Rows of a drain.
    pub backlog: usize,
    /// How long writers write.
    pub window: Duration,
    /// Rows that are done, beside which a fetch is measured.
    pub done: usize,
    /// Transactions whose cost is counted.
    pub counted: usize,
    /// How long an idle node is watched.
    pub idle: Duration,
}

impl Sizes {
    /// What the published figures are taken with.
    #[must_use]
    pub fn full() -> Self {
        Self {
            rounds: 7,
            backlog: 100_000,
            window: Duration::from_secs(4),
            done: 5_000_000,
            counted: 20_000,
            idle: Duration::from_secs(60),
        }
    }

    /// A look in a few minutes.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            rounds: 5,
            backlog: 50_000,
            window: Duration::from_millis(1_500),
            done: 1_000_000,
            counted: 2_000,
            idle: Duration::from_secs(20),
        }
    }
}

/// Takes the figures of one part.
pub async fn run(part: &str, url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    match part {
        "drain" => drain::measure(url, sizes).await,
        "end-to-end" => end_to_end::measure(url, sizes).await,
        "insert" => insert::measure(url, sizes).await,
        "latency" => latency::measure(url, sizes).await,
        "queue" => queue::measure(url, sizes).await,
        "queue-latency" => queue::measure_latency(url, sizes).await,
        "fetch" => fetch::measure(url, sizes).await,
        "held" => held::measure(url, sizes).await,
        "life" => life::measure(url, sizes).await,
        "idle" => idle::measure(url, sizes).await,
        "wake-up" => wake_up::measure(url, sizes).await,
        "relays" => relays::measure(url, sizes).await,
        "relay" => relay::measure(url, sizes).await,
        "relay-latency" => relay::measure_latency(url, sizes).await,
        "relay-memory" => relay::measure_memory(url, sizes).await,
        other => anyhow::bail!("unknown part `{other}`: one of {}", PARTS.join(", ")),
    }
}
