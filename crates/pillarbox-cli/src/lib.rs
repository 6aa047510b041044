//! The `pillarbox` command line; only this crate and the demo print, exit and read environment variables.

mod bulk;
mod cli;
mod commands;
mod environment;
mod json_lines;
mod parse;
mod target;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use pillarbox_demo::{DemoWorker, WORKER_COMMAND};
use pillarbox_terminal::exit::Exit;
use pillarbox_terminal::output::{Output, Reader};
use pillarbox_terminal::program::{ended, on_runtime};
use pillarbox_terminal::usage;

use cli::Cli;

/// Runs the program. The first argument is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|command| command == WORKER_COMMAND) {
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
    // A relay starts its log later, because its configuration sets the format.
    if !matches!(cli.command, cli::Command::Relay(_))
        && let Err(failure) = environment::start_log()
    {
        return output.failure(&failure);
    }
    ended(on_runtime(commands::run(cli, output)), output)
}

/// Runs a worker process of the demo. Help and completions hide this command.
fn work(arguments: &[OsString]) -> Exit {
    let output = Output::new(Reader::People);
    match DemoWorker::try_parse_from(arguments) {
        Ok(worker) => ended(environment::start_log().and_then(|()| on_runtime(worker.run())), output),
        Err(error) => usage::report(&error, arguments),
    }
}
