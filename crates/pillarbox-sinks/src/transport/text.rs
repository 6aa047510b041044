//! Makes text from an endpoint safe for error messages.

/// Maximum bytes of such a text in an error.
const SHOWN_MAX: usize = 1_024;

/// The beginning of a text on one line, without control characters and without the secret.
pub(crate) fn shown(text: &str, secret: Option<&str>) -> String {
    let open = match secret.filter(|secret| !secret.is_empty()) {
        Some(secret) => text.replace(secret, "***"),
        None => text.to_owned(),
    };
    let mut out = String::new();
    for word in open.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        if out.len() > SHOWN_MAX {
            break;
        }
    }
    out.truncate(out.floor_char_boundary(SHOWN_MAX));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-023
    #[test]
    fn anothers_text_is_one_short_line_without_the_secret() {
        let hostile = "bad\r\n\ttoken \u{1b}[31ms3cret\0 here";
        assert_eq!(shown(hostile, Some("s3cret")), "bad token [31m*** here");
        let long = shown(&"ü".repeat(5_000), None);
        assert!(long.len() <= 1_024 && long.len() > 1_000);
        assert_eq!(shown(" \n ", None), "");
    }
}
