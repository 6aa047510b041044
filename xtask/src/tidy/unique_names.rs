//! Rule: the name of a public type is unique in the workspace.

use std::collections::BTreeMap;

use super::Finding;
use crate::tree::{File, Tree};

/// The folders of library crates.
const LIBRARIES: [&str; 3] = ["crates/", "stores/", "tools/"];
const KEYWORDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (file, source) in tree.rust().filter(|(file, _)| is_library(file)) {
        for (index, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.in_test) {
            let Some(name) = public_type(&line.code) else { continue };
            // A file may declare a type twice, for different operating systems.
            let other = first.entry(name).or_insert(&file.path);
            if *other != file.path {
                let message = format!("`{name}` is the name of a public type in {other} too");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

fn is_library(file: &File) -> bool {
    LIBRARIES.iter().any(|folder| file.path.starts_with(folder)) && file.path.contains("/src/")
}

/// The public type that a line declares.
fn public_type(code: &str) -> Option<&str> {
    let declared = code.trim_start().strip_prefix("pub ")?;
    let name = KEYWORDS.iter().find_map(|keyword| declared.strip_prefix(keyword))?;
    name.split(|letter: char| !(letter == '_' || letter.is_alphanumeric())).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn a_public_type_that_two_files_declare_is_found_at_the_second() {
        let files =
            [("crates/a/src/b.rs", "pub struct Row<T> {}"), ("stores/a/src/c.rs", "\npub enum Row {}")];
        assert_eq!(
            found(check, &files),
            ["stores/a/src/c.rs:2: `Row` is the name of a public type in crates/a/src/b.rs too"]
        );
    }

    #[test]
    fn what_others_do_not_see_is_free() {
        let declared = ("crates/a/src/b.rs", "pub struct Row;");
        for text in [
            "pub(crate) struct Row;",
            "struct Row;",
            "pub use a::Row;",
            "#[cfg(test)]\nmod t {\npub struct Row;\n}",
        ] {
            assert!(found(check, &[declared, ("crates/c/src/d.rs", text)]).is_empty(), "{text}");
        }
        for path in ["crates/c/tests/d.rs", "bench/src/d.rs", "xtask/src/d.rs"] {
            assert!(found(check, &[declared, (path, "pub struct Row;")]).is_empty(), "{path}");
        }
    }

    #[test]
    fn one_file_may_declare_it_for_each_system() {
        let text = "#[cfg(unix)]\npub struct Row;\n#[cfg(not(unix))]\npub struct Row;";
        assert!(found(check, &[("crates/a/src/b.rs", text)]).is_empty());
    }
}
