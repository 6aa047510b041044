//! Runs a command of a program to its end.

use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::Output;

/// Runs a command on a runtime of its own.
pub fn on_runtime(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}

/// How the program ends, once a failure has been printed.
pub fn ended(outcome: Outcome, output: Output) -> Exit {
    match outcome {
        Ok(()) => Exit::Done,
        Err(failure) => output.failure(&failure),
    }
}
