//! The `pillarbox` binary, a thin wrapper of the library in the same crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillarbox_cli::run(std::env::args_os())
}
