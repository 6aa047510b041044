//! The step that runs the tests of every crate: unit, integration, documentation, examples.

use std::time::Duration;

use super::{Course, Outcome};
use crate::process;
use crate::servers::{self, Fleet, Software};

/// Long enough to build everything on a small machine, short enough for a hang to be noticed.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Runs the tests with the servers up. Without one that must be there the rest still runs, and the step fails.
pub(super) fn run(course: &mut Course<'_>) -> Outcome {
    let lacks = course.software.take().map(Software::wait).unwrap_or_default();
    let mut fleet = Fleet::bring_up(course.root, &servers::ALL, &lacks);
    let tally = &mut course.tally;
    tally.could_not_run.extend(fleet.could_not_run.iter().cloned());
    let mut command = process::cargo(course.root);
    command.args(["test", "--workspace", "--no-fail-fast"]).args(course.features.arguments);
    command.envs(fleet.exports());
    let tested = process::stream(&mut command, LIMIT, |line| tally.read(line));
    let ended = fleet.end();
    judge(&[complete(&fleet.lacks), tested, ended])
}

fn complete(lacks: &[String]) -> Result<(), String> {
    if lacks.is_empty() { Ok(()) } else { Err(format!("lacks {}", lacks.join("; "))) }
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
    fn a_server_that_must_be_there_and_is_not_fails_the_step() {
        let lacks = complete(&["postgres-15: install the package `postgresql-15`".into()]);
        let why = "lacks postgres-15: install the package `postgresql-15`";
        assert_eq!(judge(&[lacks.clone(), Ok(()), Ok(())]), Outcome::Failed(why.into()));
        let both = judge(&[lacks, Err("exit status: 101".into()), Ok(())]);
        assert_eq!(both, Outcome::Failed(format!("{why}; exit status: 101")));
        assert_eq!(judge(&[complete(&[]), Ok(()), Ok(())]), Outcome::Passed);
    }
}
