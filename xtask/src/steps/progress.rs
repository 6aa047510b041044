//! The progress of running test programs, printed while there is no other output.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of finished tests and of all tests, for each running program.
#[derive(Debug, Default)]
pub(super) struct Progress {
    running: Mutex<BTreeMap<String, (usize, usize)>>,
}

impl Progress {
    pub(super) fn begin(&self, program: &str, tests: usize) {
        self.lock().insert(program.to_owned(), (0, tests));
    }

    pub(super) fn add(&self, program: &str) {
        if let Some((over, _)) = self.lock().get_mut(program) {
            *over += 1;
        }
    }

    pub(super) fn end(&self, program: &str) {
        self.lock().remove(program);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (usize, usize)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.lock();
        let parts: Vec<String> =
            running.iter().map(|(program, (over, all))| format!("{program} {over} of {all}")).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_that_run_are_told() {
        let progress = Progress::default();
        progress.begin("a/b", 3);
        progress.begin("c/d", 1);
        progress.add("a/b");
        progress.add("gone");
        progress.end("c/d");
        assert_eq!(progress.to_string(), "a/b 1 of 3");
    }
}
