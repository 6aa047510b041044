//! The steps that check the source: format, tidy and requirements.

use std::io;

use super::{Course, StepResult, component};
use crate::command::Mode;
use crate::{process, requirements, tidy};

pub(super) fn format(course: &mut Course<'_>) -> StepResult {
    if let Err(why) = component::ensure(course.root, "rustfmt", "fmt") {
        return StepResult::CouldNotRun(why);
    }
    process::run(process::cargo(course.root).args(["fmt", "--all", "--check"])).into()
}

pub(super) fn tidy(course: &mut Course<'_>) -> StepResult {
    judge(tidy::run(course.root), "see the findings above")
}

pub(super) fn requirements(course: &mut Course<'_>) -> StepResult {
    judge(requirements::run(course.root, Mode::Check), "see the rows above")
}

fn judge(good: io::Result<bool>, why: &str) -> StepResult {
    match good {
        Ok(true) => StepResult::Passed,
        Ok(false) => StepResult::Failed(why.into()),
        Err(error) => StepResult::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_breaks_fails_with_its_reason() {
        assert_eq!(judge(Ok(true), "findings"), StepResult::Passed);
        assert_eq!(judge(Ok(false), "findings"), StepResult::Failed("findings".into()));
        assert_eq!(judge(Err(io::Error::other("no page")), "findings"), StepResult::Failed("no page".into()));
    }
}
