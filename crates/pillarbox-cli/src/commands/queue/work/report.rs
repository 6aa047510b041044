//! What came of each message, and of all of them.

use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Output, Reader};
use pillarbox_terminal::printable::one_line;
use serde::Serialize;

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunResult {
    /// Exit code 0.
    Done,
    /// It is tried again.
    Retry,
    /// It is not tried again.
    Dead,
    /// Killed, at its deadline or at the end of the drain: it is tried again, unless this was its last attempt.
    Killed,
}

/// What came of one message.
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

/// Why the worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ending {
    /// Nothing was left to do.
    ByItself,
    /// By Ctrl-C or SIGTERM, or because nobody reads its output any more.
    Told,
}

/// The last document of a worker.
#[derive(Debug, Default, Serialize)]
struct Counts {
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
    counts: Counts,
}

impl Tally {
    pub(super) fn new(output: Output) -> Self {
        Self { output, counts: Counts::default() }
    }

    /// Counts it, and tells: programs of each, people of what failed.
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

    /// Tells the counts.
    pub(super) fn end(mut self, ending: Ending) -> CommandResult {
        self.counts.ended = Some(ending);
        let Counts { done, retry, dead, killed, .. } = self.counts;
        match self.output.reader() {
            Reader::Programs => self.output.json(&self.counts),
            // Standard output is the command's.
            Reader::People => {
                let done = counted(done, "message");
                self.output
                    .note(&format!("{done} done, {retry} to be tried again, {dead} dead, {killed} killed"));
                Ok(())
            }
        }
    }
}
