//! Reports of each message, and the totals of a worker.

use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Output, Reader};
use pillarbox_terminal::printable::one_line;
use serde::Serialize;

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunResult {
    /// The command exited with code 0.
    Done,
    /// The message will be retried.
    Retry,
    /// The message is dead.
    Dead,
    /// The command was killed at its deadline or at the end of the drain. The message will be retried unless
    /// this was its last attempt.
    Killed,
}

/// The report of one message.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) id: String,
    pub(super) item: String,
    pub(super) topic: String,
    pub(super) result: RunResult,
    pub(super) exit_code: Option<i32>,
    pub(super) error: Option<String>,
    pub(super) took_ms: u64,
}

/// The reason why the worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ending {
    /// The condition of `--until-empty` or `--once` was met.
    ByItself,
    /// Ctrl-C or SIGTERM arrived, or the reader of its output is gone.
    Told,
}

/// The totals, which are the last document of a worker.
#[derive(Debug, Default, Serialize)]
struct MessageCounts {
    done: u64,
    retry: u64,
    dead: u64,
    killed: u64,
    ended: Option<Ending>,
}

/// Prints and counts reports.
#[derive(Debug)]
pub(super) struct Tally {
    output: Output,
    counts: MessageCounts,
}

impl Tally {
    pub(super) fn new(output: Output) -> Self {
        Self { output, counts: MessageCounts::default() }
    }

    /// Counts a report and prints it. Output for people contains only failures.
    pub(super) fn take(&mut self, report: &Report) -> CommandResult {
        let (count, what) = match report.result {
            RunResult::Done => (&mut self.counts.done, "done"),
            RunResult::Retry => (&mut self.counts.retry, "to be tried again"),
            RunResult::Dead => (&mut self.counts.dead, "dead"),
            RunResult::Killed => (&mut self.counts.killed, "killed"),
        };
        *count += 1;
        if self.output.reader() == Reader::Programs {
            return self.output.json(report);
        }
        if let Some(error) = &report.error {
            self.output.note(&one_line(&format!("{} ({}) {what}: {error}", report.id, report.topic)));
        }
        Ok(())
    }

    /// Prints the totals.
    pub(super) fn end(mut self, ending: Ending) -> CommandResult {
        self.counts.ended = Some(ending);
        let MessageCounts { done, retry, dead, killed, .. } = self.counts;
        match self.output.reader() {
            Reader::Programs => self.output.json(&self.counts),
            // On standard error: standard output belongs to the command.
            Reader::People => {
                let done = counted(done, "message");
                self.output
                    .note(&format!("{done} done, {retry} to be tried again, {dead} dead, {killed} killed"));
                Ok(())
            }
        }
    }
}
