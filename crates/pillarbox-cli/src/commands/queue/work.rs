//! `queue work`: runs a command for each message, so that a worker can be written in any language.

mod exec;
mod long_lived;
mod pipes;
mod process;
mod report;

use std::time::Duration;

use clap::{Args, ValueEnum};
use pillarbox::events::PurgeSettings;
use pillarbox::port::Store;
use pillarbox::queue::{Handler, Selection, SelectionState, Worker};
use pillarbox::rules::Lease;
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::interrupts::Interrupts;
use pillarbox_terminal::output::Output;
use pillarbox_terminal::pipe;
use tokio::sync::mpsc;

use crate::commands::Session;
use crate::environment::secret_variables;
use crate::parse;
use exec::Exec;
use long_lived::{ProcessPlan, Processes};
use process::Launcher;
use report::{Ending, Report, Tally};

/// Maximum number of reports that wait to be printed. A command starts only if there is room for its report.
const REPORTS: usize = 1_024;
/// Maximum number of messages that are handled at once.
const HANDLERS: u64 = 1_024;
/// The longest deadline of a handler.
const LONGEST_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

pub(super) const AFTER_HELP: &str = "\
Examples:
  pillarbox queue work --exec ./send-mail --topic mail.send --workers 8
  pillarbox queue work --exec 'jq .id' --until-empty
  pillarbox queue work --exec 'python3 worker.py' --protocol jsonl
  pillarbox queue work --exec './import \"$PILLARBOX_MESSAGE_ID\"' --deadline 10m --max-attempts 3

CMD is run by `sh -c` with the payload on its standard input and these environment variables:
PILLARBOX_MESSAGE_ID (the same at each attempt), PILLARBOX_ITEM (ID@TOKEN), PILLARBOX_TOKEN, PILLARBOX_OWNER,
PILLARBOX_TOPIC, PILLARBOX_RETRY_COUNT, PILLARBOX_CREATED_AT, PILLARBOX_HEADERS (JSON), and if the message has them
PILLARBOX_CORRELATION_ID, PILLARBOX_DUE_AT, PILLARBOX_LAST_ERROR.
Other environment variables are passed on, except those that hold secrets of Pillarbox, such as
PILLARBOX_DATABASE_URL; --pass-env NAME passes one of them on too.

Its exit code settles the message:
  0    done
  65   dead at once: no retry can help
  75   retried after 2, 4, 8 … up to 60 s; the same for every other code, and if CMD is killed;
       the end of its standard error is stored as the error
At the deadline CMD is killed with all its child processes, and the message is retried.
The lease is renewed while CMD runs.
A message whose variables no command can be started with is dead at once: a NUL byte, or too many bytes.

CMD's output is passed through. With --json it goes to standard error, and standard output has one JSON document
per message and a last one with the counts.
A message may be delivered more than once: remember PILLARBOX_MESSAGE_ID if that matters.

A minute after its start, and then every hour, one worker deletes messages and events that have been done or dead
for longer than --retention-done and --retention-dead, except for steps of joins that have not ended.

