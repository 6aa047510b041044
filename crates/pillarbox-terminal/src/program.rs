//! Runs a command to completion and returns its exit code.

use crate::error::CommandResult;
use crate::exit::Exit;
use crate::output::Output;

/// Runs a command on a new multi-threaded runtime.
pub fn on_runtime(command: impl Future<Output = CommandResult>) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}

/// Prints the error of a failed command, and returns the exit code.
pub fn ended(outcome: CommandResult, output: Output) -> Exit {
    match outcome {
        Ok(()) => Exit::Done,
        Err(failure) => output.failure(&failure),
    }
}
