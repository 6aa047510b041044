//! How explanations write times, durations, errors and arguments of commands.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::redact;

/// Longest error in a sentence, in characters.
const ERROR_MAX: usize = 300;

/// A time to the second.
pub(super) fn at(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// The time between two times, in its largest unit.
pub(super) fn lasting(from: Timestamp, to: Timestamp) -> String {
    let seconds = Duration::try_from(to.duration_since(from)).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The first line of an error: what follows it may quote the payload.
pub(super) fn error(error: &str) -> String {
    let line = redact::first_line(error).trim_end_matches('.');
    line.chars().take(ERROR_MAX).collect()
}

/// An argument of a command, quoted if a shell would read it otherwise.
pub(super) fn argument(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-297
    #[test]
    fn hostile_names_stay_one_argument() {
        assert_eq!(argument("Order/42"), "Order/42");
        assert_eq!(argument("a; rm -rf '/'"), r"'a; rm -rf '\''/'\'''");
        assert_eq!(argument("-x"), "'-x'");
        assert_eq!(argument(""), "''");
    }
}
