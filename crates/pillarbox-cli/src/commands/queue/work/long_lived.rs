//! Long-lived commands: one process per worker reads messages and writes verdicts as lines of JSON.
//!
//! The protocol is in `docs/reference/worker-protocol.md`.

mod jobs;
mod running;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Failure;
use pillarbox::queue::{Handler, Message};
use pillarbox_terminal::output::Output;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::exec::Run;
use super::process::Launcher;
use super::report::{Report, RunResult};
use crate::commands::queue::document::MessageDocument;
use jobs::{Jobs, MessageJob, ProcessAnswer, ProcessHad, Sharing};
use running::ProcessRunner;
use verdict::WorkerVerdict;

/// A message counts an attempt after this many processes in a row that got only this message and ended
/// without an error and without a verdict.
const SILENT_EXITS_ALONE: u32 = 3;
/// The same for processes that had answered other messages before. Some end after each message on purpose,
/// and a message may be sent to several of them by chance: this many bound it.
const SILENT_EXITS: u32 = 32;

/// What the processes of a worker share.
#[derive(Debug, Clone)]
pub(super) struct ProcessPlan {
    pub(super) launcher: Launcher,
    /// Maximum number of messages that a process has not answered.
    pub(super) pipeline: usize,
    /// How long a process may take for its next verdict.
    pub(super) deadline: Duration,
    /// How long a process may take to end once its standard input is closed.
    pub(super) drain: Duration,
    pub(super) output: Output,
}

/// The processes of a worker.
#[derive(Debug)]
pub(super) struct Processes {
    jobs: Arc<Jobs>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Processes {
    /// Prepares the processes. Each one starts with its first message.
    pub(super) fn start(plan: &ProcessPlan, count: usize) -> Self {
        let (jobs, stop, tasks) = (Arc::new(Jobs::default()), CancellationToken::new(), TaskTracker::new());
        for _ in 0..count {
            let runner = ProcessRunner::new(plan.clone(), Arc::clone(&jobs), stop.clone());
            tasks.spawn(runner.run());
        }
        Self { jobs, stop, tasks }
    }

    /// The handler that passes messages to the processes.
    pub(super) fn handler(&self, max_attempts: u32, reports: mpsc::Sender<Report>) -> LongLived {
        LongLived { jobs: Arc::clone(&self.jobs), max_attempts, reports }
    }

    /// Closes the standard input of all processes and waits until they have ended; kills those that do not
    /// end in time.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Why a message was not handled.
enum Unhandled {
    /// The attempt has failed.
    Tried(Failure),
    /// No process could be given the message.
    Untried(String),
}

/// Passes each message to a process and waits for its verdict.
#[derive(Debug, Clone)]
pub(super) struct LongLived {
    jobs: Arc<Jobs>,
    max_attempts: u32,
    reports: mpsc::Sender<Report>,
}

impl LongLived {
    /// Sends the message until a process gives a verdict on it, or ends while it has only this message.
    async fn verdict(&self, item: &str, line: &Arc<str>) -> Result<(), Unhandled> {
        let (mut sharing, mut exits, mut alone) = (Sharing::WithOthers, 0, 0);
        loop {
            let (reply, answered) = oneshot::channel();
            self.jobs.push(MessageJob { item: item.to_owned(), line: Arc::clone(line), sharing, reply });
            match answered.await {
                Ok(ProcessAnswer::Verdict(verdict)) => {
                    return verdict.into_result().map_err(Unhandled::Tried);
                }
                Ok(ProcessAnswer::Blamed(why)) => return Err(Unhandled::Tried(Failure::retry(why))),
                Ok(ProcessAnswer::Suspected) => sharing = Sharing::Alone,
                Ok(ProcessAnswer::Unanswered(had)) => {
                    exits += 1;
                    alone += u32::from(had == ProcessHad::OnlyThis);
                    if alone >= SILENT_EXITS_ALONE || exits >= SILENT_EXITS {
                        let why = "the command ended without a verdict";
                        return Err(Unhandled::Tried(Failure::retry(why)));
                    }
                    // Twice may be chance: among others, the message would never show that it is the cause.
                    if exits > 1 {
                        sharing = Sharing::Alone;
                    }
                }
                Ok(ProcessAnswer::NotStarted(why)) => return Err(Unhandled::Untried(why)),
                Err(_) => return Err(Unhandled::Untried("the worker has ended".to_owned())),
            }
        }
    }
}

impl Handler for LongLived {
    async fn handle(&self, message: Message) -> Result<(), Failure> {
        let room = self.reports.clone().reserve_owned().await;
        let room = room.map_err(|_| Failure::unavailable("the worker has ended", None))?;
        let document = MessageDocument::from(&message);
        let mut line = serde_json::to_string(&document).map_err(Failure::permanent)?;
        line.push('\n');
        let mut run = Run::begin(&message, room);
        let handled = self.verdict(&document.item, &Arc::from(line)).await;
        let last = message.retry_count() + 1 >= self.max_attempts;
        let (result, failure) = match handled {
            Ok(()) => {
                run.end(RunResult::Done, None, None);
                return Ok(());
            }
            Err(Unhandled::Tried(failure)) if failure.is_permanent() || last => (RunResult::Dead, failure),
            Err(Unhandled::Tried(failure)) => (RunResult::Retry, failure),
            Err(Unhandled::Untried(why)) => (RunResult::Retry, Failure::unavailable(why, None)),
        };
        run.end(result, None, Some(failure.message().to_owned()));
        Err(failure)
    }
}
