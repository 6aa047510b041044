//! The types of values that no standard type has.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

use super::key::spelled;
use crate::secret::Secret;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A duration, written as a whole number and a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    /// Reads `500ms`, `30s`, `5m`, `2h`, `7d`.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let ms = number.parse::<u64>().ok()?.checked_mul(*unit)?;
        Some(Self(Duration::from_millis(ms)))
    }

    /// Its length in milliseconds.
    #[must_use]
    pub(crate) fn as_ms(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a duration"))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spelled(self.as_ms()))
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" })
    }
}

/// Several secrets: a list, or one text with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Secrets(pub(crate) Vec<Secret>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            List(Vec<String>),
            Text(String),
        }
        let texts = match Form::deserialize(deserializer)? {
            Form::List(texts) => texts,
            Form::Text(text) => text.split(',').map(str::to_owned).collect(),
        };
        let texts = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        Ok(Self(texts.map(Secret::new).collect()))
    }
}

impl JsonSchema for Secrets {
    fn schema_name() -> Cow<'static, str> {
        "Secrets".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// Names and values: a table, or one text with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pairs(pub(crate) BTreeMap<String, Secret>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Table(BTreeMap<String, Secret>),
            Text(String),
        }
        let text = match Form::deserialize(deserializer)? {
            Form::Table(pairs) => return Ok(Self(pairs)),
            Form::Text(text) => text,
        };
        let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').map(|(name, value)| (name.trim(), value.trim())));
        let pairs = pairs.map(|pair| pair.map(|(name, value)| (name.to_owned(), Secret::new(value))));
        pairs.collect::<Option<_>>().map(Self).ok_or_else(|| D::Error::custom("a pair has no `=`"))
    }
}

impl JsonSchema for Pairs {
    fn schema_name() -> Cow<'static, str> {
        "Pairs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "object" }] })
    }
}

/// A word of a list, in any case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Word(String);

impl Word {
    /// The word in lower case.
    #[must_use]
    pub(crate) fn lower(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in
            [("500ms", 500), ("1s", 1_000), ("5m", 300_000), ("2h", 7_200_000), ("7d", 604_800_000)]
        {
            assert_eq!(Span::parse(text), Some(Span(Duration::from_millis(ms))));
            assert_eq!(spelled(ms), text);
        }
        for bad in ["", "5", "s", "-5s", "5 s", "1.5s", "5x", "1h30m", "99999999999999999999d"] {
            assert_eq!(Span::parse(bad), None, "{bad}");
        }
    }
}
