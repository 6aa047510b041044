//! Parses values of the command line: durations, times, headers, owners and work items.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{OwnerId, When};
use pillarbox::queue::WorkItemId;
use pillarbox::rules::Lease;
use pillarbox_relay::config::{DurationError, HumanDuration};
use pillarbox_terminal::error::{CommandError, CommandResult};
use uuid::Uuid;

const OWNER_FORM: &str = "an owner is a UUID, as `uuidgen` prints one: draw it once and keep it";
/// One hundred years. A longer duration is a typing mistake.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// Parses a duration such as `500ms`, `30s`, `5m`, `2h` or `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(HumanDuration(duration)) if duration <= LONGEST => Ok(duration),
        Err(error @ DurationError::Malformed) => Err(error.to_string()),
        Ok(_) | Err(DurationError::TooLong) => Err("a duration is at most 36500d".to_owned()),
    }
}

/// Parses a duration, or `none`, which means forever.
pub(crate) fn retention(text: &str) -> Result<Duration, String> {
    if text == "none" { Ok(Duration::MAX) } else { duration(text).map_err(|why| format!("{why}, or none")) }
}

/// Parses the length of a lease and checks its bounds.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    Lease::new(length).map(Lease::length).map_err(|invalid| invalid.to_string())
}

/// Refuses a command without a word, such as an empty variable of a script: the shell would run nothing and
/// report success for every message.
pub(crate) fn command(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the command is empty, so that messages would be done without work".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Parses an owner: a UUID in any of its spellings, which all mean the same owner.
pub(crate) fn owner(text: &str) -> Result<OwnerId, String> {
    let uuid = Uuid::try_parse(text).map_err(|_| OWNER_FORM.to_owned())?;
    OwnerId::new(uuid.to_string()).map_err(|invalid| invalid.to_string())
}

/// Checks that the text has the form `ID@TOKEN`.
pub(crate) fn work_item(text: &str) -> Result<String, String> {
    WorkItemId::parse(text).map(|_| text.to_owned()).map_err(|invalid| invalid.to_string())
}

/// Parses a time in RFC 3339, or a duration from now.
pub(crate) fn when(text: &str) -> Result<When, String> {
    let starts_like_duration = text.trim_start_matches(|c: char| c.is_ascii_digit()).len() <= 2;
    if starts_like_duration {
        return duration(text).map(When::In);
    }
    text.parse::<Timestamp>().map(When::At).map_err(|_| {
        format!(
            "neither a time of RFC 3339, as in 2030-01-31T12:00:00Z, nor a duration: {}",
            DurationError::Malformed
        )
    })
}

/// Parses `NAME=VALUE`. The error never contains the value.
pub(crate) fn header(text: &str) -> CommandResult<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(CommandError::usage("--header has no `=`").hint("write --header NAME=VALUE")),
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
            assert_eq!(duration(bad), Err(DurationError::Malformed.to_string()), "{bad}");
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

    /// OBX-021
    #[test]
    fn owners_are_uuids_in_one_form() {
        let plain = owner("0B6C3B9E-6E0B-4C4B-9C1F-0C9A7C0D1E2F").unwrap();
        assert_eq!(plain.as_str(), "0b6c3b9e-6e0b-4c4b-9c1f-0c9a7c0d1e2f");
        assert_eq!(owner("0b6c3b9e6e0b4c4b9c1f0c9a7c0d1e2f").unwrap(), plain);
        for bad in ["", "worker-1", "0b6c3b9e"] {
            assert!(owner(bad).is_err(), "{bad}");
        }
    }

    /// OBX-116: none of zero, and none for ever.
    #[test]
    fn leases_and_work_items_have_bounds_and_a_form() {
        assert_eq!(lease("30s"), Ok(Duration::from_secs(30)));
        for bad in ["0s", "299ms", "25h", "30"] {
            assert!(lease(bad).is_err(), "{bad}");
        }
        assert_eq!(work_item("01J@7").as_deref(), Ok("01J@7"));
        for bad in ["01J", "01J@", "@7", "01J@x"] {
            assert!(work_item(bad).is_err(), "{bad}");
        }
    }

    /// PBX-023
    #[test]
    fn header_errors_do_not_show_values() {
        assert_eq!(header("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert!(!header("s3cret").unwrap_err().to_string().contains("s3cret"));
    }
}
