//! Runs the programs that fetch, unpack and build software.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::runner;
use crate::process;

/// Runs a command in a folder, not longer than the limit or than this program lives.
pub(super) fn run(command: &mut Command, folder: &Path, limit: Duration) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    // Standard output is for a shell to evaluate.
    let mut bound = runner::bound(command);
    let ended = process::finish(bound.current_dir(folder).stdout(io::stderr()), limit);
    ended.map_err(|why| format!("`{program}` failed to get it: {why}"))
}
