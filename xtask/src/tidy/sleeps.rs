//! Rule: tests wait on signals and never sleep.

use super::Finding;
use crate::source::has_word;
use crate::tree::Tree;

const SLEEPS: [&str; 2] = ["sleep(", "sleep_until("];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sleeps = |code: &str| SLEEPS.iter().any(|sleep| has_word(code, sleep));
    tree.rust()
        .flat_map(|(file, source)| {
            let lines = source.line_numbers(|line| line.in_test && sleeps(&line.code));
            lines.map(|line| Finding::new(&file.path, line, "wait on a signal, or advance the paused clock"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn sleeps_in_tests_are_found() {
        let sleeps = "tokio::time::sleep(second).await;";
        assert_eq!(found(check, &[("crates/a/tests/b.rs", sleeps)]).len(), 1);
        assert_eq!(found(check, &[("crates/pillarbox-conformance/src/b.rs", sleeps)]).len(), 1);
        let module = format!("#[cfg(test)]\nmod tests {{\n{sleeps}\n}}");
        assert_eq!(found(check, &[("crates/a/src/b.rs", &module)]).len(), 1);
    }

    #[test]
    fn sleeps_of_the_product_and_moved_clocks_are_fine() {
        assert!(found(check, &[("crates/a/src/b.rs", "tokio::time::sleep(second).await;")]).is_empty());
        assert!(found(check, &[("crates/a/tests/b.rs", "tokio::time::advance(second).await;")]).is_empty());
        assert!(found(check, &[("crates/a/tests/b.rs", "// no sleep(1) here")]).is_empty());
    }
}