With --protocol jsonl each of the --workers keeps one process of CMD running. It reads messages from its standard
input, each a line of JSON as `queue claim --json` prints it, and writes verdicts to its standard output:
  {\"item\":\"ID@TOKEN\",\"verdict\":\"ack\"}
  {\"item\":\"ID@TOKEN\",\"verdict\":\"abandon\",\"error\":\"no answer\",\"delay\":\"5m\"}
  {\"item\":\"ID@TOKEN\",\"verdict\":\"fail\",\"error\":\"no such address\"}
Its standard error is passed through. This is many times as fast as a process for each message.
The protocol is described in docs/reference/worker-protocol.md.

With --topic, messages of other topics are left alone; a warning names those that are due.

Ctrl-C and SIGTERM shut the worker down: it stops claiming, running CMDs may end within --drain, and the rest is
killed and released.
If the reader of its standard output or error is gone, it shuts down in the same way, with exit code 0.";

/// Arguments of `queue work`.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The command to run for each message
    #[arg(long, value_name = "CMD", value_parser = parse::command)]
    exec: String,
    /// Pass this environment variable on to CMD although it holds a secret; may be repeated
    #[arg(long, value_name = "NAME", value_parser = secret_variable)]
    pass_env: Vec<String>,
    /// How CMD gets messages: a process for each message, or long-lived processes that read lines of JSON
    #[arg(long, value_enum, default_value_t = Protocol::Process)]
    protocol: Protocol,
    /// With jsonl: messages that one process may have at a time [default: 64, less if there are many workers]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pipeline: Option<u64>,
    /// Only messages of this topic; may be repeated
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Run this many commands at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    workers: u64,
    /// How long the messages of a crashed worker stay claimed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse::lease)]
    lease: Duration,
    /// Hold at most this many messages [default: 50; with jsonl: 2,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: Option<u64>,
    /// Messages larger than this go dead without being loaded
    #[arg(long, value_name = "BYTES", default_value_t = 16_777_216, value_parser = clap::value_parser!(u64).range(2_097_152..=1 << 40))]
    max_row_bytes: u64,
    /// Attempts before a message is dead
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_attempts: u32,
    /// Kill CMD after this long; with jsonl: if it gives no verdict for this long [default: seven eighths of the
    /// lease]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    deadline: Option<Duration>,
    /// How long running CMDs may continue after an interrupt
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse::duration)]
    drain: Duration,
    /// Delete events and messages this long after they were done; `none` keeps them
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = parse::retention)]
    retention_done: Duration,
    /// Delete events and messages this long after they died; `none` keeps them
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = parse::retention)]
    retention_dead: Duration,
    /// Exit when nothing is due; delayed messages and retries stay
    #[arg(long)]
    until_empty: bool,
    /// Exit after one batch
    #[arg(long, conflicts_with = "until_empty")]
    once: bool,
}

/// Parses a value of `--pass-env`. Any other name would have no effect.
fn secret_variable(name: &str) -> Result<String, String> {
    if secret_variables().any(|secret| secret == name) {
        return Ok(name.to_owned());
    }
    let secrets: Vec<String> = secret_variables().collect();
    Err(format!("it is passed on anyway if it is set; these are not: {}", secrets.join(", ")))
}

/// How the command gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    // One process per message: the payload on standard input, the exit code is the verdict
    Process,
    // One process per worker: messages and verdicts as lines of JSON
    Jsonl,
}

/// The condition under which the worker ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Told,
    Empty,
    OneBatch,
}

impl Until {
    async fn comes(self, worker: &Worker) -> Ending {
        match self {
            Self::Told => std::future::pending().await,
            Self::Empty => worker.wait_drained().await,
            Self::OneBatch => worker.wait_idle().await,
        }
        Ending::ByItself
    }
}

/// Claims until one claim has returned messages, or none are due.
struct OneBatch;

impl Selection for OneBatch {
    fn select(&mut self, state: SelectionState<'_>) -> Option<usize> {
        if state.last.is_some_and(|(_, taken)| taken > 0) { None } else { Some(0) }
    }
}

