//! A worker process that delivers orders from the shared database until its standard input closes.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use hyper::Uri;
use pillarbox::rules::Exponential;
use pillarbox::{Event, Failure, Outbox};
use pillarbox_sqlite::SqliteStore;
use pillarbox_terminal::error::{CommandError, CommandResult};
use tokio::sync::oneshot;

use crate::post::{Post, PostResult};
use crate::receiver::PATH;
use crate::shop::{Account, OrderPlaced};

/// The first argument that starts the program as a worker.
pub const COMMAND: &str = "demo-worker";
/// The line that a worker prints once it delivers.
pub(crate) const READY: &str = "ready";

/// Arguments of a worker process.
#[derive(Debug, Parser)]
pub struct DemoWorker {
    #[arg(long)]
    database: PathBuf,
    #[arg(long)]
    receiver: SocketAddr,
    #[arg(long)]
    label: String,
    #[arg(long)]
    lease_ms: u64,
}

impl DemoWorker {
    /// Delivers until its standard input closes.
    pub async fn run(self) -> CommandResult {
        let receiver = Uri::builder()
            .scheme("http")
            .authority(self.receiver.to_string())
            .path_and_query(PATH)
            .build()
            .map_err(|_| CommandError::usage("the receiver is not an address"))?;
        let post = Post::new(receiver, self.label.clone());
        let store = SqliteStore::open(&self.database)?;
        let retry = Exponential { base: Duration::from_millis(50), max: Duration::from_secs(1) };
        let outbox = Outbox::ordered(store)
            .listener_for(Account, OrderPlaced, move |event: Event| {
                let post = post.clone();
                async move { verdict(post.send(&event).await) }
            })
            .workers(4)
            .max_attempts(5)
            .retry(retry)
            .lease(Duration::from_millis(self.lease_ms))
            .label(self.label)
            .start()
            .await?;
        writeln!(io::stdout(), "{READY}")?;
        until_input_ends().await;
        outbox.close().await;
        Ok(())
    }
}

/// The result of a delivery for the outbox.
fn verdict(answer: PostResult) -> Result<(), Failure> {
    match answer {
        PostResult::Taken => Ok(()),
        PostResult::Refused(status) => Err(Failure::retry(format!("the receiver answered {status}"))),
        PostResult::Rejected(status) => Err(Failure::permanent(format!("the receiver answered {status}"))),
        PostResult::Silence => Err(Failure::unavailable("the receiver does not answer", None)),
    }
}

/// Waits until standard input closes, which happens whenever the demo ends, even by a crash.
async fn until_input_ends() {
    let (closed, mut ended) = oneshot::channel::<()>();
    // On a plain thread, because tokio's shutdown would wait for a blocking read.
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut scrap = [0; 64];
        while matches!(input.read(&mut scrap), Ok(read) if read > 0) {}
        drop(closed);
    });
    loop {
        tokio::select! {
            _ = &mut ended => return,
            // Ctrl-C reaches every process of the terminal. It is ignored here, because the demo ends its
            // workers.
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}
