//! The end of a test run: a table of steps, what could not run, what failed, and the number of tests.

use std::fmt;
use std::time::Duration;

use super::StepResult;
use super::tally::Tally;

/// A step that has ended.
pub(super) struct Ran {
    pub(super) step: &'static str,
    pub(super) outcome: StepResult,
    pub(super) took: Duration,
}

/// The summary of a run.
pub(super) struct Summary {
    pub(super) ran: Vec<Ran>,
    pub(super) tally: Tally,
}

impl Summary {
    /// The number of failed tests or of failed steps, whichever is larger, so that a failed run never shows
    /// 0.
    pub(super) fn failed(&self) -> u64 {
        let steps = self.ran.iter().filter(|ran| matches!(ran.outcome, StepResult::Failed(_))).count();
        self.tally.failed.max(steps as u64)
    }

    fn could_not_run(&self) -> impl Iterator<Item = String> {
        let steps = self.ran.iter().filter_map(|ran| match &ran.outcome {
            StepResult::CouldNotRun(why) => Some(format!("{}: {why}", ran.step)),
            StepResult::Passed | StepResult::Failed(_) => None,
        });
        steps.chain(self.tally.could_not_run.iter().cloned())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14}{:<15}{:>9}", "step", "result", "time")?;
        for Ran { step, outcome, took } in &self.ran {
            let (result, why) = match outcome {
                StepResult::Passed => ("passed", ""),
                StepResult::Failed(why) => ("failed", why.as_str()),
                StepResult::CouldNotRun(_) => ("could not run", ""),
            };
            let row = format!("{step:<14}{result:<15}{:>7.1} s  {why}", took.as_secs_f64());
            writeln!(f, "{}", row.trim_end())?;
        }
        let slowest = self.tally.slowest.iter();
        list(
            f,
            "slowest tests",
            slowest.map(|(took, name)| format!("{:>6.1} s  {name}", took.as_secs_f64())),
        )?;
        list(f, "could not run", self.could_not_run())?;
        list(f, "failed", self.tally.failures.iter())?;
        write!(f, "\n{} passed, {} failed", self.tally.passed, self.failed())
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    items: impl Iterator<Item = impl fmt::Display>,
) -> fmt::Result {
    for (index, item) in items.enumerate() {
        if index == 0 {
            writeln!(f, "\n{title}:")?;
        }
        writeln!(f, "  {item}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(step: &'static str, outcome: StepResult) -> Ran {
        Ran { step, outcome, took: Duration::from_millis(1_250) }
    }

    #[test]
    fn a_good_run_ends_with_its_counts_alone_on_a_line() {
        let tally = Tally { passed: 7, ..Tally::default() };
        let text = Summary { ran: vec![ran("tests", StepResult::Passed)], tally }.to_string();
        assert_eq!(text.lines().nth(1), Some("tests         passed             1.2 s"));
        assert_eq!(text.lines().last(), Some("7 passed, 0 failed"));
        assert!(!text.contains("could not run"), "{text}");
    }

    #[test]
    fn what_could_not_run_is_listed_by_name_and_does_not_fail() {
        let mut tally = Tally::default();
        tally.read("could not run: postgres: no server");
        let missing = StepResult::CouldNotRun("not installed".into());
        let summary = Summary { ran: vec![ran("clippy", missing)], tally };
        assert_eq!(summary.failed(), 0);
        let text = summary.to_string();
        assert!(
            text.contains("\ncould not run:\n  clippy: not installed\n  postgres: no server\n"),
            "{text}"
        );
    }

    #[test]
    fn a_failed_step_counts_even_if_no_test_ran() {
        let ran = vec![
            ran("clippy", StepResult::Failed("exit status: 101".into())),
            ran("tests", StepResult::Passed),
        ];
        let text = Summary { ran, tally: Tally { passed: 3, ..Tally::default() } }.to_string();
        assert!(text.contains("clippy        failed             1.2 s  exit status: 101\n"), "{text}");
        assert_eq!(text.lines().last(), Some("3 passed, 1 failed"));
    }

    #[test]
    fn failed_tests_are_counted_one_by_one() {
        let ran = vec![ran("tests", StepResult::Failed("exit status: 101".into()))];
        let mut tally = Tally { passed: 3, failed: 4, ..Tally::default() };
        tally.read("test engine::drains ... FAILED");
        let summary = Summary { ran, tally };
        assert_eq!(summary.failed(), 4);
        let text = summary.to_string();
        assert!(text.ends_with("\nfailed:\n  engine::drains\n\n3 passed, 4 failed"), "{text}");
    }
}
