//! One place for a process: starts the command when there is a message, and again after it has ended.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_terminal::output::Output;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::jobs::{Jobs, MessageJob, ProcessAnswer, ProcessHad, Sharing};
use super::{ProcessPlan, verdict};
use crate::commands::queue::work::exec::failure_text;
use crate::commands::queue::work::pipes::{Pipes, Turn};
use crate::commands::queue::work::process::{self, Ended, Group, LAST_WORDS};

/// Maximum number of bytes that wait to be written to a process.
const UNWRITTEN_MAX: usize = 1_048_576;
/// Pause before a command that ended without a verdict is started again; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Minimum time between two notes of one kind.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// Exit codes of the shell for a command that is not there or can't be executed.
const NOT_STARTED: [i32; 2] = [126, 127];

/// Runs one process at a time for as long as the worker runs.
pub(super) struct ProcessRunner {
    plan: ProcessPlan,
    jobs: Arc<Jobs>,
    stop: CancellationToken,
    unknown: RareNote,
    silent: RareNote,
}

impl ProcessRunner {
    pub(super) fn new(plan: ProcessPlan, jobs: Arc<Jobs>, stop: CancellationToken) -> Self {
        let note = RareNote { output: plan.output, count: 0, noted: None };
        Self { plan, jobs, stop, unknown: note, silent: note }
    }

    pub(super) async fn run(mut self) {
        let mut failures = 0_u32;
        while let Some(first) = self.first().await {
            let verdicts = match self.plan.launcher.start() {
                Ok((group, pipes, stderr)) => {
                    let mut running = RunningProcess::new(self.plan.clone(), pipes);
                    running.send(first);
                    let tail = Mutex::default();
                    let ending = self.serve(&mut running, group, process::listen(stderr, &tail)).await;
                    if running.end(&ending, &process::tail(&tail)) == Answered::Nothing {
                        self.silent.count(silent_command);
                    }
                    running.verdicts
                }
                Err(error) => {
                    let why = format!("the command can't be started: {error}");
                    let _ = first.reply.send(ProcessAnswer::NotStarted(why));
                    0
                }
            };
            failures = if verdicts > 0 { 0 } else { failures.saturating_add(1) };
            if failures > 0 {
                let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
                let _ = self.stop.run_until_cancelled(sleep(pause)).await;
            }
        }
    }

    /// The message that a new process starts with; `None` if the worker ends.
    async fn first(&self) -> Option<MessageJob> {
        loop {
            if self.stop.is_cancelled() {
                return None;
            }
            if let Some(job) = self.jobs.take(0) {
                return Some(job);
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = self.jobs.added.notified() => {}
            }
        }
    }

    /// Passes messages and verdicts until the process ends or has to be killed.
    async fn serve(
        &mut self,
        running: &mut RunningProcess,
        mut group: Group,
        stderr: impl Future<Output = ()>,
    ) -> ProcessEnding {
        let (mut stderr, mut heard) = (std::pin::pin!(stderr), false);
        let mut kill_at = None;
        let ending = loop {
            while let Some(job) =
                running.has_room().then(|| self.jobs.take(running.in_flight.len())).flatten()
            {
                running.send(job);
            }
            if running.is_useless(kill_at.is_some()) {
                break ProcessEnding::Closed;
            }
            let stalls_at = running.progress + self.plan.deadline;
            tokio::select! {
                turn = running.pipes.turn() => match turn {
                    Turn::Read => running.read(&mut self.unknown),
                    Turn::Wrote => {}
                    Turn::Closed => break ProcessEnding::Closed,
                    Turn::LineTooLong => break ProcessEnding::LineTooLong,
                },
                _ = group.0.wait() => break ProcessEnding::Closed,
                () = &mut stderr, if !heard => heard = true,
                () = self.jobs.added.notified(), if running.has_room() => {}
                () = sleep_until(stalls_at), if !running.in_flight.is_empty() => break ProcessEnding::Stalled,
                () = self.stop.cancelled(), if kill_at.is_none() => {
                    running.pipes.close_input();
                    // Unanswered messages have no handler any more: their drain is over.
                    let idle = running.in_flight.is_empty();
                    kill_at = Some(Instant::now() + if idle { self.plan.drain } else { Duration::ZERO });
                }
                () = sleep_until(kill_at.unwrap_or(stalls_at)), if kill_at.is_some() => break ProcessEnding::Stopped,
            }
        };
        if !matches!(ending, ProcessEnding::Closed) {
            return ending;
        }
        // Verdicts and errors that it wrote before its end. A background process of it may keep both open.
        let last = async {
            while matches!(running.pipes.turn().await, Turn::Read | Turn::Wrote) {
                running.read(&mut self.unknown);
            }
        };
        let _ = timeout(LAST_WORDS, async {
            tokio::join!(last, async {
                if !heard {
                    stderr.await
                }
            })
        })
        .await;
        match timeout(LAST_WORDS, group.0.wait()).await {
            Ok(Ok(status)) if kill_at.is_none() => ProcessEnding::Exited(status),
            _ if kill_at.is_some() => ProcessEnding::Stopped,
            _ => ProcessEnding::Closed,
        }
    }
}

