//! The steps of `cargo xtask test`: each runs whatever became of those before it.

mod checks;
mod demo;
mod features;
mod suite;
mod summary;
mod tally;

use std::path::Path;
use std::time::Instant;

use features::Features;
use summary::{Ran, Summary};
use tally::Tally;

use crate::servers::{self, Fleet, Pending};

/// One named part of the test run.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    run: fn(&mut Course<'_>) -> Outcome,
}

/// What the steps of one run share.
struct Course<'a> {
    root: &'a Path,
    tally: Tally,
    /// On its way while the steps before the tests run.
    servers: Option<Pending>,
    features: Features,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What became of a step.
#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Failed(String),
    /// Something the step needs is missing on this machine.
    CouldNotRun(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

/// The step that needs servers.
const TESTS: &str = "tests";
const CLIPPY: &str = "clippy";
/// The step that builds everything anew, for release: the tests run the demo too, as they are built.
const DEMO: &str = "demo";

/// Every step, in order: the quick ones first.
pub(crate) static ALL: [Step; 6] = [
    Step { name: "format", run: checks::format },
    Step { name: "tidy", run: checks::tidy },
    Step { name: "requirements", run: checks::requirements },
    Step { name: CLIPPY, run: checks::clippy },
    Step { name: TESTS, run: suite::run },
    Step { name: DEMO, run: demo::run },
];

/// The steps of a run that names none.
pub(crate) fn unasked() -> impl Iterator<Item = &'static Step> {
    ALL.iter().filter(|step| step.name != DEMO)
}

/// Finds a step by its name.
pub(crate) fn find(name: &str) -> Result<&'static Step, String> {
    ALL.iter()
        .find(|step| step.name == name)
        .ok_or_else(|| format!("unknown step `{name}`: one of {}", names()))
}

/// The names of all steps, in order.
pub(crate) fn names() -> String {
    ALL.each_ref().map(|step| step.name).join(", ")
}

/// Runs the steps and prints a summary, whose last line counts tests; tells whether nothing failed.
pub(crate) fn run(steps: &[&Step], root: &Path) -> bool {
    // Before the software, since a package is not installed beside another.
    let builds = steps.iter().any(|step| [TESTS, CLIPPY].contains(&step.name));
    let features = if builds { Features::prepare() } else { Features::default() };
    let tests = steps.iter().any(|step| step.name == TESTS);
    let servers = match tests.then(|| Fleet::begin(root, &servers::ALL)).transpose() {
        Ok(servers) => servers,
        Err(why) => {
            eprintln!("{why}");
            return false;
        }
    };
    let mut course = Course { root, tally: Tally::default(), servers, features };
    course.tally.could_not_run.extend(course.features.lack.take());
    let mut ran = Vec::new();
    for step in steps {
        println!("\n== {}", step.name);
        let begun = Instant::now();
        let outcome = (step.run)(&mut course);
        ran.push(Ran { step: step.name, outcome, took: begun.elapsed() });
    }
    let summary = Summary { ran, tally: course.tally };
    println!("\n{summary}");
    summary.failed() == 0
}
