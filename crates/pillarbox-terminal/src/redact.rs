//! Takes what must not be shown out of texts: passwords of URLs, control characters.

/// The text without user and password of the URLs in it.
pub fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let url_end = after.find(char::is_whitespace).unwrap_or(after.len());
        // A password may hold `/`, `@` and quotes: everything up to the last `@` goes.
        rest = match after[..url_end].rfind('@') {
            Some(user_end) => {
                clean.push_str("***");
                &after[user_end..]
            }
            None => after,
        };
    }
    clean.push_str(rest);
    clean
}

/// What stands before the `@` of a URL: a driver may quote it outside of a URL.
pub fn user_and_password(url: &str) -> Option<&str> {
    let rest = url.split_once(':')?.1.trim_start_matches('/');
    rest.rsplit_once('@').map(|(secret, _)| secret)
}

/// One line without anything that a terminal would act upon.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if acts_on_terminal(c) { '\u{FFFD}' } else { c }).collect()
}

/// Lines without anything that a terminal would act upon.
pub fn lines(text: &str) -> String {
    let keep = |c: char| matches!(c, '\n' | '\t') || !acts_on_terminal(c);
    text.chars().map(|c| if keep(c) { c } else { '\u{FFFD}' }).collect()
}

/// Control characters, and those that turn the direction of text around.
fn acts_on_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-023
    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (text, clean) in [
            ("postgres://me:pw@db/x", "postgres://***@db/x"),
            ("a 'mysql://me:p/w@x@db' b", "a 'mysql://***@db' b"),
            ("http://h/ and amqp://u:p@h", "http://h/ and amqp://***@h"),
            ("sqlite:orders.db", "sqlite:orders.db"),
        ] {
            assert_eq!(redact(text), clean);
        }
    }

    /// PBX-023
    #[test]
    fn user_and_password_are_found_in_any_form_of_url() {
        assert_eq!(user_and_password("postgres://me:p@w@db/x"), Some("me:p@w"));
        assert_eq!(user_and_password("sqlite:me:pw@x.db"), Some("me:pw"));
        assert_eq!(user_and_password("sqlite:x.db"), None);
    }

    #[test]
    fn rows_of_others_can_not_steer_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc\u{202E}"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}");
        assert_eq!(lines("a\u{9b}\n\tb\r"), "a\u{FFFD}\n\tb\u{FFFD}");
    }
}
