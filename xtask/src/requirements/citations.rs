//! Finds the citations of requirements in tests.

use super::id::Id;
use crate::tree::Tree;

/// One id in the doc comment of a test.
pub(super) struct Citation {
    pub(super) id: Id,
    pub(super) path: String,
    pub(super) line: usize,
}

/// Every valid citation: in test code, in an example, or on a test function elsewhere.
pub(super) fn find(tree: &Tree) -> Vec<Citation> {
    let mut found = Vec::new();
    for (file, source) in tree.rust() {
        let is_example = file.path.starts_with("examples/");
        for (index, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.doc.is_empty()) {
            if is_example || line.in_test || source.documents_test(index) {
                let ids = Id::find_all(&line.doc).into_iter();
                found.extend(ids.map(|id| Citation { id, path: file.path.clone(), line: index + 1 }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cited(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(vec![(path.into(), text.into())]);
        find(&tree).iter().map(|citation| format!("{} {}", citation.line, citation.id)).collect()
    }

    #[test]
    fn docs_of_tests_count_wherever_tests_stand() {
        let nothing: [&str; 0] = [];
        assert_eq!(
            cited("crates/a/tests/b.rs", "//! EVT-001\n/// EVT-002, EVT-003"),
            ["1 EVT-001", "2 EVT-002", "2 EVT-003"]
        );
        assert_eq!(cited("crates/pillarbox-conformance/src/a.rs", "/// EVT-001"), ["1 EVT-001"]);
        assert_eq!(cited("examples/a.rs", "//! EVT-170"), ["1 EVT-170"]);
        assert_eq!(
            cited("crates/a/src/b.rs", "#[cfg(test)]\nmod tests {\n/// EVT-001\nfn a() {} }"),
            ["3 EVT-001"]
        );
        assert_eq!(cited("crates/a/src/b.rs", "/// EVT-001\n#[test]\nfn a() {}"), ["1 EVT-001"]);
        assert_eq!(cited("crates/a/src/b.rs", "/// EVT-001\npub fn a() {}"), nothing);
    }

    #[test]
    fn ordinary_comments_strings_and_other_files_do_not_count() {
        let nothing: [&str; 0] = [];
        assert_eq!(cited("crates/a/tests/b.rs", "// EVT-001\nlet a = \"/// EVT-002\";"), nothing);
        assert_eq!(cited("crates/a/tests/b.md", "/// EVT-001"), nothing);
    }
}
