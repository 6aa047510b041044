//! The step that compiles everything once, with clippy as the compiler of the workspace's crates.
//!
//! `cargo clippy` and `cargo test` share no build output. Clippy's driver is rustc with more lints, so one
//! build with it gives both the findings and the test programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::component;
use super::programs::Program;
use super::{Course, StepResult};
use crate::process;

/// Time limit of the build: long enough for a small machine, short enough to notice a hang.
const LIMIT: Duration = Duration::from_secs(60 * 60);
const DRIVER: &str = "clippy-driver";

/// The test programs, and whether lints have findings.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) programs: Vec<Program>,
    warnings: usize,
}

impl Built {
    /// Reads a line of cargo's output. Returns whether it is meant for people.
    fn read(&mut self, line: &str) -> bool {
        if line.starts_with('{') {
            self.programs.extend(Program::in_message(line));
            return false;
        }
        self.warnings += usize::from(line.starts_with("warning:") || line.starts_with("error:"));
        true
    }
}

/// Builds and lints all targets. Tests run even if lints have findings, but not if something does not
/// compile.
pub(super) fn run(course: &mut Course<'_>) -> StepResult {
    if let Err(why) = component::ensure(course.root, "clippy", "clippy") {
        return StepResult::CouldNotRun(why);
    }
    let mut built = Built::default();
    let mut command = process::cargo(course.root);
    command.args([
        "test",
        "--no-run",
        "--workspace",
        "--all-targets",
        "--message-format=json-render-diagnostics",
    ]);
    command.args(course.features.arguments);
    wrap(&mut command, course.root);
    let ended = process::follow(&mut process::bound(&command), LIMIT, |line| {
        if built.read(line) {
            println!("{line}");
        }
    });
    let warnings = built.warnings;
    course.built = ended.is_ok().then_some(built);
    match ended {
        Ok(()) if warnings > 0 => {
            StepResult::Failed(format!("{warnings} findings of rustc and clippy, see above"))
        }
        ended => ended.into(),
    }
}

/// Makes clippy the compiler of the workspace's crates, so that later commands reuse the programs of this
/// build.
pub(super) fn wrap(command: &mut Command, root: &Path) {
    command.env("RUSTC_WORKSPACE_WRAPPER", driver(root)).env("CLIPPY_ARGS", "");
}

/// Clippy's driver is beside rustc in the sysroot. Its bare name would find rustup's proxy.
fn driver(root: &Path) -> PathBuf {
    let beside = component::folder(root, "sysroot").map(|sysroot| sysroot.join("bin").join(DRIVER));
    beside.filter(|driver| driver.is_file()).unwrap_or_else(|| DRIVER.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted_and_messages_for_programs_are_not_shown() {
        let mut built = Built::default();
        assert!(built.read("   Compiling pillarbox v0.1.0"));
        assert!(built.read("warning: unused variable: `x`"));
        assert!(!built.read(r#"{"reason":"build-finished","success":true}"#));
        assert_eq!((built.warnings, built.programs.len()), (1, 0));
    }
}
