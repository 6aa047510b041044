//! The pillarbox command line: what the binary runs. Only this crate prints, exits and reads the environment.

mod bulk;
mod cli;
mod commands;
mod demo;
mod environment;
mod exit;
mod failure;
mod form;
mod output;
mod redact;
mod target;
mod usage;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
pub use exit::Exit;
use failure::Outcome;
use output::{Output, Reader};

/// Runs the program with these arguments, the name of the program first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => execute(cli),
        Err(error) => usage::report(&error, &arguments),
    }
    .into()
}

fn execute(cli: Cli) -> Exit {
    let reader = if cli.json { Reader::Programs } else { Reader::People };
    let output = Output::new(reader);
    match on_runtime(cli, output) {
        Ok(()) => Exit::Done,
        Err(failure) => output.failure(&failure),
    }
}

fn on_runtime(cli: Cli, output: Output) -> Outcome {
    environment::start_log()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(commands::run(cli, output))
}
