//! A fan-out that ends in one step: three extractions run in any order, then the transformation runs once. OBX-204
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use pillarbox::model::JoinStatus;
use pillarbox::queue::{JoinBuilder, Message, Waiting};
use pillarbox::{Event, Queue};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::mpsc;

const EXTRACTIONS: [&str; 3] = ["extract.customers", "extract.orders", "extract.products"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    run(&folder.path().join("etl.db")).await.map(drop)
}

/// The topics, in the order their handlers ran.
async fn run(file: &Path) -> anyhow::Result<Vec<String>> {
    let queue = Queue::new(SqliteStore::open(file)?);
    queue.migrate().await?;

    // Everything in one transaction: either the whole fan-out is there, or nothing of it.
    let planned = queue.clone();
    let join = queue
        .transaction(move |tx| {
            let joins = planned.joins();
            let join = joins.start_on_blocking(tx, JoinBuilder::of(3).grouping_key("customer-7"))?;
            let steps = EXTRACTIONS.map(|topic| Event::text(topic, r#"{"customer":7}"#));
            let steps = planned.enqueue_on_blocking(tx, steps)?;
            let steps: Vec<_> = steps.into_iter().map(|step| step.message).collect();
            joins.attach_on_blocking(tx, &join, &steps)?;
            let waiting = Waiting::new()
                .on_complete("etl.transform", r#"{"customer":7}"#)
                .on_fail("etl.clean-up", r#"{"customer":7}"#);
            joins.wait_on_blocking(tx, &join, waiting)?;
            Ok::<_, anyhow::Error>(join)
        })
        .await?;

    let (ran, mut topics) = mpsc::channel(16);
    let mut worker = queue.worker().poll_interval(Duration::from_millis(50));
    // No handler knows of the join.
    for topic in EXTRACTIONS.into_iter().chain(["etl.transform", "etl.clean-up"]) {
        let ran = ran.clone();
        worker = worker.handler(topic, move |message: Message| {
            let ran = ran.clone();
            async move { Ok(ran.send(message.topic().to_owned()).await?) }
        });
    }
    let worker = worker.start()?;
    let mut order = Vec::new();
    while order.last().is_none_or(|topic| topic != "etl.transform") {
        let topic = topics.recv().await.context("the worker has gone")?;
        println!("{topic}");
        order.push(topic);
    }
    worker.close().await;
    let shown = queue.joins().show(&join, 10).await?;
    println!(
        "{} of {} steps completed: {}",
        shown.join.completed,
        shown.join.expected,
        shown.join.status.as_str()
    );
    anyhow::ensure!(shown.join.status == JoinStatus::Completed, "the join did not complete");
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OBX-204, OBX-093
    #[tokio::test]
    async fn the_transformation_runs_once_after_all_extractions() {
        let folder = tempfile::tempdir().unwrap();
        let mut order = run(&folder.path().join("etl.db")).await.unwrap();
        assert_eq!(order.pop().as_deref(), Some("etl.transform"));
        order.sort_unstable();
        assert_eq!(order, EXTRACTIONS);
    }
}
