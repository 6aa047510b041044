//! Every file opens with one line on what it is responsible for.

use super::Finding;
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.ending(".rs").filter(|file| !opens_with(file, "//! "));
    let rust =
        rust.map(|file| Finding::new(&file.path, 1, "open with a `//!` sentence on what the file is for"));
    let sql = tree.ending(".sql").filter(|file| !opens_with(file, "-- "));
    let sql = sql.map(|file| Finding::new(&file.path, 1, "open with a `--` line on purpose and locking"));
    rust.chain(sql).collect()
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
    fn files_that_do_not_are_found() {
        for text in ["", "use a;", "\n//! Late.", "//!", "//! "] {
            assert_eq!(found(check, &[("a.rs", text)]).len(), 1, "{text:?}");
        }
        assert_eq!(found(check, &[("a.sql", "select 1")]).len(), 1);
        assert_eq!(found(check, &[("a.sql", "--\nselect 1")]).len(), 1);
    }
}
