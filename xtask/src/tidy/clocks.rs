//! Rule: the engine takes time and randomness as arguments, so that a seed replays a run.

use super::Finding;
use crate::source::{Line, Source, has_word};
use crate::tree::Tree;

const ENGINE: &str = "crates/pillarbox/src/engine";
/// The parts of the engine that must not read even tokio's clock.
const STEPS: [&str; 4] = ["/core.rs", "/state/", "/steps/", "/sources/"];

const CLOCKS: [&str; 3] = ["SystemTime::now", "Timestamp::now", "Zoned::now"];
const CHANCES: [&str; 10] = [
    "Uuid::new_v4",
    "Uuid::now_v7",
    "Ulid::new",
    "Ulid::generate",
    "Rng::new",
    "RandomState::new",
    "getrandom",
    "thread_rng",
    "rand::rng",
    "rand::random",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust().filter(|(file, _)| file.path.starts_with(ENGINE)) {
        let of_tokio = imports_tokio_instant(source);
        let steps = STEPS.iter().any(|part| file.path[ENGINE.len()..].starts_with(part));
        let reads = |line: &Line| {
            let in_step = steps && !line.in_test && line.code.contains("Instant::now");
            in_step || reads_clock(&line.code, of_tokio)
        };
        let clocks = source.line_numbers(reads);
        findings.extend(
            clocks.map(|line| {
                Finding::new(&file.path, line, "the engine is given the time, it reads no clock")
            }),
        );
        let chances = source.line_numbers(|line| draws_chance(&line.code));
        findings.extend(
            chances.map(|line| {
                Finding::new(&file.path, line, "the engine is given its randomness, it draws none")
            }),
        );
    }
    findings
}

/// Whether `Instant` is tokio's, whose clock tests can pause.
fn imports_tokio_instant(source: &Source) -> bool {
    source.lines.iter().any(|line| line.code.contains("tokio::time::") && line.code.contains("Instant"))
}

fn reads_clock(code: &str, instant_is_tokios: bool) -> bool {
    let instant = match code.find("Instant::now") {
        Some(at) if code[..at].ends_with("std::time::") => true,
        Some(at) if code[..at].ends_with("tokio::time::") => false,
        Some(_) => !instant_is_tokios,
        None => false,
    };
    instant || CLOCKS.iter().any(|clock| code.contains(clock))
}

fn draws_chance(code: &str) -> bool {
    let free_function = |rest: &str| rest.starts_with(|next: char| next.is_ascii_lowercase());
    let fastrand = code.split("fastrand::").skip(1).any(free_function);
    fastrand || CHANCES.iter().any(|chance| has_word(code, chance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn lines(text: &str) -> Vec<String> {
        found(check, &[("crates/pillarbox/src/engine/tasks/reader.rs", text)])
    }

    #[test]
    fn a_step_reads_no_clock_at_all() {
        let text = "use tokio::time::Instant;\nlet now = Instant::now();";
        assert_eq!(found(check, &[("crates/pillarbox/src/engine/steps/dispatch.rs", text)]).len(), 1);
        let tested = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}\n");
        assert!(found(check, &[("crates/pillarbox/src/engine/state/due.rs", &tested)]).is_empty());
    }

    #[test]
    fn clocks_of_the_system_are_found() {
        for code in
            ["SystemTime::now()", "jiff::Timestamp::now()", "std::time::Instant::now()", "Instant::now()"]
        {
            assert_eq!(lines(code).len(), 1, "{code}");
        }
    }

    #[test]
    fn tokios_clock_is_allowed() {
        assert!(lines("tokio::time::Instant::now()").is_empty());
        assert!(lines("use tokio::time::{Duration, Instant};\nInstant::now()").is_empty());
    }

    #[test]
    fn randomness_of_the_system_is_found() {
        for code in
            ["fastrand::u64(..)", "fastrand::Rng::new()", "Uuid::new_v4()", "Ulid::new()", "rand::rng()"]
        {
            assert_eq!(lines(code).len(), 1, "{code}");
        }
        assert!(lines("use fastrand::Rng;\nlet rng = fastrand::Rng::with_seed(7);").is_empty());
    }

    #[test]
    fn comments_and_other_parts_are_free() {
        assert!(lines("// SystemTime::now() would jump").is_empty());
        assert!(found(check, &[("crates/pillarbox/src/model/id.rs", "SystemTime::now()")]).is_empty());
    }
}
