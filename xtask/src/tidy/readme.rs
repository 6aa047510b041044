//! Rule: the README exists and names the two commands that a newcomer starts with.

use super::Finding;
use crate::tree::Tree;

const README: &str = "README.md";
const COMMANDS: [&str; 2] = ["cargo run --release -- demo", "cargo xtask test"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(readme) = tree.find(README) else { return vec![Finding::new(README, 1, "is not there")] };
    let missing = COMMANDS.iter().filter(|command| !readme.text.contains(**command));
    missing.map(|command| Finding::new(README, 1, format!("does not name `{command}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn both_commands_are_needed() {
        assert!(found(check, &[(README, &COMMANDS.join("\n"))]).is_empty());
        assert_eq!(found(check, &[(README, COMMANDS[0])]), ["README.md:1: does not name `cargo xtask test`"]);
        assert_eq!(found(check, &[]), ["README.md:1: is not there"]);
    }
}
