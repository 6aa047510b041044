//! Rule: every file begins with one line on its responsibility, and so does every statement in an SQL file.

use super::Finding;
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.ending(".rs").filter(|file| !opens_with(file, "//! "));
    let rust =
        rust.map(|file| Finding::new(&file.path, 1, "open with a `//!` sentence on what the file is for"));
    let sql = tree.ending(".sql").filter(|file| !opens_with(file, "-- "));
    let sql = sql.map(|file| Finding::new(&file.path, 1, "open with a `--` line on purpose and locking"));
    rust.chain(sql).chain(tree.ending(".sql").flat_map(statements)).collect()
}

/// Statements without a comment after their name.
fn statements(file: &File) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let bare =
        |place: &usize| lines.get(place + 1).is_none_or(|line| !line.starts_with("-- ") || is_name(line));
    let named = (0..lines.len()).filter(|place| is_name(lines[*place]));
    let words = "a statement has a `--` line on purpose and locking under its name";
    named.filter(bare).map(|place| Finding::new(&file.path, place + 1, words)).collect()
}

fn is_name(line: &str) -> bool {
    line.starts_with("-- name:")
}

fn opens_with(file: &File, opening: &str) -> bool {
    let first = file.text.lines().next().unwrap_or_default();
    first.strip_prefix(opening).is_some_and(|sentence| !sentence.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn files_that_introduce_themselves_are_fine() {
        assert!(
            found(check, &[("a.rs", "//! Holds a.\n"), ("b.sql", "-- claims; skip locked\n")]).is_empty()
        );
        assert!(found(check, &[("a.toml", "[package]")]).is_empty());
    }

    #[test]
    fn a_statement_without_its_purpose_is_found() {
        let text =
            "-- Claims.\n\n-- name: a\n-- Claims; skip locked.\nselect 1\n\n-- name: b\nselect 2\n-- name: c";
        let places = found(check, &[("a.sql", text)]);
        assert_eq!(places.len(), 2, "{places:?}");
        assert!(places[0].starts_with("a.sql:7:") && places[1].starts_with("a.sql:9:"), "{places:?}");
    }

    #[test]
    fn files_that_do_not_are_found() {
        for text in ["", "use a;", "\n//! Late.", "//!", "//! "] {
            assert_eq!(found(check, &[("a.rs", text)]).len(), 1, "{text:?}");
        }
        assert_eq!(found(check, &[("a.sql", "select 1")]).len(), 1);
        assert_eq!(found(check, &[("a.sql", "--\nselect 1")]).len(), 1);
    }
}
