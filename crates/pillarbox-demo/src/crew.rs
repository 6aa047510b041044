//! Starts, kills and ends the worker processes of the demo.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use pillarbox_terminal::error::{CommandError, CommandResult};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::worker::{COMMAND, READY};

const TO_START: Duration = Duration::from_secs(20);
const TO_END: Duration = Duration::from_secs(10);

/// The arguments of every worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orders<'a> {
    pub(crate) database: &'a Path,
    pub(crate) receiver: SocketAddr,
    pub(crate) lease: Duration,
}

/// A worker process. It is killed when this is dropped, and ends by itself when its standard input closes.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) label: String,
    child: Child,
}

impl Worker {
    /// Starts a worker and waits until it delivers.
    pub(crate) async fn start(label: &str, orders: Orders<'_>) -> CommandResult<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .arg("--database")
            .arg(orders.database)
            .args(["--receiver", &orders.receiver.to_string(), "--label", label])
            .args(["--lease-ms", &orders.lease.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| CommandError::failed("a worker has no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        match timeout(TO_START, lines.next_line()).await {
            Ok(Ok(Some(line))) if line == READY => Ok(Self { label: label.to_owned(), child }),
            Ok(_) => Err(CommandError::failed(format!("{label} ended before it was ready"))),
            Err(_) => {
                Err(CommandError::failed(format!("{label} was not ready within {} s", TO_START.as_secs())))
            }
        }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Kills the worker like a crash, without a graceful shutdown.
    pub(crate) async fn kill(mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Asks the worker to drain and exit.
    pub(crate) async fn end(mut self) -> CommandResult {
        drop(self.child.stdin.take());
        match timeout(TO_END, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(CommandError::failed(format!("{} ended with {status}", self.label))),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(CommandError::failed(format!("{} did not end in time", self.label))),
        }
    }
}
