//! The forms of values on the command line: durations, times, headers.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::When;

use crate::failure::{Failure, Outcome};

const DURATION_FORM: &str = "a duration is a whole number and a unit, as in 500ms, 30s, 5m, 2h or 7d";
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 24 * 3_600_000)];
/// A hundred years: whatever is longer is a slip of the pen.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// Reads `500ms`, `30s`, `5m`, `2h`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ms)| *ms);
    let (Some(unit), false) = (unit, number.is_empty()) else { return Err(DURATION_FORM.to_owned()) };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match ms.map(Duration::from_millis) {
        Some(duration) if duration <= LONGEST => Ok(duration),
        _ => Err("a duration is at most 36500d".to_owned()),
    }
}

/// Reads a time of RFC 3339, or a duration from now.
pub(crate) fn when(text: &str) -> Result<When, String> {
    let starts_like_duration = text.trim_start_matches(|c: char| c.is_ascii_digit()).len() <= 2;
    if starts_like_duration {
        return duration(text).map(When::In);
    }
    text.parse::<Timestamp>().map(When::At).map_err(|_| {
        format!("neither a time of RFC 3339, as in 2030-01-31T12:00:00Z, nor a duration: {DURATION_FORM}")
    })
}

/// Reads `NAME=VALUE`; an error never shows the value.
pub(crate) fn header(text: &str) -> Outcome<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Failure::usage("--header has no `=`").hint("write --header NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "5", "s", "-5s", "5 s", "1.5s", "5x", "5µs", "1h30m"] {
            assert_eq!(duration(bad), Err(DURATION_FORM.to_owned()), "{bad}");
        }
        for absurd in ["36501d", "99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(duration(absurd), Err("a duration is at most 36500d".to_owned()), "{absurd}");
        }
    }

    #[test]
    fn moments_are_times_or_durations() {
        assert_eq!(when("5m"), Ok(When::In(Duration::from_secs(300))));
        assert_eq!(when("1970-01-01T00:00:01Z"), Ok(When::At(Timestamp::from_second(1).unwrap())));
        assert_eq!(when("1970-01-01T01:00:01+01:00"), Ok(When::At(Timestamp::from_second(1).unwrap())));
        for bad in ["", "now", "2030-01-01", "2030-13-01T00:00:00Z", "5x", "tomorrow"] {
            assert!(when(bad).is_err(), "{bad}");
        }
    }

    /// PBX-023
    #[test]
    fn header_errors_do_not_show_values() {
        assert_eq!(header("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert!(!header("s3cret").unwrap_err().to_string().contains("s3cret"));
    }
}
