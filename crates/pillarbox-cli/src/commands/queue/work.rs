//! `queue work`: runs a command for each message, so that a worker can be written in any language.

mod exec;
mod process;
mod report;

use std::time::Duration;

use clap::Args;
use pillarbox::events::PurgeSettings;
use pillarbox::port::Store;
use pillarbox::queue::{Selection, SelectionState, Worker};
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::interrupts::Interrupts;
use pillarbox_terminal::pipe;
use tokio::sync::mpsc;

use crate::commands::Session;
use crate::parse;
use exec::Exec;
use report::{Ending, Report, Tally};

/// Maximum number of reports that wait to be printed. A command starts only if there is room for its report.
const REPORTS: usize = 1_024;

pub(super) const AFTER_HELP: &str = "\
Examples:
  pillarbox queue work --exec ./send-mail --topic mail.send --workers 8
  pillarbox queue work --exec 'jq .id' --until-empty
  pillarbox queue work --exec './import \"$PILLARBOX_MESSAGE_ID\"' --deadline 10m --max-attempts 3

CMD is run by `sh -c` with the payload on its standard input and these environment variables:
PILLARBOX_MESSAGE_ID (the same at each attempt), PILLARBOX_ITEM (ID@TOKEN), PILLARBOX_TOKEN, PILLARBOX_OWNER,
PILLARBOX_TOPIC, PILLARBOX_RETRY_COUNT, PILLARBOX_CREATED_AT, PILLARBOX_HEADERS (JSON), and if the message has them
PILLARBOX_CORRELATION_ID, PILLARBOX_DUE_AT, PILLARBOX_LAST_ERROR.

Its exit code settles the message:
  0    done
  65   dead at once: no retry can help
  75   retried after 2, 4, 8 … up to 60 s; the same for every other code, and if CMD is killed;
       the end of its standard error is stored as the error
At the deadline CMD is killed with all its child processes, and the message is retried.
The lease is renewed while CMD runs.

CMD's output is passed through. With --json it goes to standard error, and standard output has one JSON document
per message and a last one with the counts.
A message may be delivered more than once: remember PILLARBOX_MESSAGE_ID if that matters.

A minute after its start, and then every hour, one worker deletes messages and events that have been done or dead
for longer than --retention-done and --retention-dead, except for steps of joins that have not ended.

With --topic, messages of other topics are left alone; a warning names those that are due.

Ctrl-C and SIGTERM shut the worker down: it stops claiming, running CMDs may end within --drain, and the rest is
killed and released.
If the reader of its standard output or error is gone, it shuts down in the same way, with exit code 0.";

/// Arguments of `queue work`.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The command to run for each message
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// Only messages of this topic; may be repeated
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Run this many commands at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    workers: u64,
    /// How long the messages of a crashed worker stay claimed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse::lease)]
    lease: Duration,
    /// Hold at most this many messages
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
    /// Messages larger than this go dead without being loaded
    #[arg(long, value_name = "BYTES", default_value_t = 16_777_216, value_parser = clap::value_parser!(u64).range(2_097_152..=1 << 40))]
    max_row_bytes: u64,
    /// Attempts before a message is dead
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_attempts: u32,
    /// Kill CMD after this long [default: seven eighths of the lease]
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
        let exec = Exec::new(&self.exec, self.max_attempts, session.output.reader(), reports);
        let until = match (self.until_empty, self.once) {
            (true, _) => Until::Empty,
            (false, true) => Until::OneBatch,
            (false, false) => Until::Told,
        };
        let worker = self.worker(&queue, exec, until)?;
        let mut tally = Tally::new(session.output);
        let ending = go_on(&worker, until, &mut interrupts, &mut arriving, &mut tally).await;
        close(&worker, &mut arriving, &mut tally).await;
        tally.end(ending?)
    }

    fn worker<S: Store>(
        self,
        queue: &pillarbox::Queue<S>,
        exec: Exec,
        until: Until,
    ) -> CommandResult<Worker> {
        let mut builder = queue
            .worker()
            .workers(self.workers as usize)
            .lease(self.lease)
            .batch(self.batch as usize)
            .max_row_bytes(usize::try_from(self.max_row_bytes).unwrap_or(usize::MAX))
            .max_attempts(self.max_attempts)
            .purge(PurgeSettings {
                keep_done: self.retention_done,
                keep_dead: self.retention_dead,
                ..PurgeSettings::default()
            })
            .drain_timeout(self.drain);
        if let Some(deadline) = self.deadline {
            builder = builder.deadline(deadline);
        }
        if until == Until::OneBatch {
            builder = builder.selection(OneBatch);
        }
        if self.topics.is_empty() {
            return Ok(builder.handler_for_all(exec).start()?);
        }
        for topic in self.topics {
            builder = builder.handler(topic.as_str(), exec.clone());
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
