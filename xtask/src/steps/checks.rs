//! The steps that look at the source: format, tidy, requirements, clippy.

use std::io;
use std::path::Path;
use std::process::Command;

use super::{Course, Outcome};
use crate::command::Mode;
use crate::{process, requirements, tidy};

pub(super) fn format(course: &mut Course<'_>) -> Outcome {
    with_component(course.root, "rustfmt", &["fmt", "--all", "--check"])
}

pub(super) fn clippy(course: &mut Course<'_>) -> Outcome {
    let features = course.features.arguments;
    let arguments = [&["clippy", "--workspace", "--all-targets"], features, &["--", "-D", "warnings"]];
    with_component(course.root, "clippy", &arguments.concat())
}

pub(super) fn tidy(course: &mut Course<'_>) -> Outcome {
    judge(tidy::run(course.root), "see the findings above")
}

pub(super) fn requirements(course: &mut Course<'_>) -> Outcome {
    judge(requirements::run(course.root, Mode::Check), "see the rows above")
}

fn judge(good: io::Result<bool>, why: &str) -> Outcome {
    match good {
        Ok(true) => Outcome::Passed,
        Ok(false) => Outcome::Failed(why.into()),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Runs a cargo command that comes with a component of the toolchain, which is added if it is missing.
fn with_component(root: &Path, component: &str, arguments: &[&str]) -> Outcome {
    let is_there = || process::succeeds(process::cargo(root).args([arguments[0], "--version"]));
    if !is_there() {
        println!("adding {component} to the toolchain");
        let added = process::run(Command::new("rustup").args(["component", "add", component]));
        if added.is_err() || !is_there() {
            let why = format!("{component} is missing and `rustup component add {component}` did not add it");
            return Outcome::CouldNotRun(why);
        }
    }
    process::run(process::cargo(root).args(arguments)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_breaks_fails_with_its_reason() {
        assert_eq!(judge(Ok(true), "findings"), Outcome::Passed);
        assert_eq!(judge(Ok(false), "findings"), Outcome::Failed("findings".into()));
        assert_eq!(judge(Err(io::Error::other("no page")), "findings"), Outcome::Failed("no page".into()));
    }
}