impl Work {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let mut interrupts = Interrupts::listen()?;
        let queue = session.queue().await?;
        // Fails here if the database is unavailable; the worker would retry forever.
        queue.store().admin().check().await?;
        let (reports, mut arriving) = mpsc::channel(REPORTS);
        let until = match (self.until_empty, self.once) {
            (true, _) => Until::Empty,
            (false, true) => Until::OneBatch,
            (false, false) => Until::Told,
        };
        let mut processes = None;
        let worker = match self.protocol {
            Protocol::Process if self.pipeline.is_some() => {
                return Err(CommandError::usage("--pipeline needs --protocol jsonl"));
            }
            Protocol::Process => {
                let exec = Exec::new(self.launcher(session.output), self.max_attempts, reports);
                self.worker(&queue, exec, until)?
            }
            Protocol::Jsonl => {
                let started = Processes::start(&self.plan(session.output)?, self.workers as usize);
                let handler = started.handler(self.max_attempts, reports);
                processes = Some(started);
                self.worker(&queue, handler, until)?
            }
        };
        let mut tally = Tally::new(session.output);
        let ending = go_on(&worker, until, &mut interrupts, &mut arriving, &mut tally).await;
        close(&worker, &mut arriving, &mut tally).await;
        if let Some(processes) = processes {
            processes.close().await;
        }
        tally.end(ending?)
    }

    fn launcher(&self, output: Output) -> Launcher {
        Launcher::new(&self.exec, output.reader(), &self.pass_env)
    }

    /// How long a command may take for a message.
    fn deadline(&self) -> CommandResult<Duration> {
        Ok(self.deadline.unwrap_or(Lease::new(self.lease)?.usable_for()))
    }

    fn pipeline(&self) -> u64 {
        self.pipeline.unwrap_or((HANDLERS / self.workers).min(64))
    }

    fn plan(&self, output: Output) -> CommandResult<ProcessPlan> {
        let handlers = self.workers * self.pipeline();
        if handlers > HANDLERS {
            let many = format!("--workers times --pipeline is {handlers}, at most {HANDLERS} are allowed");
            return Err(CommandError::usage(many));
        }
        Ok(ProcessPlan {
            launcher: self.launcher(output),
            pipeline: self.pipeline() as usize,
            deadline: self.deadline()?,
            drain: self.drain,
            output,
        })
    }

    fn worker<S: Store>(
        self,
        queue: &pillarbox::Queue<S>,
        handler: impl Handler + Clone,
        until: Until,
    ) -> CommandResult<Worker> {
        let (handlers, batch, deadline) = match self.protocol {
            Protocol::Process => (self.workers, 50, self.deadline),
            // The processes have the deadline: a message may wait for all that its process has before it.
            Protocol::Jsonl => {
                let behind = u32::try_from(self.pipeline()).unwrap_or(u32::MAX).saturating_add(2);
                let longest = self.deadline()?.saturating_mul(behind).min(LONGEST_DEADLINE);
                (self.workers * self.pipeline(), 2_000, Some(longest))
            }
        };
        let mut builder = queue
            .worker()
            .workers(handlers as usize)
            .lease(self.lease)
            .batch(self.batch.unwrap_or(batch) as usize)
            .max_row_bytes(usize::try_from(self.max_row_bytes).unwrap_or(usize::MAX))
            .max_attempts(self.max_attempts)
            .purge(PurgeSettings {
                keep_done: self.retention_done,
                keep_dead: self.retention_dead,
                ..PurgeSettings::default()
            })
            .drain_timeout(self.drain);
        if let Some(deadline) = deadline {
            builder = builder.deadline(deadline);
        }
        if until == Until::OneBatch {
            builder = builder.selection(OneBatch);
        }
        if self.topics.is_empty() {
            return Ok(builder.handler_for_all(handler).start()?);
        }
        for topic in self.topics {
            builder = builder.handler(topic.as_str(), handler.clone());
        }
        Ok(builder.start()?)
    }
}

/// Prints reports until the worker has to end.
async fn go_on(
    worker: &Worker,
    until: Until,
    interrupts: &mut Interrupts,
    arriving: &mut mpsc::Receiver<Report>,
    tally: &mut Tally,
) -> CommandResult<Ending> {
    loop {
        tokio::select! {
            Some(report) = arriving.recv() => tally.take(&report)?,
            () = interrupts.come() => return Ok(Ending::Told),
            () = pipe::reader_gone() => return Ok(Ending::Told),
            ending = until.comes(worker) => return Ok(ending),
        }
    }
}

/// Closes the worker. Reports that arrive meanwhile are counted, and printed if the output still has a
/// reader.
async fn close(worker: &Worker, arriving: &mut mpsc::Receiver<Report>, tally: &mut Tally) {
    let mut closing = std::pin::pin!(worker.close());
    loop {
        tokio::select! {
            () = &mut closing => break,
            Some(report) = arriving.recv() => drop(tally.take(&report)),
        }
    }
    while let Ok(report) = arriving.try_recv() {
        let _ = tally.take(&report);
    }
}
