//! The steps of `cargo xtask test`; each runs even if an earlier one has failed.

mod build;
mod checks;
mod component;
mod demo;
mod dependencies;
mod features;
mod programs;
mod progress;
mod runner;
mod stopwatch;
mod suite;
mod summary;
mod tally;

use std::path::Path;
use std::time::Instant;

use build::Built;
use features::Features;
use summary::{Ran, Summary};
use tally::Tally;

use crate::disk;
use crate::process;
use pillarbox_servers::{self as servers, Fleet, Pending};

/// One named part of the test run.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    run: fn(&mut Course<'_>) -> StepResult,
}

/// The state that the steps of one run share.
struct Course<'a> {
    root: &'a Path,
    tally: Tally,
    /// The servers, which start while the steps before the tests run.
    servers: Option<Pending>,
    features: Features,
    built: Option<Built>,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The result of a step.
#[derive(Debug, PartialEq)]
enum StepResult {
    Passed,
    Failed(String),
    /// Something that the step needs is missing on this machine.
    CouldNotRun(String),
}

impl From<Result<(), String>> for StepResult {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

const BUILD: &str = "build";
/// The step that needs servers.
const TESTS: &str = "tests";
const DOCUMENTS: &str = "documents";
/// The step that runs the demo in a release build. It is not in a default run, because the tests run the demo
/// too.
const DEMO: &str = "demo";

/// Every step in order, the quick ones first.
pub(crate) static ALL: [Step; 8] = [
    Step { name: "format", run: checks::format },
    Step { name: "tidy", run: checks::tidy },
    Step { name: "requirements", run: checks::requirements },
    Step { name: "dependencies", run: dependencies::run },
    Step { name: BUILD, run: build::run },
    Step { name: TESTS, run: suite::run },
    Step { name: DOCUMENTS, run: suite::documents },
    Step { name: DEMO, run: demo::run },
];

/// The steps of a run without arguments.
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

/// Runs the steps and prints a summary, whose last line counts tests. Returns whether nothing failed.
pub(crate) fn run(steps: &[&Step], root: &Path) -> bool {
    let course = match prepare(steps, root) {
        Ok(course) => course,
        Err(why) => {
            println!("\n{why}\n\n0 passed, 1 failed");
            return false;
        }
    };
    run_in(course, steps)
}

/// Prepares what the steps need. A missing requirement ends the run here, before anything is built.
fn prepare<'a>(steps: &[&Step], root: &'a Path) -> Result<Course<'a>, String> {
    let has = |names: &[&str]| steps.iter().any(|step| names.contains(&step.name));
    let mut course =
        Course { root, tally: Tally::default(), servers: None, features: Features::default(), built: None };
    if has(&[BUILD, TESTS, DOCUMENTS]) {
        disk::check_build(root)?;
        fetch(root)?;
    }
    if has(&[TESTS]) {
        course.servers = Some(Fleet::begin(root, &servers::ALL)?);
    }
    if has(&[BUILD, TESTS, DOCUMENTS]) {
        course.features = Features::prepare();
        course.tally.could_not_run.extend(course.features.lack.take());
    }
    Ok(course)
}

/// Downloads crates first, so that an unavailable registry fails the run at once.
fn fetch(root: &Path) -> Result<(), String> {
    let fetched = process::run(process::cargo(root).args(["fetch", "--locked"]));
    fetched.map_err(|why| format!("`cargo fetch --locked` failed ({why}): the crates can't be downloaded"))
}

fn run_in(mut course: Course<'_>, steps: &[&Step]) -> bool {
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
