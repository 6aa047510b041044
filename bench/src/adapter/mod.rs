//! Our own contenders and the floors as adapters: a process each, with the protocol of every peer.

mod floor;
mod ours;
mod protocol;

use floor::{Floor, Way};
use ours::{Kind, Ours};
use pillarbox::port::OnDone;

/// Runs the adapter of this name; the arguments are its scenario.
pub async fn run(name: &str, arguments: &[String]) -> anyhow::Result<()> {
    let ours = match name {
        "outbox-delete" => (Kind::Outbox, OnDone::Delete),
        "outbox-keep" => (Kind::Outbox, OnDone::Keep),
        "ordered-delete" => (Kind::Ordered, OnDone::Delete),
        "queue-delete" => (Kind::Queue, OnDone::Delete),
        "queue-keep" => (Kind::Queue, OnDone::Keep),
        "floor-read" => return protocol::run(Floor::open(Way::Read).await?, arguments).await,
        "floor-lease" => return protocol::run(Floor::open(Way::Lease).await?, arguments).await,
        _ => anyhow::bail!("unknown adapter {name}"),
    };
    protocol::run(Ours::open(ours.0, ours.1).await?, arguments).await
}
