//! Formats numbers, sizes and durations for people.

use std::time::Duration;

use jiff::Timestamp;

/// A duration in its two largest units: `350ms`, `12s`, `3m 12s`, `2h 5m`, `3d 4h`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let pair = |large: u64, small: u64, names: (&str, &str)| match small {
        0 => format!("{large}{}", names.0),
        _ => format!("{large}{} {small}{}", names.0, names.1),
    };
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3_600 => pair(seconds / 60, seconds % 60, ("m", "s")),
        3_600..86_400 => pair(seconds / 3_600, seconds % 3_600 / 60, ("h", "m")),
        _ => pair(seconds / 86_400, seconds % 86_400 / 3_600, ("d", "h")),
    }
}

/// The distance of a time from now in its largest unit: `3m ago`, or `in 3m` for the future.
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    let distance = largest(now.duration_since(at).unsigned_abs());
    if at <= now { format!("{distance} ago") } else { format!("in {distance}") }
}

fn largest(distance: Duration) -> String {
    let full = span(distance);
    full.split(' ').next().unwrap_or_default().to_owned()
}

/// A number with thousands separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 event`, `1,234 events`.
pub fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number))
}

/// A size: `812 bytes`, `4.0 KiB`, `1.5 MiB`.
pub fn bytes(size: usize) -> String {
    const KIB: usize = 1_024;
    match size {
        1 => "1 byte".to_owned(),
        _ if size < KIB => format!("{size} bytes"),
        _ if size < KIB * KIB => format!("{:.1} KiB", size as f64 / KIB as f64),
        _ => format!("{:.1} MiB", size as f64 / (KIB * KIB) as f64),
    }
}

/// The first `most` characters of a text, with an ellipsis if it is longer.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_at_most_two_units() {
        for (ms, text) in [
            (0, "0ms"),
            (350, "350ms"),
            (12_900, "12s"),
            (192_000, "3m 12s"),
            (7_500_000, "2h 5m"),
            (273_600_000, "3d 4h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn distances_tell_past_from_future() {
        let now = Timestamp::from_second(1_000).unwrap();
        assert_eq!(ago(Timestamp::from_second(808).unwrap(), now), "3m ago");
        assert_eq!(ago(Timestamp::from_second(1_012).unwrap(), now), "in 12s");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!([shortened("äöü", 2), shortened("äöü", 3)], ["äö…", "äöü"]);
    }

    #[test]
    fn counts_and_sizes_are_readable() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 812, 4_096, 1_572_864].map(bytes), ["1 byte", "812 bytes", "4.0 KiB", "1.5 MiB"]);
    }
}
