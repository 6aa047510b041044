//! Counts tests from the output of test programs.

use std::collections::BTreeSet;
use std::time::Duration;

const RESULT: &str = "test result: ";
const COULD_NOT_RUN: &str = "could not run: ";
const TEST: &str = "test ";
const FAILED: &str = " ... FAILED";
/// The number of slow tests in the summary.
const SLOWEST: usize = 10;

/// The totals of all test programs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// The names of failed tests.
    pub(super) failures: BTreeSet<String>,
    /// Names and reasons of tests that could not run, as the tests printed them.
    pub(super) could_not_run: BTreeSet<String>,
    /// The slowest tests as `program test`, slowest first.
    pub(super) slowest: Vec<(Duration, String)>,
}

impl Tally {
    /// Reads one line of output.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(what) = line.strip_prefix(COULD_NOT_RUN) {
            self.could_not_run.insert(what.trim().to_owned());
        } else if let Some(result) = line.strip_prefix(RESULT) {
            self.passed += number_before(result, "passed");
            self.failed += number_before(result, "failed");
        } else if let Some(name) = line.strip_prefix(TEST).and_then(|rest| rest.strip_suffix(FAILED)) {
            self.failures.insert(name.to_owned());
        }
    }

    /// Adds the times of a program's tests.
    pub(super) fn time(&mut self, program: &str, tests: Vec<(String, Duration)>) {
        self.slowest.extend(tests.into_iter().map(|(name, took)| (took, format!("{program} {name}"))));
        self.slowest.sort_by(|a, b| b.cmp(a));
        self.slowest.truncate(SLOWEST);
    }
}

/// The number before a word, as in `ok. 5 passed; 0 failed; 1 ignored`, or 0 if there is none.
fn number_before(result: &str, word: &str) -> u64 {
    let words: Vec<&str> = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn results_of_all_programs_add_up() {
        let tally = tally(&[
            "running 5 tests",
            "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ]);
        assert_eq!((tally.passed, tally.failed), (17, 3));
    }

    #[test]
    fn other_lines_count_nothing() {
        let tally =
            tally(&["5 passed", "  test result: ok. 5 passed; 0 failed", "test a ... ok", "test result: "]);
        assert_eq!((tally.passed, tally.failed), (0, 0));
    }

    #[test]
    fn tests_that_failed_are_kept_by_name() {
        let tally = tally(&["test engine::drains ... FAILED", "test engine::stops ... ok", "FAILED"]);
        assert_eq!(tally.failures.into_iter().collect::<Vec<_>>(), ["engine::drains"]);
    }

    #[test]
    fn the_slowest_tests_of_all_programs_are_kept() {
        let mut tally = Tally::default();
        let times = |seconds: std::ops::Range<u64>| {
            seconds.map(|second| (format!("t{second}"), Duration::from_secs(second))).collect()
        };
        tally.time("a", times(0..9));
        tally.time("b", times(5..20));
        assert_eq!(tally.slowest.len(), SLOWEST);
        assert_eq!(tally.slowest[0], (Duration::from_secs(19), "b t19".into()));
    }

    #[test]
    fn what_could_not_run_is_kept_once_with_its_reason() {
        let line = "could not run: postgres: no server";
        let tally = tally(&[line, "it could not run: b", line]);
        assert_eq!(tally.could_not_run.into_iter().collect::<Vec<_>>(), ["postgres: no server"]);
    }
}
