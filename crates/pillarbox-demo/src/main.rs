//! The demo as its own program, which builds in a fraction of the time of the whole command line.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use pillarbox_demo::{Demo, DemoWorker, WORKER_COMMAND};
use pillarbox_terminal::error::CommandError;
use pillarbox_terminal::exit::{self, Exit};
use pillarbox_terminal::output::{Output, Reader};
use pillarbox_terminal::program::{ended, on_runtime};
use pillarbox_terminal::usage;

/// The command name in `cargo run -- demo`. It is accepted, so that the call works as with the whole command
/// line.
const COMMAND: &str = "demo";

/// Show the main job of Pillarbox on an embedded store, with nothing to install
#[derive(Debug, Parser)]
#[command(name = "pillarbox-demo", version, after_long_help = exit::TABLE, max_term_width = 110)]
struct Program {
    /// Print one JSON document instead of text; errors too, on standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    demo: Demo,
}

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    match arguments.get(1).and_then(|first| first.to_str()) {
        Some(WORKER_COMMAND) => return work(&arguments[1..]).into(),
        Some(COMMAND) => drop(arguments.remove(1)),
        Some(other) if !other.starts_with('-') => return not_here(&arguments).into(),
        _ => {}
    }
    match Program::try_parse_from(&arguments) {
        Ok(program) => play(program),
        Err(error) => usage::report(&error, &arguments),
    }
    .into()
}

fn play(program: Program) -> Exit {
    let output = Output::new(if program.json { Reader::Programs } else { Reader::People });
    ended(on_runtime(program.demo.run(output)), output)
}

fn work(arguments: &[OsString]) -> Exit {
    match DemoWorker::try_parse_from(arguments) {
        Ok(worker) => ended(on_runtime(worker.run()), Output::new(Reader::People)),
        Err(error) => usage::report(&error, arguments),
    }
}

/// Reports a command of the whole command line, which is another program of this workspace.
fn not_here(arguments: &[OsString]) -> Exit {
    let is_json = arguments.iter().any(|argument| argument == "--json");
    let output = Output::new(if is_json { Reader::Programs } else { Reader::People });
    let failure = CommandError::usage("this program has the demo only");
    output.failure(&failure.hint("the command line is run by `cargo run --release -p pillarbox-cli --`"))
}
