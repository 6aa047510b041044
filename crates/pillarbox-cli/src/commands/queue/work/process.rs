//! Runs the command as a process group: passes its input, collects standard error, and kills it on drop.

use std::io::{self, Write as _};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
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

use super::pipes::Pipes;
use crate::environment::secret_variables;

/// Maximum bytes kept of the end of its standard error.
const TAIL: usize = 2_000;
/// How long to wait for standard error after the exit. A background process of the command may keep it open.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(200);

/// Up to this many bytes, the variables of a message are not the reason why the system refuses to start a
/// command. Linux allows 128 KiB for one variable and at least as much for all of them.
const HARMLESS: usize = 64 * 1_024;

/// The reason why a command did not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStarted {
    /// No command can be started with the variables of this message.
    #[error("no command can be started with the topic, headers and ids of this message: {0}")]
    Message(io::Error),
    /// The system can't start the command now.
    #[error("the command can't be started: {0}")]
    System(io::Error),
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The end of its standard error.
    pub(super) tail: String,
}

/// Starts the command: by `sh -c`, in a process group of its own, without our secrets in its environment.
#[derive(Debug, Clone)]
pub(super) struct Launcher {
    command: Arc<str>,
    reader: Reader,
    /// The environment variables that the command does not get.
    withheld: Arc<[String]>,
}

impl Launcher {
    /// A launcher that passes on our environment without the variables that hold secrets, except for those
    /// in `pass_env`.
    pub(super) fn new(command: &str, reader: Reader, pass_env: &[String]) -> Self {
        let withheld = secret_variables().filter(|name| !pass_env.contains(name)).collect();
        Self { command: command.into(), reader, withheld }
    }

    /// Runs the command for a message. If the future is dropped, the command and all its child processes are
    /// killed.
    pub(super) async fn run(&self, message: &Message) -> Result<Ended, NotStarted> {
        let variables = variables(message);
        let mut prepared = self.prepared();
        for (name, value) in &variables {
            match value {
                Some(value) => prepared.env(name, value),
                None => prepared.env_remove(name),
            };
        }
        let mut group = Group(prepared.spawn().map_err(|error| not_started(error, &variables))?);
        let (stdin, stderr) = (group.0.stdin.take(), group.0.stderr.take());
        let tail = Mutex::new(Vec::new());
        let mut talk =
            std::pin::pin!(async { tokio::join!(feed(stdin, message.payload()), listen(stderr, &tail)) });
        let mut talked = false;
        let status = loop {
            tokio::select! {
                status = group.0.wait() => break status.map_err(NotStarted::System)?,
                _ = &mut talk, if !talked => talked = true,
            }
        };
        if !talked {
            let _ = timeout(LAST_WORDS, talk).await;
        }
        Ok(Ended { status, tail: self::tail(&tail) })
    }

    /// Starts the command as a long-lived process, with pipes for its input, output and errors.
    pub(super) fn start(&self) -> io::Result<(Group, Pipes, Option<ChildStderr>)> {
        let mut group = Group(self.prepared().stdout(Stdio::piped()).spawn()?);
        let (Some(stdin), Some(stdout)) = (group.0.stdin.take(), group.0.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let stderr = group.0.stderr.take();
        Ok((group, Pipes::new(stdin, stdout), stderr))
    }

    /// The command without the variables of a message.
    fn prepared(&self) -> Command {
        let mut prepared = Command::new("sh");
        prepared.arg("-c").arg(&*self.command).kill_on_drop(true);
        prepared.stdin(Stdio::piped()).stderr(Stdio::piped());
        // With `--json` our standard output contains only documents.
        prepared.stdout(match self.reader {
            Reader::People => Stdio::inherit(),
            Reader::Programs => Stdio::from(io::stderr()),
        });
        for name in &*self.withheld {
            prepared.env_remove(name);
        }
        #[cfg(unix)]
        prepared.process_group(0);
        prepared
    }
}

/// The end of standard error, without secrets.
pub(super) fn tail(tail: &Mutex<Vec<u8>>) -> String {
    let tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    redact::text(String::from_utf8_lossy(&tail).trim())
}

/// Tells whether the message or the system is the reason. A NUL byte can only be the message's, and too many
/// bytes are if it has many: a message must not die because our own environment is too large.
fn not_started(error: io::Error, variables: &Variables) -> NotStarted {
    let values = || variables.iter().filter_map(|(_, value)| value.as_deref());
    let is_message = match error.kind() {
        io::ErrorKind::InvalidInput => values().any(|value| value.contains('\0')),
        io::ErrorKind::ArgumentListTooLong => values().map(str::len).sum::<usize>() > HARMLESS,
        _ => false,
    };
    if is_message { NotStarted::Message(error) } else { NotStarted::System(error) }
}

/// The environment variables of a message; those without a value are removed.
type Variables = [(&'static str, Option<String>); 11];

fn variables(message: &Message) -> Variables {
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
pub(super) async fn listen(stderr: Option<ChildStderr>, tail: &Mutex<Vec<u8>>) {
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
pub(super) struct Group(pub(super) Child);

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
