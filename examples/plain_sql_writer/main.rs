//! A writer in plain SQL: rows of seed 000's fifteen columns, written by psql or any language, arrive in order. EVT-040
//!
//! `DATABASE_URL=postgres://… cargo run --example plain_sql_writer`, then run what it prints with `psql "$DATABASE_URL"`.
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

use std::env;
use std::time::Duration;

use anyhow::Context;
use pillarbox::{Event, Outbox};
use pillarbox_postgres::PostgresStore;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// An order and two events about it, as any writer may send them.
const WRITE: &str = include_str!("write.sql");

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = env::var("DATABASE_URL").context("set DATABASE_URL, as in postgres://me@localhost/shop")?;
    let pool = PgPoolOptions::new().connect(&url).await.context("no database")?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (arrived, mut arrivals) = mpsc::channel::<Event>(16);
    let outbox = deliver(&pool, arrived).await?;
    println!("write with psql \"$DATABASE_URL\":\n\n{WRITE}");
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            Some(event) = arrivals.recv() => {
                let about = event.aggregate_id().unwrap_or("-");
                println!("{} {about}: {} {}", event.aggregate_type(), event.event_type(), event.id());
            }
        }
    }
    outbox.close().await;
    Ok(())
}

/// Delivers what others write: each type that is expected has a listener, and each aggregate keeps its order.
async fn deliver(pool: &PgPool, arrived: mpsc::Sender<Event>) -> anyhow::Result<Outbox<PostgresStore>> {
    let hand_on = move |event: Event| {
        let arrived = arrived.clone();
        async move { Ok(arrived.send(event).await?) }
    };
    let outbox = Outbox::ordered(PostgresStore::new(pool.clone()))
        .migrate()
        .listener("OrderPlaced", hand_on.clone())
        .listener("OrderPaid", hand_on)
        // Writers that do not NOTIFY are found by polling.
        .poll_interval(Duration::from_secs(1))
        .start()
        .await?;
    Ok(outbox)
}

#[cfg(test)]
#[path = "../fixture.rs"]
mod fixture;
#[cfg(test)]
mod tests;
