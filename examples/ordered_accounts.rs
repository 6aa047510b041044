//! Ordered accounts: bookings of one account arrive in order whatever fails, and other accounts go on. PBX-010
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use pillarbox::events::DeadFilter;
use pillarbox::port::{Admin, HeldGroups};
use pillarbox::rules::Exponential;
use pillarbox::{AggregateType, Event, EventType, Failure, Outbox};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::mpsc;

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
enum BankEvent {
    MoneyBooked,
}

#[derive(AggregateType)]
struct Account;

/// An account, and which of its bookings.
type Booking = (&'static str, u32);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    run(&folder.path().join("bank.db")).await.map(drop)
}

/// What arrived, in the order it did: first while Carol's second booking can't be read, then after that was repaired.
async fn run(file: &Path) -> anyhow::Result<(Vec<Booking>, Vec<Booking>)> {
    let store = SqliteStore::open(file)?;
    store.migrate().await?;

    let (arrived, mut arrivals) = mpsc::channel(16);
    let (repaired, flaky) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let can_read = Arc::clone(&repaired);
    let start = async || {
        let (arrived, can_read, flaky) = (arrived.clone(), Arc::clone(&can_read), Arc::clone(&flaky));
        Outbox::ordered(store.clone())
            .listener_for(Account, BankEvent::MoneyBooked, move |event: Event| {
                let judged = judge(&event, &can_read, &flaky);
                let arrived = arrived.clone();
                async move { Ok(arrived.send(judged?).await?) }
            })
            .retry(Exponential { base: Duration::from_millis(50), max: Duration::from_secs(1) })
            .lease(Duration::from_millis(600))
            .start()
            .await
    };

    let outbox = start().await?;
    for number in 1..=3 {
        for account in ["alice", "bob", "carol"] {
            let event = Event::json(BankEvent::MoneyBooked, &number)?.aggregate(Account, account);
            outbox.transaction(move |tx| tx.write(event).map(drop)).await?;
        }
    }
    let first = take(&mut arrivals, 7).await?;
    outbox.close().await;

    let outbox = start().await?;
    for held in store.groups(HeldGroups::first()).await? {
        println!("{} is blocked, also after a restart: {}", held.group, held.reason.unwrap_or_default());
    }
    repaired.store(true, Ordering::Relaxed);
    let replayed = outbox.dead("the example").replay_all(&DeadFilter::default(), 10).await?;
    println!("repaired: {replayed} booking replayed");
    let second = take(&mut arrivals, 2).await?;
    outbox.close().await;
    Ok((first, second))
}

/// Bob's first booking fails once; Carol's second one can't be read until that is repaired.
fn judge(event: &Event, can_read: &AtomicBool, flaky: &AtomicBool) -> Result<Booking, Failure> {
    let number: u32 = event.json_as()?;
    let account = match event.aggregate_id() {
        Some("bob") if number == 1 && flaky.swap(false, Ordering::Relaxed) => {
            println!("bob 1: fails, and holds back what follows it");
            return Err(Failure::retry("the ledger is locked"));
        }
        Some("carol") if number == 2 && !can_read.load(Ordering::Relaxed) => {
            println!("carol 2: can't be read, and dies");
            return Err(Failure::permanent("unknown currency"));
        }
        Some("carol") => "carol",
        Some("bob") => "bob",
        _ => "alice",
    };
    println!("{account} {number}: booked");
    Ok((account, number))
}

async fn take(arrivals: &mut mpsc::Receiver<Booking>, count: usize) -> anyhow::Result<Vec<Booking>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(arrivals.recv().await.context("the outbox has gone")?);
    }
    Ok(taken)
}

#[cfg(test)]
#[path = "ordered_accounts/tests.rs"]
mod tests;
