//! The steps that run the test programs and the documentation tests of every crate.

use std::time::Duration;

use super::runner::{self, Finished};
use super::{Course, StepResult, build, component};
use crate::process;
use pillarbox_servers::Pending;

/// The environment variable of the library search path.
const LIBRARIES: &str =
    if cfg!(target_os = "macos") { "DYLD_FALLBACK_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };
/// Time limit of the documentation tests. It is long because every code block is compiled.
const DOCUMENTS: Duration = Duration::from_secs(20 * 60);

/// Runs the test programs while the servers run.
pub(super) fn run(course: &mut Course<'_>) -> StepResult {
    if course.built.is_none() {
        // The step was requested by name without a build, or the build failed and will report that again.
        let built = build::run(course);
        if course.built.is_none() {
            return built;
        }
    }
    let Some(built) = course.built.take() else { return StepResult::Failed("nothing was built".into()) };
    let Some(mut fleet) = course.servers.take().map(Pending::wait) else {
        return StepResult::Failed("no servers were started".into());
    };
    let tally = &mut course.tally;
    tally.could_not_run.extend(fleet.could_not_run.iter().cloned());
    // As `cargo test` does: tests of macros load the standard library.
    let libraries = component::folder(course.root, "target-libdir").unwrap_or_default().display().to_string();
    let exports: Vec<(&str, &str)> = fleet.exports().chain([(LIBRARIES, libraries.as_str())]).collect();
    let mut failed = 0;
    runner::run(built.programs, &exports, |finished| {
        failed += usize::from(finished.ended.is_err());
        show(&finished);
        finished.lines.iter().for_each(|line| tally.read(line));
        tally.time(&finished.program, finished.tests);
    });
    let ended = fleet.end();
    let tested = if failed == 0 { Ok(()) } else { Err(format!("{failed} test programs failed")) };
    judge(&[tested, ended])
}

/// Compiles and runs the code in the documentation, and reuses the build.
pub(super) fn documents(course: &mut Course<'_>) -> StepResult {
    let mut command = process::cargo(course.root);
    command.args(["test", "--doc", "--workspace", "--no-fail-fast"]).args(course.features.arguments);
    build::wrap(&mut command, course.root);
    let tally = &mut course.tally;
    process::stream(&mut command, DOCUMENTS, |line| tally.read(line)).into()
}

fn show(finished: &Finished) {
    let Finished { program, ended, took, lines, .. } = finished;
    let result = |line: &&String| line.starts_with("test result: ");
    let counts = lines.iter().rev().find(result).and_then(|line| line.split("; finished").next());
    let counts = counts.map_or("no result", |line| line.trim_start_matches("test result: "));
    if let Err(why) = ended {
        lines.iter().for_each(|line| println!("{line}"));
        println!("{program}: {why}");
    }
    println!("{program:<36}{:>8.1} s  {counts}", took.as_secs_f64());
}

/// Passed if there is no error, or else failed with all of them.
fn judge(results: &[Result<(), String>]) -> StepResult {
    let reasons: Vec<&str> =
        results.iter().filter_map(|result| result.as_ref().err()).map(String::as_str).collect();
    if reasons.is_empty() { StepResult::Passed } else { StepResult::Failed(reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_a_failure_is_told() {
        let why = |text: &str| Err(text.to_owned());
        assert_eq!(judge(&[Ok(()), Ok(())]), StepResult::Passed);
        let both = judge(&[why("2 test programs failed"), why("process 7 does not end")]);
        assert_eq!(both, StepResult::Failed("2 test programs failed; process 7 does not end".into()));
    }
}
