//! The steps that check the source: format, tidy and requirements.

use std::io;

use super::{Course, Outcome, component};
use crate::command::Mode;
use crate::{process, requirements, tidy};

pub(super) fn format(course: &mut Course<'_>) -> Outcome {
    if let Err(why) = component::ensure(course.root, "rustfmt", "fmt") {
        return Outcome::CouldNotRun(why);
    }
    process::run(process::cargo(course.root).args(["fmt", "--all", "--check"])).into()
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
