//! The step that runs the demo with the command of the README.

use std::time::Duration;

use super::{Course, StepResult};
use crate::process;

/// Time limit of the demo, including its release build.
const LIMIT: Duration = Duration::from_secs(60 * 60);
const PROOF: &str = "lost 0";

pub(super) fn run(course: &mut Course<'_>) -> StepResult {
    let mut command = process::cargo(course.root);
    command.args(["run", "--release"]);
    let mut proved = false;
    let ended = process::stream(&mut command, LIMIT, |line| proved |= proves(line));
    let lossless = if proved { Ok(()) } else { Err(format!("did not print `{PROOF}`")) };
    ended.and(lossless).into()
}

fn proves(line: &str) -> bool {
    line.match_indices(PROOF)
        .any(|(at, _)| !line[at + PROOF.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_zero_proves_that_nothing_was_lost() {
        assert!(proves("written 100, delivered 100, lost 0"));
        assert!(proves("lost 0, dead 2"));
        assert!(!proves("lost 07"));
        assert!(!proves("lost 10"));
        assert!(!proves("nothing lost"));
    }
}
