//! Many nodes: the same program started several times on one database; bookings of an account stay in order. PBX-011
//!
//! In three terminals: `DATABASE_URL=postgres://… cargo run --example many_nodes -- a`, the same with `b` and with `c`.
//! Each writes bookings and delivers its share. End one with Ctrl-C and another with `kill -9`, and see who takes over.
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

mod bank;

use std::env;
use std::time::Duration;

use anyhow::Context;
use pillarbox::Outbox;
use pillarbox::port::Admin;
use pillarbox_postgres::PostgresStore;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use bank::{Account, BankEvent, Book};

/// How long the others wait before they take over from a node that died.
const LEASE: Duration = Duration::from_secs(3);
/// Between two bookings of one node.
const PACE: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = env::var("DATABASE_URL").context("set DATABASE_URL, as in postgres://me@localhost/bank")?;
    let name = env::args().nth(1).context("give this node a name, as in `many_nodes a`")?;
    let bookings = env::args().nth(2).map(|text| text.parse()).transpose().context("bookings per account")?;
    let pool = PgPoolOptions::new().max_connections(3).connect(&url).await.context("no database")?;
    run(pool, &name, bookings.unwrap_or(1_000)).await
}

/// Books and delivers until it is asked to end: then it drains, leaves, and the others have its share at once.
async fn run(pool: PgPool, name: &str, bookings: i64) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let store = PostgresStore::new(pool.clone());
    store.migrate().await?;
    bank::open(&pool).await?;
    let outbox = Outbox::ordered(store.clone())
        .listener_for(Account, BankEvent::MoneyBooked, Book { node: name.to_owned(), pool: pool.clone() })
        .lease(LEASE)
        .label(name)
        .start()
        .await?;

    let (mut pace, mut look) = (interval(PACE), interval(Duration::from_millis(500)));
    let mut seen = String::new();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = pace.tick() => bank::book(&outbox, bookings).await?,
            _ = look.tick() => {
                let now = who_holds_what(&store).await?;
                if now != seen {
                    println!("{name} sees {now}");
                    seen = now;
                }
            }
        }
    }
    println!("{name} leaves");
    outbox.close().await;
    pool.close().await;
    Ok(())
}

/// As in `a: 22 slots, b: 21 slots`; a node has its share of the 64 slots, and its own lane.
async fn who_holds_what(store: &PostgresStore) -> anyhow::Result<String> {
    let nodes = store.nodes().await?;
    let shares: Vec<String> =
        nodes.iter().map(|node| format!("{}: {} slots", node.label, node.slots)).collect();
    Ok(shares.join(", "))
}

#[cfg(test)]
#[path = "../fixture.rs"]
mod fixture;
#[cfg(test)]
mod tests;
