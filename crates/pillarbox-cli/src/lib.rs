//! The pillarbox command line: what the binary runs. Only this crate prints, exits and reads the environment.

mod bulk;
mod cli;
mod commands;
mod demo;
mod environment;
mod exit;
mod failure;
mod form;
mod interrupts;
mod json_lines;
mod output;
mod redact;
mod target;
mod usage;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use demo::DemoWorker;
pub use exit::Exit;
use failure::Outcome;
use output::{Output, Reader};

/// Runs the program with these arguments, the name of the program first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|command| command == demo::WORKER_COMMAND) {
        return work(&arguments[1..]).into();
    }
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => execute(cli),
        Err(error) => usage::report(&error, &arguments),
    }
    .into()
}

fn execute(cli: Cli) -> Exit {
    let reader = if cli.json { Reader::Programs } else { Reader::People };
    let output = Output::new(reader);
    // A relay starts its own log when it has read how.
    if !matches!(cli.command, cli::Command::Relay(_))
        && let Err(failure) = environment::start_log()
    {
        return output.failure(&failure);
    }
    ended(on_runtime(commands::run(cli, output)), output)
}

/// Runs a worker of the demo: a command of which neither help nor completions speak.
fn work(arguments: &[OsString]) -> Exit {
    let output = Output::new(Reader::People);
    match DemoWorker::try_parse_from(arguments) {
        Ok(worker) => ended(environment::start_log().and_then(|()| on_runtime(worker.run())), output),
        Err(error) => usage::report(&error, arguments),
    }
}

fn ended(outcome: Outcome, output: Output) -> Exit {
    match outcome {
        Ok(()) => Exit::Done,
        Err(failure) => output.failure(&failure),
    }
}

fn on_runtime(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}
