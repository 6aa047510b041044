//! The `pillarbox` binary: everything is in the library of the same crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillarbox_cli::run(std::env::args_os())
}
