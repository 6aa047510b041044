//! A second process that takes a run's servers and their data away if the run is killed.

use std::env;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{ground, runner};
use crate::process;

/// What this program is asked for to be a guard; only it asks so itself.
pub const GUARD: &str = "guard";
/// On an orderly end there is nothing left to do.
const LEFT: Duration = Duration::from_secs(30);

/// The guard of one run.
#[derive(Debug)]
pub(super) struct Guard {
    /// Its standard input ends when we do, in whatever way.
    process: Child,
}

impl Guard {
    /// Starts to guard the folder of a run.
    pub(super) fn set(folder: &Path) -> io::Result<Self> {
        let mut guard = Command::new(env::current_exe()?);
        // It outlives an interrupt of the terminal, and keeps nothing open that somebody reads to its end.
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

/// Waits until whoever started this has ended, then clears the folder of its run.
pub fn run(folder: &Path) -> bool {
    let ended = io::stdin().lock().read_to_end(&mut Vec::new());
    ended.is_ok() && ground::clear_after(folder).is_ok()
}
