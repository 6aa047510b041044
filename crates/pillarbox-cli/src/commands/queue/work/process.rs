//! Runs the command as a process group: passes the payload, collects standard error, and kills it on drop.

use std::io::{self, Write as _};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pillarbox::model::Payload;
use pillarbox::queue::Message;
use pillarbox::redact;
use pillarbox_terminal::output::Reader;
use pillarbox_terminal::pipe::LogWriter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum bytes kept of the end of its standard error.
const TAIL: usize = 2_000;
/// How long to wait for standard error after the exit. A background process of the command may keep it open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The result of a run.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The end of its standard error.
    pub(super) tail: String,
}

/// Runs the command for a message. If the future is dropped, the command and all its child processes are
/// killed.
pub(super) async fn run(command: &str, reader: Reader, message: &Message) -> io::Result<Ended> {
    let mut group = Group(prepared(command, reader, message).spawn()?);
    let (stdin, stderr) = (group.0.stdin.take(), group.0.stderr.take());
    let tail = Mutex::new(Vec::new());
    let mut talk =
        std::pin::pin!(async { tokio::join!(feed(stdin, message.payload()), listen(stderr, &tail)) });
    let mut talked = false;
    let status = loop {
        tokio::select! {
            status = group.0.wait() => break status?,
            _ = &mut talk, if !talked => talked = true,
        }
    };
    if !talked {
        let _ = timeout(LAST_WORDS, talk).await;
    }
    let tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    let tail = redact::text(String::from_utf8_lossy(&tail).trim());
    Ok(Ended { status, tail })
}

fn prepared(command: &str, reader: Reader, message: &Message) -> Command {
    let mut prepared = Command::new("sh");
    prepared.arg("-c").arg(command).kill_on_drop(true);
    prepared.stdin(Stdio::piped()).stderr(Stdio::piped());
    // With `--json` our standard output contains only documents.
    prepared.stdout(match reader {
        Reader::People => Stdio::inherit(),
        Reader::Programs => Stdio::from(io::stderr()),
    });
    for (name, value) in variables(message) {
        match value {
            Some(value) => prepared.env(name, value),
            None => prepared.env_remove(name),
        };
    }
    #[cfg(unix)]
    prepared.process_group(0);
    prepared
}

fn variables(message: &Message) -> [(&'static str, Option<String>); 11] {
    let headers: serde_json::Map<String, serde_json::Value> =
        message.event().headers().iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    [
        ("PILLARBOX_MESSAGE_ID", Some(message.message_id().to_string())),
        ("PILLARBOX_ITEM", Some(message.id().to_string())),
        ("PILLARBOX_TOKEN", Some(message.id().token().to_string())),
        ("PILLARBOX_OWNER", Some(message.owner().to_string())),
        ("PILLARBOX_TOPIC", Some(message.topic().to_owned())),
        ("PILLARBOX_RETRY_COUNT", Some(message.retry_count().to_string())),
        ("PILLARBOX_CREATED_AT", Some(message.created_at().to_string())),
        ("PILLARBOX_HEADERS", Some(serde_json::Value::from(headers).to_string())),
        ("PILLARBOX_CORRELATION_ID", message.correlation_id().map(str::to_owned)),
        ("PILLARBOX_DUE_AT", message.due_time().map(|at| at.to_string())),
        ("PILLARBOX_LAST_ERROR", message.last_error().map(str::to_owned)),
    ]
}

/// Writes the payload to standard input. Errors are ignored, because a command need not read its input.
async fn feed(stdin: Option<ChildStdin>, payload: &Payload) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload.as_bytes()).await;
        let _ = stdin.shutdown().await;
    }
}

/// Copies the command's standard error to ours, and keeps its end.
async fn listen(stderr: Option<ChildStderr>, tail: &Mutex<Vec<u8>>) {
    let Some(mut stderr) = stderr else { return };
    let mut chunk = [0; 4_096];
    while let Ok(len @ 1..) = stderr.read(&mut chunk).await {
        {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend_from_slice(&chunk[..len]);
            let over = tail.len().saturating_sub(TAIL);
            tail.drain(..over);
        }
        // On a blocking thread: a slow reader of our standard error must not delay the renewal of leases.
        let passed_on = chunk[..len].to_vec();
        let _ = spawn_blocking(move || LogWriter.write_all(&passed_on)).await;
    }
}

/// A process and its process group.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            // `None` if the process was waited for. Its id may belong to another process by now.
            let leader = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            if let Some(leader) = leader {
                let _ = kill_process_group(leader, Signal::KILL);
            }
        }
    }
}
