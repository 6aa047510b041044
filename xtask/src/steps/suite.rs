//! The step that runs the tests of every crate: unit, integration, documentation, examples.

use std::path::Path;
use std::time::Duration;

use super::Outcome;
use super::tally::Tally;
use crate::process;

/// Long enough to build everything on a small machine, short enough for a hang to be noticed.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

pub(super) fn run(root: &Path, tally: &mut Tally) -> Outcome {
    let mut command = process::cargo(root);
    command.args(["test", "--workspace", "--no-fail-fast"]);
    process::stream(&mut command, LIMIT, |line| tally.read(line)).into()
}
