//! Types of configuration values: durations, retention times, lists of secrets, name-value pairs.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use pillarbox_sinks::Secret;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Units with their length in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// The shortest retention time that can be configured.
const SHORTEST_RETENTION: Duration = Duration::from_secs(60);

/// A duration as people write it: a whole number and a unit, as in `500ms`, `30s`, `5m`, `2h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct HumanDuration(pub Duration);

/// The reason why a text is not a [`HumanDuration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is not a whole number followed by a unit.
    #[error("a duration is a whole number and a unit, as in 500ms, 30s, 5m, 2h or 7d")]
    Malformed,
    /// The number of milliseconds does not fit into 64 bits.
    #[error("the duration is too long")]
    TooLong,
}

impl HumanDuration {
    /// A duration of this many milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }
}

impl FromStr for HumanDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit).filter(|_| !number.is_empty());
        let (_, unit) = unit.ok_or(DurationError::Malformed)?;
        let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*unit));
        ms.map(Self::from_millis).ok_or(DurationError::TooLong)
    }
}

impl fmt::Display for HumanDuration {
    /// Uses the largest unit that gives a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        let unit = UNITS.iter().find(|(_, unit)| ms > 0 && ms.is_multiple_of(u128::from(*unit)));
        match unit {
            Some((name, unit)) => write!(f, "{}{name}", ms / u128::from(*unit)),
            None => f.write_str("0s"),
        }
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// How long rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// The relay never deletes them.
    Forever,
    /// The relay deletes them this long after they were done or went dead.
    For(Duration),
}

impl Retention {
    pub(crate) fn length(self) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::For(length) => Some(length),
        }
    }
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "none" {
            return Ok(Self::Forever);
        }
        match text.parse().map_err(D::Error::custom)? {
            HumanDuration(length) if length >= SHORTEST_RETENTION => Ok(Self::For(length)),
            _ => Err(D::Error::custom("shorter than a minute")),
        }
    }
}

/// Several secrets: a list, or one text separated by commas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Secrets(pub(crate) Vec<Secret>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            List(Vec<String>),
            Text(String),
        }
        let texts = match Written::deserialize(deserializer)? {
            Written::List(texts) => texts,
            Written::Text(text) => text.split(',').map(str::to_owned).collect(),
        };
        let texts = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        Ok(Self(texts.map(Secret::new).collect()))
    }
}

/// Names and values: a table, or NAME=VALUE pairs separated by commas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pairs(pub(crate) BTreeMap<String, Secret>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Table(BTreeMap<String, Secret>),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Table(pairs) => return Ok(Self(pairs)),
            Written::Text(text) => text,
        };
        let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').map(|(name, value)| (name.trim(), value.trim())));
        let pairs = pairs.map(|pair| pair.map(|(name, value)| (name.to_owned(), Secret::new(value))));
        pairs.collect::<Option<_>>().map(Self).ok_or_else(|| D::Error::custom("a pair has no `=`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in [
            ("500ms", 500),
            ("1s", 1_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            let duration = HumanDuration::from_millis(ms);
            assert_eq!(text.parse(), Ok(duration));
            assert_eq!(duration.to_string(), text);
        }
        for bad in ["", "5", "s", "-5s", "5 s", "1.5s", "5x", "5µs", "1h30m"] {
            assert_eq!(bad.parse::<HumanDuration>(), Err(DurationError::Malformed), "{bad}");
        }
        for long in ["99999999999999999999d", "18446744073709551615d"] {
            assert_eq!(long.parse::<HumanDuration>(), Err(DurationError::TooLong), "{long}");
        }
    }
}
