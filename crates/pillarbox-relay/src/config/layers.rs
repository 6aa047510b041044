//! Layers of settings, one over the other: defaults, file, `[[source]]`, variables, flags. Each value keeps where it came from.

use std::collections::BTreeMap;

use pillarbox::redact;
use serde::Deserialize;
use toml::Value;

use super::key::{Key, KeyScope, ValueKind};
use super::keys::{KEYS, Keys, key};
use super::problem::{Origin, Problem};
use super::value::HumanDuration;

/// Pairs of keys that exclude each other.
const EITHER: [(&str, &str); 5] = [
    ("database-url", "database-url-file"),
    ("api-token", "api-token-file"),
    ("webhook-secrets", "webhook-secrets-file"),
    ("admin-token", "admin-token-file"),
    ("sink", "api-base-url"),
];

/// Secrets that are shown without their credentials.
const URLS: [&str; 3] = ["database-url", "api-base-url", "sink"];

/// A key and its value, secrets hidden.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShownKey {
    /// The key.
    pub key: &'static str,
    /// Its value; secrets as `***`, URLs without users, passwords and queries.
    pub value: String,
    /// Flag, variable or line of the file that sets it; none: the default.
    pub from: Option<String>,
}

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Settings by the names of their keys: every one is of its key's kind and within its bounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer(BTreeMap<&'static str, Setting>);

impl Layer {
    /// The defaults of the table of keys.
    pub(super) fn defaults() -> Self {
        let settings = KEYS.iter().filter_map(|key| {
            let document = format!("value = {}", key.default?);
            let value = document.parse::<toml::Table>().ok()?.remove("value")?;
            Some((key.name, Setting { value, origin: Origin::Default }))
        });
        Self(settings.collect())
    }

    /// Adds a value of the file; the error says what is wrong with it.
    pub(super) fn take(&mut self, name: &str, value: Value, origin: Origin) -> Result<(), String> {
        let key = key(name).ok_or_else(String::new)?;
        let value = checked(key, value).ok_or_else(|| format!("it must be {}", key.kind.expected()))?;
        self.0.insert(key.name, Setting { value, origin });
        Ok(())
    }

    /// Adds the text of a flag or variable, read as the first type that fits.
    pub(super) fn take_text(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), String> {
        let number = text.parse::<i64>().ok().map(Value::Integer);
        let switch = text.parse::<bool>().ok().map(Value::Boolean);
        let readings = [number, switch, Some(Value::String(text.to_owned()))];
        let mut last = Ok(());
        for value in readings.into_iter().flatten() {
            last = self.take(name, value, origin.clone());
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Puts another layer over this one. Of two keys that exclude each other, the upper layer's replaces the lower one's.
    pub(super) fn under(mut self, upper: &Self) -> Self {
        for (one, other) in EITHER {
            for (one, other) in [(one, other), (other, one)] {
                if upper.0.contains_key(one) {
                    self.0.remove(other);
                }
            }
        }
        self.0.extend(upper.0.iter().map(|(name, setting)| (*name, setting.clone())));
        self
    }

    /// Where a key's value came from.
    pub(super) fn origin(&self, name: &str) -> Origin {
        self.0.get(name).map_or(Origin::Default, |setting| setting.origin.clone())
    }

    /// Whether a file, variable or flag sets it.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.origin(name) != Origin::Default
    }

    /// The keys that are set, of a scope.
    pub(super) fn given_in(&self, scope: KeyScope) -> impl Iterator<Item = (&'static str, &Origin)> {
        let of_scope = move |name: &&'static str| key(name).is_some_and(|key| key.scope == scope);
        self.0.iter().filter(move |(name, _)| of_scope(name)).map(|(name, setting)| (*name, &setting.origin))
    }

    /// Every key that has a value, secrets hidden, with its origin.
    pub(super) fn shown(&self, file: &str) -> Vec<ShownKey> {
        let settings = KEYS.iter().filter_map(|key| Some((key, self.0.get(key.name)?)));
        let shown = settings.map(|(key, setting)| ShownKey {
            key: key.name,
            value: shown(key, &setting.value),
            from: place(key.name, &setting.origin, file),
        });
        shown.collect()
    }

    /// The values as a struct.
    pub(super) fn keys(&self) -> Keys {
        let settings = self.0.iter().filter_map(|(name, setting)| Some((key(name)?, setting)));
        let table = settings.map(|(key, setting)| (key.name.to_owned(), plain(key, &setting.value)));
        Keys::deserialize(Value::Table(table.collect())).expect("each was deserialised alone when it came in")
    }
}

/// A value for display: URLs without credentials, other secrets hidden.
fn shown(key: &Key, value: &Value) -> String {
    match value {
        Value::String(url) if URLS.contains(&key.name) => redact::url(url),
        _ if key.kind.is_secret() => "***".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// The value, if it is of the key's kind and within its bounds.
fn checked(key: &Key, value: Value) -> Option<Value> {
    let plain = plain(key, &value);
    let fits = match key.kind {
        ValueKind::Count(min, max) => {
            let number = plain.as_integer().and_then(|number| u64::try_from(number).ok());
            number.is_some_and(|number| (min..=max).contains(&number))
        }
        ValueKind::Duration(min, max) => {
            let duration = plain.as_str().and_then(|text| text.parse::<HumanDuration>().ok());
            let bounds = HumanDuration::from_millis(min)..=HumanDuration::from_millis(max);
            duration.is_some_and(|duration| bounds.contains(&duration))
        }
        ValueKind::Choice(_) | ValueKind::DatabaseType => {
            let words = key.kind.words();
            plain.as_str().is_some_and(|word| words.iter().any(|known| known.eq_ignore_ascii_case(word)))
        }
        _ => true,
    };
    let alone = toml::Table::from_iter([(key.name.to_owned(), plain)]);
    (fits && Keys::deserialize(Value::Table(alone)).is_ok()).then_some(value)
}

/// The value as its type reads it: words in lower case.
fn plain(key: &Key, value: &Value) -> Value {
    match (key.kind, value) {
        (ValueKind::Choice(_) | ValueKind::DatabaseType, Value::String(word)) => {
            Value::String(word.to_ascii_lowercase())
        }
        (_, value) => value.clone(),
    }
}

/// Where a value of this key is set.
pub(super) fn place(name: &str, origin: &Origin, file: &str) -> Option<String> {
    match origin {
        Origin::Default => None,
        Origin::File { line } | Origin::Table { line } => Some(format!("line {line} of {file}")),
        Origin::Variable => key(name).map(Key::variable),
        Origin::Flag => Some(format!("--{name}")),
    }
}

/// A problem of a key that is set.
pub(super) fn problem(name: &str, origin: &Origin, file: &str, what: impl Into<String>) -> Problem {
    Problem::new(name, place(name, origin, file), what)
}
