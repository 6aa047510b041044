//! Measures the time of each test, which the test harness does not report.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Mirrors the schedule of the harness: it starts tests in the order of its list, a fixed number at once, and
/// the next when one ends.
#[derive(Debug)]
pub(super) struct Stopwatch {
    waiting: VecDeque<String>,
    running: HashMap<String, Instant>,
}

impl Stopwatch {
    /// Starts with the list of the program's tests.
    pub(super) fn start(order: Vec<String>, threads: usize, now: Instant) -> Self {
        let mut watch = Self { waiting: order.into(), running: HashMap::new() };
        (0..threads).for_each(|_| watch.begin_next(now));
        watch
    }

    /// Reads a line of output. If a test has ended, returns its name and its time.
    pub(super) fn read(&mut self, line: &str, now: Instant) -> Option<(String, Duration)> {
        let (name, _) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let name = name.trim_end().trim_end_matches(" - should panic");
        let begun = self.running.remove(name)?;
        self.begin_next(now);
        Some((name.to_owned(), now.saturating_duration_since(begun)))
    }

    fn begin_next(&mut self, now: Instant) {
        if let Some(name) = self.waiting.pop_front() {
            self.running.insert(name, now);
        }
    }
}

/// The test names in the output of `--list`.
pub(super) fn listed(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_begins_when_one_before_it_ends() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch =
            Stopwatch::start(listed("a: test\nb: test\nc: test\n\n3 tests, 0 benchmarks\n"), 2, start);
        let seconds = |ended: Option<(String, Duration)>| ended.map(|(name, took)| (name, took.as_secs()));
        assert_eq!(seconds(watch.read("running 3 tests", at(0))), None);
        assert_eq!(seconds(watch.read("test b ... ok", at(3))), Some(("b".into(), 3)));
        assert_eq!(seconds(watch.read("test c   ... FAILED", at(5))), Some(("c".into(), 2)));
        assert_eq!(seconds(watch.read("test a - should panic ... ok", at(9))), Some(("a".into(), 9)));
        assert_eq!(seconds(watch.read("test unknown ... ok", at(9))), None);
    }
}
