//! Builds and runs the benchmarks.

use std::path::Path;

use crate::process;
use crate::servers::{self, Fleet};

/// The servers that are measured.
const MEASURED: [&str; 1] = ["postgres-15"];

/// Runs the benchmark program in release mode with its servers up; tells whether it succeeded.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    let mut fleet = if measures(arguments) { bring_up(root) } else { Fleet::default() };
    let mut command = process::cargo(root);
    command.args(["run", "--release", "--package", "pillarbox-bench", "--"]).args(arguments);
    let ran = process::run(command.envs(fleet.exports()));
    let ended = fleet.end();
    ran.and(ended).map_err(|why| eprintln!("bench: {why}")).is_ok()
}

fn measures(arguments: &[String]) -> bool {
    !arguments.iter().any(|argument| argument == "--help" || argument == "-h")
}

/// What is missing is told and not measured; the rest is.
fn bring_up(root: &Path) -> Fleet {
    let measured: Vec<_> = MEASURED.iter().filter_map(|name| servers::find(name).ok()).collect();
    let fleet = Fleet::bring_up(root, &measured, &[]);
    fleet.lacks.iter().chain(&fleet.could_not_run).for_each(|what| eprintln!("could not run: {what}"));
    fleet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_measured_is_a_server() {
        assert!(MEASURED.iter().all(|name| servers::find(name).is_ok()));
    }

    #[test]
    fn no_server_is_started_for_a_page_of_help() {
        assert!(!measures(&["drain".into(), "--help".into()]));
        assert!(measures(&[]));
    }
}