/// Why a process ended.
enum ProcessEnding {
    Exited(ExitStatus),
    /// It closed its standard output or input and was killed.
    Closed,
    /// It gave no verdict for too long and was killed.
    Stalled,
    /// It wrote a line that is too long and was killed.
    LineTooLong,
    /// The worker ends.
    Stopped,
}

/// A running process and the messages that it has.
struct RunningProcess {
    plan: ProcessPlan,
    pipes: Pipes,
    in_flight: HashMap<String, oneshot::Sender<ProcessAnswer>>,
    /// Whether it has a message that is sent alone.
    alone: bool,
    /// Time of its last verdict, or of its first message since it had none.
    progress: Instant,
    verdicts: u64,
}

impl RunningProcess {
    fn new(plan: ProcessPlan, pipes: Pipes) -> Self {
        Self { plan, pipes, in_flight: HashMap::new(), alone: false, progress: Instant::now(), verdicts: 0 }
    }

    fn has_room(&self) -> bool {
        let unwritten = self.pipes.unwritten();
        let room = self.in_flight.len() < self.plan.pipeline && unwritten < UNWRITTEN_MAX;
        room && !self.alone && self.pipes.takes_input()
    }

    /// Whether it can do nothing any more: it closed its standard input and has answered everything.
    fn is_useless(&self, stopping: bool) -> bool {
        !stopping && !self.pipes.takes_input() && self.in_flight.is_empty()
    }

    fn send(&mut self, job: MessageJob) {
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        self.alone = job.sharing == Sharing::Alone;
        self.pipes.write(job.line.as_bytes());
        self.in_flight.insert(job.item, job.reply);
    }

    /// Reads the lines that have arrived.
    fn read(&mut self, unknown: &mut RareNote) {
        let Self { pipes, in_flight, alone, progress, verdicts, .. } = self;
        pipes.lines(|line| {
            let known =
                verdict::read(line).and_then(|(item, verdict)| Some((in_flight.remove(&*item)?, verdict)));
            match known {
                Some((reply, verdict)) => {
                    (*alone, *progress, *verdicts) = (false, Instant::now(), *verdicts + 1);
                    // The handler may be gone: its deadline has passed, or its claim was lost.
                    let _ = reply.send(ProcessAnswer::Verdict(verdict));
                }
                None => unknown.count(strange_lines),
            }
        });
    }

    /// Tells the messages without a verdict what became of the process.
    fn end(&mut self, ending: &ProcessEnding, tail: &str) -> Answered {
        let with_tail = |text: String| if tail.is_empty() { text } else { format!("{text}: {tail}") };
        let why = match ending {
            ProcessEnding::Exited(status) if status.success() => None,
            ProcessEnding::Exited(status) => failure_text(&Ended { status: *status, tail: tail.to_owned() }),
            ProcessEnding::Closed => Some(with_tail("it closed its standard input or output".to_owned())),
            ProcessEnding::Stalled => Some(with_tail(format!("no verdict within {:?}", self.plan.deadline))),
            ProcessEnding::LineTooLong => Some(with_tail("it wrote a line that is too long".to_owned())),
            ProcessEnding::Stopped => None,
        };
        let not_started = self.verdicts == 0
            && matches!(ending, ProcessEnding::Exited(status) if status.code().is_some_and(|code| NOT_STARTED.contains(&code)));
        let one = self.in_flight.len() == 1;
        let exited = matches!(ending, ProcessEnding::Exited(status) if status.success());
        let is_silent = exited && self.verdicts == 0 && !self.in_flight.is_empty();
        let had = if one && is_silent { ProcessHad::OnlyThis } else { ProcessHad::Others };
        for (_, reply) in self.in_flight.drain() {
            let _ = reply.send(match &why {
                None => ProcessAnswer::Unanswered(had),
                Some(why) if not_started => {
                    ProcessAnswer::NotStarted(format!("the command can't be started: {why}"))
                }
                Some(why) if one => ProcessAnswer::Blamed(why.clone()),
                Some(_) => ProcessAnswer::Suspected,
            });
        }
        if is_silent { Answered::Nothing } else { Answered::Something }
    }
}

/// Whether a process that ended without an error had answered any message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Something,
    Nothing,
}

/// Counts something unexpected that a command does, and notes it at a limited rate.
#[derive(Debug, Clone, Copy)]
struct RareNote {
    output: Output,
    count: u64,
    noted: Option<Instant>,
}

impl RareNote {
    /// Counts one. Notes the text for all that were counted since the last note, unless that was just now.
    fn count(&mut self, text: fn(u64) -> String) {
        self.count += 1;
        if self.noted.is_some_and(|noted| noted.elapsed() < NOTE_EVERY) {
            return;
        }
        self.noted = Some(Instant::now());
        let text = text(std::mem::take(&mut self.count));
        tracing::warn!("{text}");
        self.output.note(&text);
    }
}

fn strange_lines(lines: u64) -> String {
    format!(
        "the command wrote {lines} line(s) that are not verdicts on its messages, which are ignored; its standard \
         output is for verdicts only"
    )
}

fn silent_command(exits: u64) -> String {
    format!(
        "the command ended {exits} time(s) with exit code 0 and without a verdict on its messages, which are sent \
         again; does it speak the protocol of --protocol jsonl?"
    )
}
