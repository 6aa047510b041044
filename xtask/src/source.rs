//! A Rust file as lines, with code, comments, docs and tests separated for the checks.

mod lexer;
mod regions;

/// One line. Its code does not contain the text of strings.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) code: String,
    /// Ordinary comments.
    pub(crate) comment: String,
    /// The text of a `///` or `//!` comment.
    pub(crate) doc: String,
    pub(crate) in_test: bool,
}

/// A Rust file.
pub(crate) struct Source {
    pub(crate) lines: Vec<Line>,
    /// Modules that are declared here under `#[cfg(test)]` and have their own files.
    pub(crate) test_modules: Vec<String>,
}

impl Source {
    /// Parses the text of a file.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lines = lexer::lines(text);
        let test_modules = regions::mark(&mut lines);
        Self { lines, test_modules }
    }

    /// Marks the whole file as test code.
    pub(crate) fn mark_as_test(&mut self) {
        self.lines.iter_mut().for_each(|line| line.in_test = true);
    }

    /// Whether the doc comment on this line belongs to a test function.
    pub(crate) fn documents_test(&self, index: usize) -> bool {
        self.lines[index..]
            .iter()
            .map(|line| line.code.trim())
            .take_while(|code| code.is_empty() || code.starts_with('#'))
            .any(|code| code.contains("[test]") || code.contains("::test"))
    }

    /// The numbers, from 1, of the lines that satisfy the predicate.
    pub(crate) fn line_numbers(&self, test: impl Fn(&Line) -> bool) -> impl Iterator<Item = usize> {
        self.lines.iter().enumerate().filter(move |(_, line)| test(line)).map(|(index, _)| index + 1)
    }
}

/// Whether code contains a word that is not the end of a longer identifier.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_identifier))
}

fn is_identifier(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_on_a_test_function_is_known() {
        let source =
            Source::parse("/// one\n#[tokio::test]\nasync fn a() {}\n/// two\nfn b() {}\n#[test]\nfn c() {}");
        assert!(source.documents_test(0));
        assert!(!source.documents_test(3));
    }

    #[test]
    fn words_are_not_found_inside_longer_ones() {
        assert!(has_word("time::sleep(1)", "sleep("));
        assert!(!has_word("no_sleep(1)", "sleep("));
    }
}
