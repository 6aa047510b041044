//! Embedded: orders and their events in one SQLite file, a listener in the process, a retry. EVT-170
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use pillarbox::port::{StatusCounts, TransactError};
use pillarbox::rules::Exponential;
use pillarbox::{Event, EventType, Failure, Outbox};
use pillarbox_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
enum ShopEvent {
    OrderPlaced,
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    cents: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    run(&folder.path().join("shop.db")).await.map(drop)
}

/// Places four orders, one of which is rolled back; the numbers of the orders that were mailed, in the order of mails.
async fn run(file: &Path) -> anyhow::Result<Vec<u32>> {
    let (mailed, mut mails) = mpsc::channel(16);
    let mail_server_is_up = AtomicBool::new(false);
    let outbox = Outbox::single_node(SqliteStore::open(file)?)
        .migrate()
        .listener(ShopEvent::OrderPlaced, move |event: Event| {
            let up = mail_server_is_up.swap(true, Ordering::Relaxed);
            let mailed = mailed.clone();
            async move {
                let order: Order = event.json_as()?;
                if !up {
                    println!("order {}: the mail server is down, so it is tried again", order.number);
                    return Err(Failure::retry("the mail server is down"));
                }
                println!("order {}: mailed", order.number);
                mailed.send(order.number).await?;
                Ok(())
            }
        })
        .retry(Exponential { base: Duration::from_millis(20), max: Duration::from_secs(1) })
        .start()
        .await?;

    outbox
        .transaction(|tx| tx.execute_batch("create table orders (number integer primary key, cents integer)"))
        .await?;
    for (number, cents) in [(1, 995), (2, 0), (3, 450), (4, 1_200)] {
        match place(&outbox, Order { number, cents }).await {
            Ok(()) => println!("order {number}: placed"),
            Err(TransactError::Body(why)) => println!("order {number}: rolled back, {why}"),
            Err(error) => return Err(error.into()),
        }
    }

    let mut numbers = Vec::new();
    while numbers.len() < 3 {
        numbers.push(mails.recv().await.context("the outbox has gone")?);
    }
    outbox.close().await;

    let stats = outbox.stats().await?;
    let StatusCounts { new, retry, done, dead } = stats.events;
    println!("in the table: {new} new, {done} done, {retry} to be tried again, {dead} dead");
    Ok(numbers)
}

/// The order and its event are both there after the commit, or neither is.
async fn place(outbox: &Outbox<SqliteStore>, order: Order) -> Result<(), TransactError<anyhow::Error>> {
    let placed = outbox.transaction(move |tx| {
        tx.execute("insert into orders (number, cents) values (?1, ?2)", (order.number, order.cents))?;
        tx.write(Event::json(ShopEvent::OrderPlaced, &order)?)?;
        ensure!(order.cents > 0, "an order must cost something");
        Ok(())
    });
    placed.await
}

#[cfg(test)]
mod tests {
    use pillarbox::port::Admin;

    use super::*;

    /// EVT-170: the event of the order that was rolled back is never delivered, and a failed one comes again.
    #[tokio::test]
    async fn every_order_that_was_committed_is_mailed_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        let mut numbers = run(&file).await.unwrap();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 3, 4]);
        let stats = SqliteStore::open(&file).unwrap().stats().await.unwrap();
        assert_eq!((stats.by_status(), stats.nodes), ([0, 3, 0, 0], 0));
    }
}
