//! Runs a command of a program to its end.

use crate::error::CommandResult;
use crate::exit::Exit;
use crate::output::Output;

/// Runs a command on a runtime of its own.
pub fn on_runtime(command: impl Future<Output = CommandResult>) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}

/// How the program ends, once a failure has been printed.
pub fn ended(outcome: CommandResult, output: Output) -> Exit {
    match outcome {
        Ok(()) => Exit::Done,
        Err(failure) => output.failure(&failure),
    }
}
