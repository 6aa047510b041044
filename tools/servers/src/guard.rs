//! A second process that stops the servers of a run and removes their data if the run is killed.

use std::env;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{runner, workspace};
use crate::process;

/// The internal command that starts this program as a guard.
pub const GUARD: &str = "guard";
/// How long to wait for the guard. After an orderly end it has nothing to do.
const LEFT: Duration = Duration::from_secs(30);

/// The guard of one run.
#[derive(Debug)]
pub(super) struct Guard {
    /// The guard process. Its standard input closes when we end, even by a crash.
    process: Child,
}

impl Guard {
    /// Starts a guard for the folder of a run.
    pub(super) fn set(folder: &Path) -> io::Result<Self> {
        let mut guard = Command::new(env::current_exe()?);
        // Detached, to survive an interrupt of the terminal and to keep no pipe open that someone reads to
        // its end.
        runner::detach(&mut guard);
        guard.arg(GUARD).arg(folder).current_dir("/");
        let guard = guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { process: guard.spawn()? })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        process::wait_until(LEFT, || !matches!(self.process.try_wait(), Ok(None)));
    }
}

/// Waits until the parent process has ended, then clears the folder of its run.
pub fn run(folder: &Path) -> bool {
    let ended = io::stdin().lock().read_to_end(&mut Vec::new());
    ended.is_ok() && workspace::clear_after(folder).is_ok()
}
