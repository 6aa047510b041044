//! Two databases in one process: an outbox each, with metrics of its own; one's events lead to the other's. EVT-170
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use pillarbox::events::FacadeMetrics;
use pillarbox::{Event, EventType, Outbox};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::mpsc;

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
enum ShopEvent {
    OrderPlaced,
}

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
enum BillingEvent {
    InvoiceIssued,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    run(folder.path(), 3).await.map(drop)
}

async fn open(folder: &Path, name: &str, table: &'static str) -> anyhow::Result<SqliteStore> {
    let store = SqliteStore::builder(folder.join(format!("{name}.db"))).name(name).open()?;
    let outbox = Outbox::writer_only(store.clone()).migrate().start().await?;
    outbox.transaction(move |tx| tx.execute_batch(table)).await?;
    Ok(store)
}

/// The shop's database has orders; each one's event becomes an invoice in the other database, whose event is mailed.
async fn run(folder: &Path, orders: u32) -> anyhow::Result<Vec<u32>> {
    let (mailed, mut mails) = mpsc::channel(16);
    let store =
        open(folder, "billing", "create table invoice (cause text primary key, number integer)").await?;
    let billing = Outbox::single_node(store)
        .listener(BillingEvent::InvoiceIssued, move |event: Event| {
            let mailed = mailed.clone();
            async move { Ok(mailed.send(event.json_as::<u32>()?).await?) }
        })
        .metrics(Arc::new(FacadeMetrics::with_prefix("billing")))
        .start()
        .await?;

    let store = open(folder, "shop", "create table orders (number integer primary key)").await?;
    let bills = billing.clone();
    let shop = Outbox::single_node(store)
        .listener(ShopEvent::OrderPlaced, move |event: Event| {
            let bills = bills.clone();
            async move { Ok(bill(&bills, event).await?) }
        })
        .metrics(Arc::new(FacadeMetrics::with_prefix("shop")))
        .start()
        .await?;

    for number in 1..=orders {
        let placed = shop.transaction(move |tx| {
            tx.execute("insert into orders (number) values (?1)", [number])?;
            tx.write(Event::json(ShopEvent::OrderPlaced, &number)?)?;
            anyhow::Ok(())
        });
        placed.await?;
        println!("order {number}: placed in the shop's database");
    }

    let mut numbers = Vec::new();
    while numbers.len() < orders as usize {
        let number = mails.recv().await.context("billing has gone")?;
        println!("order {number}: its invoice is mailed");
        numbers.push(number);
    }
    shop.close().await;
    billing.close().await;
    Ok(numbers)
}

/// An event may come more than once, and its id says so: the second invoice is not written, nor its event.
async fn bill(billing: &Outbox<SqliteStore>, event: Event) -> anyhow::Result<()> {
    let number: u32 = event.json_as()?;
    let billed = billing.transaction(move |tx| {
        let insert = "insert or ignore into invoice (cause, number) values (?1, ?2)";
        if tx.execute(insert, (event.id().as_str(), number))? == 1 {
            tx.write(Event::json(BillingEvent::InvoiceIssued, &number)?)?;
        }
        anyhow::Ok(())
    });
    Ok(billed.await?)
}

#[cfg(test)]
#[path = "two_databases/tests.rs"]
mod tests;
