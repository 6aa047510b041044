//! Replaces characters that would control the terminal.

/// The text as one line, with control characters replaced, including line breaks.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if acts_on_terminal(c) { '\u{FFFD}' } else { c }).collect()
}

/// The text with control characters replaced, except for line breaks and tabs.
pub fn lines(text: &str) -> String {
    let keep = |c: char| matches!(c, '\n' | '\t') || !acts_on_terminal(c);
    text.chars().map(|c| if keep(c) { c } else { '\u{FFFD}' }).collect()
}

/// Whether this is a control character, or one that changes the direction of text.
fn acts_on_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_others_can_not_steer_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc\u{202E}"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}");
        assert_eq!(lines("a\u{9b}\n\tb\r"), "a\u{FFFD}\n\tb\u{FFFD}");
    }
}
