//! The handler that runs the command and interprets its exit code.

use std::process::ExitStatus;
use std::time::Instant;

use pillarbox::Failure;
use pillarbox::queue::{Handler, Message};
use pillarbox_terminal::pipe;
use tokio::sync::mpsc::{self, OwnedPermit};

use super::process::{Ended, Launcher, NotStarted};
use super::report::{Report, RunResult};

/// EX_DATAERR of sysexits.h: the message is invalid, so no retry can help.
const NEVER: i32 = 65;
const UNREAD: &str = "nobody reads the output any more";

/// Runs the command for each message.
#[derive(Debug, Clone)]
pub(super) struct Exec {
    launcher: Launcher,
    max_attempts: u32,
    reports: mpsc::Sender<Report>,
}

impl Exec {
    pub(super) fn new(launcher: Launcher, max_attempts: u32, reports: mpsc::Sender<Report>) -> Self {
        Self { launcher, max_attempts, reports }
    }

    fn judge(&self, ended: &Ended, attempt: u32) -> (RunResult, Option<Failure>) {
        let Some(error) = failure_text(ended) else { return (RunResult::Done, None) };
        if ended.status.code() == Some(NEVER) {
            return (RunResult::Dead, Some(Failure::permanent(error)));
        }
        let result = if attempt >= self.max_attempts { RunResult::Dead } else { RunResult::Retry };
        (result, Some(Failure::retry(error)))
    }
}

impl Handler for Exec {
    async fn handle(&self, message: Message) -> Result<(), Failure> {
        let room = self.reports.clone().reserve_owned().await;
        let room = room.map_err(|_| Failure::unavailable("the worker has ended", None))?;
        if pipe::look() {
            return Err(unread());
        }
        let mut run = Run::begin(&message, room);
        let ended = match self.launcher.run(&message).await {
            Ok(ended) => ended,
            Err(error) => {
                let (result, failure) = not_started(&error);
                run.end(result, None, Some(error.to_string()));
                return Err(failure);
            }
        };
        // The command may have failed because its output has no reader, which is not the message's fault.
        if !ended.status.success() && pipe::look() {
            run.end(RunResult::Retry, ended.status.code(), Some(UNREAD.to_owned()));
            return Err(unread());
        }
        let (result, failure) = self.judge(&ended, message.retry_count() + 1);
        run.end(result, ended.status.code(), failure.as_ref().map(|failure| failure.message().to_owned()));
        failure.map_or(Ok(()), Err)
    }
}

/// One run of the command. It is always reported, even if it is dropped at its deadline or at the end of the
/// drain.
pub(super) struct Run {
    started: Instant,
    report: Option<(OwnedPermit<Report>, Report)>,
}

impl Run {
    pub(super) fn begin(message: &Message, room: OwnedPermit<Report>) -> Self {
        let report = Report {
            id: message.message_id().to_string(),
            item: message.id().to_string(),
            topic: message.topic().to_owned(),
            result: RunResult::Killed,
            exit_code: None,
            error: Some("killed before it ended".to_owned()),
            took_ms: 0,
        };
        Self { started: Instant::now(), report: Some((room, report)) }
    }

    pub(super) fn end(&mut self, result: RunResult, exit_code: Option<i32>, error: Option<String>) {
        if let Some((_, report)) = &mut self.report {
            (report.result, report.exit_code, report.error) = (result, exit_code, error);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some((room, mut report)) = self.report.take() {
            report.took_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            room.send(report);
        }
    }
}

/// The failure of a run whose output has no reader. The worker is about to end, so the message is released
/// without counting an attempt.
fn unread() -> Failure {
    Failure::unavailable(UNREAD, None)
}

/// What becomes of a message whose command did not start.
fn not_started(error: &NotStarted) -> (RunResult, Failure) {
    match error {
        NotStarted::Message(_) => (RunResult::Dead, Failure::permanent(error.to_string())),
        NotStarted::System(_) => (RunResult::Retry, Failure::unavailable(error.to_string(), None)),
    }
}

/// The error of a failed run; `None` if it succeeded.
pub(super) fn failure_text(ended: &Ended) -> Option<String> {
    if ended.status.success() {
        return None;
    }
    let how = how(ended.status);
    Some(if ended.tail.is_empty() { how } else { format!("{how}: {}", ended.tail) })
}

fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("ended by signal {signal}");
    }
    status.code().map_or_else(|| "ended without an exit code".to_owned(), |code| format!("exit code {code}"))
}
