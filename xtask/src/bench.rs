//! Builds and runs the benchmarks.

use std::path::Path;

use crate::process;

/// Runs the benchmark program in release mode; tells whether it succeeded.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    let mut command = process::cargo(root);
    command.args(["run", "--release", "--package", "pillarbox-bench", "--"]).args(arguments);
    process::run(&mut command).map_err(|why| eprintln!("bench: {why}")).is_ok()
}
