//! Checks the rules of the code style that a program can check.

mod clocks;
mod leftovers;
mod migrations;
mod names;
mod openings;
mod places;
mod readme;
mod sizes;
mod sleeps;
mod unique_names;

use std::fmt;
use std::io;
use std::path::Path;

use crate::tree::{File, Tree};

const CHECKS: [fn(&Tree) -> Vec<Finding>; 10] = [
    clocks::check,
    leftovers::check,
    migrations::check,
    names::check,
    openings::check,
    places::check,
    readme::check,
    sizes::check,
    sleeps::check,
    unique_names::check,
];

/// A violation of a rule and its place.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Prints all findings. Returns whether there are none.
pub(crate) fn run(root: &Path) -> io::Result<bool> {
    let tree = Tree::read(root)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    findings.iter().for_each(|finding| println!("{finding}"));
    println!("{} files, {} findings", tree.files.len(), findings.len());
    Ok(findings.is_empty())
}

/// A finding for each line of a file that satisfies the predicate.
fn in_text(file: &File, message: &str, test: impl Fn(&str) -> bool) -> Vec<Finding> {
    let lines = file.text.lines().enumerate().filter(|(_, line)| test(line));
    lines.map(|(index, _)| Finding::new(&file.path, index + 1, message)).collect()
}

/// What a check finds in a tree of these paths and texts, one line each.
#[cfg(test)]
fn found(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    let texts = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
    check(&Tree::of(texts)).iter().map(Finding::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_name_their_place_as_editors_read_it() {
        assert_eq!(Finding::new("a/b.rs", 7, "why").to_string(), "a/b.rs:7: why");
    }
}
