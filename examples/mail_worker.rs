//! A worker that sends mails, and sends each once: it notes what it has sent in the transaction that settles the message. OBX-204
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pillarbox::queue::{Handler, Message};
use pillarbox::rules::Fixed;
use pillarbox::{Event, Failure, Queue};
use pillarbox_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

/// Sends mails; the first attempt to reach the server fails.
struct SendMail {
    queue: Queue<SqliteStore>,
    server_is_down_for: AtomicU32,
    sent: mpsc::Sender<String>,
}

impl Handler for SendMail {
    async fn handle(&self, message: Message) -> Result<(), Failure> {
        let mail: Mail = message.event().json_as().map_err(Failure::permanent)?;
        let id = message.message_id().clone();
        let sent_before = self
            .queue
            .transaction(move |tx| {
                tx.query_row(
                    "select exists (select 1 from sent_mail where message_id = ?1)",
                    [id.as_str()],
                    |row| row.get::<_, bool>(0),
                )
            })
            .await?;
        if sent_before {
            println!("mail to {}: already sent", mail.to);
            return Ok(());
        }
        if self
            .server_is_down_for
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .is_ok()
        {
            println!("mail to {}: the server is down, so it is tried again", mail.to);
            return Err(Failure::retry("the mail server is down"));
        }
        println!("mail to {}: sent", mail.to);
        self.sent.send(mail.to).await?;
        // The note and the done mark commit together.
        let queue = self.queue.clone();
        self.queue
            .transaction(move |tx| {
                tx.execute(
                    "insert into sent_mail (message_id) values (?1)",
                    [message.message_id().as_str()],
                )?;
                queue.complete_on_blocking(tx, &message)?;
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    run(&folder.path().join("mail.db")).await.map(drop)
}

/// Enqueues three mails, works on them, and tells to whom they went.
async fn run(file: &Path) -> anyhow::Result<Vec<String>> {
    let queue = Queue::new(SqliteStore::open(file)?);
    queue.migrate().await?;
    queue.transaction(|tx| tx.execute_batch("create table sent_mail (message_id text primary key)")).await?;
    let (sent, mut mails) = mpsc::channel(16);
    let handler = SendMail { queue: queue.clone(), server_is_down_for: AtomicU32::new(1), sent };
    let worker = queue
        .worker()
        .handler("email.send", handler)
        .retry(Fixed(Duration::from_millis(20)))
        .poll_interval(Duration::from_millis(50))
        .start()?;
    for to in ["ann@example.org", "bob@example.org", "carl@example.org"] {
        queue
            .enqueue(Event::json("email.send", &Mail { to: to.to_owned() })?.correlation_id("newsletter-7"))
            .await?;
    }
    let mut sent = Vec::new();
    while sent.len() < 3 {
        sent.extend(mails.recv().await);
    }
    worker.close().await;
    let done = queue.stats().await?.queue.done;
    println!("{done} messages are done");
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use pillarbox::port::Admin;

    use super::*;

    /// OBX-204, OBX-058, PBX-025
    #[tokio::test]
    async fn every_mail_is_sent_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mail.db");
        let mut sent = run(&file).await.unwrap();
        sent.sort_unstable();
        assert_eq!(sent, ["ann@example.org", "bob@example.org", "carl@example.org"]);
        let stats = SqliteStore::open(&file).unwrap().stats().await.unwrap();
        assert_eq!(stats.by_status(), [0, 3, 0, 0]);
    }
}
