//! Rule: the tree contains nothing unfinished, disabled or silenced.

use super::{Finding, in_text};
use crate::source::{Line, Source, has_word};
use crate::tree::Tree;

// Concatenated, so that a search for the marks does not find this file.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACROS: [&str; 3] = [concat!("to", "do!"), concat!("unimple", "mented!"), "dbg!"];
const IGNORE: &str = concat!("#[ign", "ore");
const ALLOWS: [&str; 2] = [concat!("#[all", "ow("), concat!("#![all", "ow(")];

const MARKED_ENDINGS: [&str; 5] = [".sql", ".toml", ".yaml", ".yml", ".sh"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let mut find = |test: fn(&Line) -> bool, message: &str| {
            findings.extend(source.line_numbers(test).map(|line| Finding::new(&file.path, line, message)));
        };
        find(has_mark, "finish it, or open an issue: no marks in the code");
        find(has_macro, "unfinished or debugging code");
        find(|line| line.code.contains(IGNORE), "a test runs or is reported as not run; it is never ignored");
        find(has_unchecked_example, "code in documents is compiled");
        let silenced = silent_allowances(source);
        findings
            .extend(silenced.map(|line| Finding::new(&file.path, line, "use #[expect(…, reason = \"…\")]")));
    }
    for file in MARKED_ENDINGS.iter().flat_map(|ending| tree.ending(ending)) {
        findings.extend(in_text(file, "finish it, or open an issue", |line| {
            MARKS.iter().any(|mark| has_word(line, mark))
        }));
    }
    findings
}

fn has_mark(line: &Line) -> bool {
    MARKS.iter().any(|mark| has_word(&line.comment, mark) || has_word(&line.doc, mark))
}

fn has_macro(line: &Line) -> bool {
    MACROS.iter().any(|name| has_word(&line.code, name))
}

fn has_unchecked_example(line: &Line) -> bool {
    line.doc.strip_prefix("```").is_some_and(|language| language.contains("ignore"))
}

/// The lines of `allow` attributes without a reason. The reason may follow some lines later.
fn silent_allowances(source: &Source) -> impl Iterator<Item = usize> {
    let allows = |line: &Line| ALLOWS.iter().any(|allow| line.code.contains(allow));
    source.line_numbers(allows).filter(|number| {
        let attribute = &source.lines[number - 1..];
        let end = attribute.iter().position(|line| line.code.contains(']')).unwrap_or(0);
        !attribute[..=end].iter().any(|line| has_word(&line.code, "reason"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn lines(text: &str) -> Vec<String> {
        let places = found(check, &[("crates/a/src/b.rs", text)]);
        places.iter().map(|finding| finding.split(':').nth(1).unwrap().to_owned()).collect()
    }

    #[test]
    fn marks_are_found_in_comments_and_not_in_strings() {
        for mark in MARKS {
            assert_eq!(lines(&format!("fn a() {{}}\n// {mark}: later")), ["2"]);
            assert_eq!(lines(&format!("/// {mark}")), ["1"]);
            assert!(lines(&format!("let a = \"{mark}\";")).is_empty());
        }
        assert!(lines("// the list of things to do").is_empty());
    }

    #[test]
    fn marks_are_found_in_other_languages() {
        let text = format!("-- claim\n-- {}", MARKS[0]);
        assert_eq!(found(check, &[("a.sql", &text)]), ["a.sql:2: finish it, or open an issue"]);
        assert!(found(check, &[("a.md", &text)]).is_empty());
    }

    #[test]
    fn unfinished_and_debugging_macros_are_found() {
        for name in MACROS {
            assert_eq!(lines(&format!("fn a() {{ {name}() }}")), ["1"]);
            assert!(lines(&format!("fn a() {{ my_{name}() }}")).is_empty());
        }
    }

    #[test]
    fn ignored_tests_and_uncompiled_examples_are_found() {
        assert_eq!(lines(&format!("#[test]\n{IGNORE}]\nfn a() {{}}")), ["2"]);
        assert_eq!(lines("/// ```ignore\n/// a\n/// ```"), ["1"]);
        assert!(lines("/// ```no_run\n/// a\n/// ```").is_empty());
    }

    #[test]
    fn allowances_need_a_reason() {
        for allow in ALLOWS {
            assert_eq!(lines(&format!("{allow}dead_code)]\nfn a() {{}}")), ["1"]);
            assert!(lines(&format!("{allow}dead_code, reason = \"by macro\")]")).is_empty());
            assert!(lines(&format!("{allow}\n    dead_code,\n    reason = \"by macro\"\n)]")).is_empty());
        }
        assert!(lines("#[expect(dead_code, reason = \"by macro\")]").is_empty());
    }
}
