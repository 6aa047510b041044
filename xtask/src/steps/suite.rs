//! The step that runs the tests of every crate: unit, integration, documentation, examples.

use std::time::Duration;

use super::{Course, Outcome};
use crate::process;
use crate::servers::Pending;

/// Long enough to build everything on a small machine, short enough for a hang to be noticed.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Runs the tests with the servers up.
pub(super) fn run(course: &mut Course<'_>) -> Outcome {
    let mut fleet = course.servers.take().map(Pending::wait).unwrap_or_default();
    let tally = &mut course.tally;
    tally.could_not_run.extend(fleet.could_not_run.iter().cloned());
    let mut command = process::cargo(course.root);
    command.args(["test", "--workspace", "--no-fail-fast"]).args(course.features.arguments);
    command.envs(fleet.exports());
    let tested = process::stream(&mut command, LIMIT, |line| tally.read(line));
    let ended = fleet.end();
    judge(&[tested, ended])
}

/// Passed if all is well, or failed with every reason.
fn judge(results: &[Result<(), String>]) -> Outcome {
    let reasons: Vec<&str> =
        results.iter().filter_map(|result| result.as_ref().err()).map(String::as_str).collect();
    if reasons.is_empty() { Outcome::Passed } else { Outcome::Failed(reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_a_failure_is_told() {
        let both = judge(&[Err("exit status: 101".into()), Err("process 7 does not end".into())]);
        assert_eq!(both, Outcome::Failed("exit status: 101; process 7 does not end".into()));
        assert_eq!(judge(&[Ok(()), Ok(())]), Outcome::Passed);
    }
}
