//! Rule: names avoid words that fit anything.

use super::Finding;
use crate::tree::{File, Tree};

const EMPTY_SUFFIXES: [&str; 9] =
    ["Manager", "Helper", "Helpers", "Util", "Utils", "Common", "Impl", "Base", "Enhanced"];
const VERSION_SUFFIX: &str = "V2";
const EMPTY_MODULES: [&str; 13] = [
    "base", "common", "enhanced", "helper", "helpers", "imp", "manager", "managers", "misc", "prelude",
    "util", "utils", "v2",
];
const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        findings.extend(file_name(file));
        for (index, line) in source.lines.iter().enumerate() {
            let bad = declared_names(&line.code).find(|(keyword, name)| is_empty_name(keyword, name));
            findings.extend(bad.map(|(_, name)| Finding::new(&file.path, index + 1, message(name))));
        }
    }
    findings
}

fn file_name(file: &File) -> Option<Finding> {
    let parts = file.path.trim_end_matches(".rs").split('/');
    parts
        .into_iter()
        .find(|part| EMPTY_MODULES.contains(part))
        .map(|part| Finding::new(&file.path, 1, message(part)))
}

/// Pairs of a keyword and the name that it declares.
fn declared_names(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut words = code.split(|letter: char| !(letter == '_' || letter.is_alphanumeric()));
    let mut keyword = words.next().unwrap_or_default();
    words.filter(|word| !word.is_empty()).map(move |word| (std::mem::replace(&mut keyword, word), word))
}

fn is_empty_name(keyword: &str, name: &str) -> bool {
    if keyword == "mod" {
        return EMPTY_MODULES.contains(&name);
    }
    let suffixes = EMPTY_SUFFIXES.iter().chain([&VERSION_SUFFIX]);
    TYPE_KEYWORDS.contains(&keyword) && suffixes.into_iter().any(|suffix| name.ends_with(suffix))
}

fn message(name: &str) -> String {
    format!("`{name}` could be anything: name it for what it holds or does")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn types_that_could_be_anything_are_found() {
        for item in
            ["pub struct SlotManager;", "enum DateUtil {}", "trait StoreBase {}", "type EventV2 = u8;"]
        {
            assert_eq!(found(check, &[("crates/a/src/b.rs", item)]).len(), 1, "{item}");
        }
    }

    #[test]
    fn types_that_only_look_alike_are_fine() {
        let text = "struct Database;\nstruct Implication;\nlet manager = SlotManager::new();\nimpl Base {}";
        assert!(found(check, &[("crates/a/src/b.rs", text)]).is_empty());
    }

    #[test]
    fn modules_that_could_be_anything_are_found_by_declaration_and_file() {
        assert_eq!(found(check, &[("crates/a/src/b.rs", "pub mod prelude {}")]).len(), 1);
        for path in ["crates/a/src/util.rs", "crates/a/tests/common/mod.rs", "crates/a/src/helpers.rs"] {
            assert_eq!(found(check, &[(path, "//! a")]).len(), 1, "{path}");
        }
        assert!(found(check, &[("crates/a/src/database.rs", "mod tests {}")]).is_empty());
    }
}
