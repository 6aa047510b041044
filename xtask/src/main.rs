//! The development commands of the project: test, tidy, requirements, servers, bench, advisories and sbom.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]

mod bench;
mod command;
mod disk;
mod process;
mod requirements;
mod source;
mod steps;
mod supply;
mod tidy;
mod tree;

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use command::Command;
use pillarbox_servers as servers;

const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let command = match Command::parse(&arguments) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("{problem}\n\n{}", command::help());
            return ExitCode::from(USAGE);
        }
    };
    run(command, &root()).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn run(command: Command, root: &Path) -> io::Result<ExitCode> {
    let good = match command {
        Command::Help => {
            println!("{}", command::help());
            true
        }
        Command::Test { steps } => steps::run(&steps, root),
        Command::Tidy => tidy::run(root)?,
        Command::Requirements { mode } => requirements::run(root, mode)?,
        Command::Servers { action } => servers::run(&action, root),
        Command::Guard { folder } => servers::guard(&folder),
        Command::Bench { arguments } => bench::run(root, &arguments),
        Command::Advisories { database } => supply::advisories(root, &database)?,
        Command::Sbom { package } => supply::sbom(root, &package)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}
