//! Splits Rust source into code and comments, with only as much of the grammar as this needs.

use super::{Line, is_identifier};

/// The context of the next character, which continues across lines.
enum Inside {
    Code,
    Comment { depth: usize },
    Text,
    RawText { hashes: usize },
}

struct Lexer {
    inside: Inside,
}

/// Splits a text into lines.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut lexer = Lexer { inside: Inside::Code };
    text.lines().map(|line| lexer.line(line)).collect()
}

impl Lexer {
    fn line(&mut self, text: &str) -> Line {
        let mut line = Line::default();
        let mut rest = text;
        while !rest.is_empty() {
            rest = match self.inside {
                Inside::Code => self.code(rest, &mut line),
                Inside::Comment { depth } => self.comment(rest, depth, &mut line),
                Inside::Text => self.text(rest),
                Inside::RawText { hashes } => self.raw_text(rest, hashes),
            };
        }
        line
    }

    fn code<'a>(&mut self, rest: &'a str, line: &mut Line) -> &'a str {
        if let Some(comment) = rest.strip_prefix("//") {
            line_comment(comment, line);
            return "";
        }
        if let Some(after) = rest.strip_prefix("/*") {
            self.inside = Inside::Comment { depth: 1 };
            return after;
        }
        if let Some(after) = rest.strip_prefix('"') {
            self.inside = Inside::Text;
            line.code.push_str("\"\"");
            return after;
        }
        if !line.code.ends_with(is_identifier)
            && let Some((hashes, after)) = raw_text_opening(rest)
        {
            self.inside = Inside::RawText { hashes };
            line.code.push_str("\"\"");
            return after;
        }
        if let Some(after) = character(rest) {
            line.code.push_str("''");
            return after;
        }
        let after = skip(rest, 1);
        line.code.push_str(&rest[..rest.len() - after.len()]);
        after
    }

    fn comment<'a>(&mut self, rest: &'a str, depth: usize, line: &mut Line) -> &'a str {
        if let Some(after) = rest.strip_prefix("*/") {
            self.inside = if depth == 1 { Inside::Code } else { Inside::Comment { depth: depth - 1 } };
            return after;
        }
        if let Some(after) = rest.strip_prefix("/*") {
            self.inside = Inside::Comment { depth: depth + 1 };
            return after;
        }
        let after = skip(rest, 1);
        line.comment.push_str(&rest[..rest.len() - after.len()]);
        after
    }

    fn text<'a>(&mut self, rest: &'a str) -> &'a str {
        if rest.starts_with('\\') {
            return skip(rest, 2);
        }
        if rest.starts_with('"') {
            self.inside = Inside::Code;
        }
        skip(rest, 1)
    }

    fn raw_text<'a>(&mut self, rest: &'a str, hashes: usize) -> &'a str {
        let end = rest.strip_prefix('"').filter(|after| leading_hashes(after) >= hashes);
        let Some(after) = end else { return skip(rest, 1) };
        self.inside = Inside::Code;
        &after[hashes..]
    }
}

fn line_comment(comment: &str, line: &mut Line) {
    let outer = comment.strip_prefix('/').filter(|text| !text.starts_with('/'));
    match outer.or_else(|| comment.strip_prefix('!')) {
        Some(text) => text.trim().clone_into(&mut line.doc),
        None => line.comment.push_str(comment),
    }
}

fn raw_text_opening(rest: &str) -> Option<(usize, &str)> {
    let unprefixed = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let after = unprefixed.strip_prefix('r')?;
    let hashes = leading_hashes(after);
    after[hashes..].strip_prefix('"').map(|text| (hashes, text))
}

/// The text after a character literal; `None` if the quote begins a lifetime.
fn character(rest: &str) -> Option<&str> {
    let inner = rest.strip_prefix('\'')?;
    if inner.starts_with('\\') {
        return skip(inner, 2).split_once('\'').map(|(_, after)| after);
    }
    skip(inner, 1).strip_prefix('\'')
}

fn leading_hashes(text: &str) -> usize {
    text.len() - text.trim_start_matches('#').len()
}

fn skip(text: &str, letters: usize) -> &str {
    let mut rest = text.chars();
    rest.by_ref().take(letters).for_each(drop);
    rest.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn docs_comments_and_code_are_told_apart() {
        let lines = lines("//! file\n/// item\n//// rule\nlet a = 1; // why\n/* one /* two */ three */ b");
        assert_eq!((lines[0].doc.as_str(), lines[1].doc.as_str()), ("file", "item"));
        assert_eq!((lines[2].doc.as_str(), lines[2].comment.as_str()), ("", "// rule"));
        assert_eq!((lines[3].code.as_str(), lines[3].comment.as_str()), ("let a = 1; ", " why"));
        assert_eq!((lines[4].code.as_str(), lines[4].comment.as_str()), (" b", " one  two  three "));
    }

    #[test]
    fn strings_are_emptied_whatever_they_hold() {
        assert_eq!(code(r#"f("a // b", "q\"q", b"x")"#), [r#"f("", "", b"")"#]);
        assert_eq!(code("f(r#\"a \" {\"#, br\"\\\", r)"), ["f(\"\", \"\", r)"]);
        assert_eq!(code("let a = \"one\n{ two\nthree\"; b"), ["let a = \"\"", "", "; b"]);
    }

    #[test]
    fn characters_are_emptied_and_lifetimes_stay() {
        assert_eq!(code(r"f('{', '\'', '\u{7b}', '/')"), ["f('', '', '', '')"]);
        assert_eq!(code("fn f<'a>(x: &'a str, y: &'static str)"), ["fn f<'a>(x: &'a str, y: &'static str)"]);
    }

    #[test]
    fn raw_identifiers_are_code() {
        assert_eq!(code("let r#type = var\"\";"), ["let r#type = var\"\";"]);
    }
}
