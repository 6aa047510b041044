//! Layers of settings that override each other: defaults, file, `[[source]]`, environment variables, flags.
//!
//! Each value keeps its origin, for messages and for `pillarbox config check`.

use std::collections::BTreeMap;
use std::fmt;

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

/// Secrets that are URLs, of which scheme and host are shown.
pub(super) const URLS: [&str; 5] = ["database-url", "api-base-url", "sink", "otlp-endpoint", "api-proxy"];

/// A key and its value for display, with secrets hidden.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShownKey {
    /// The name of the key.
    pub key: &'static str,
    /// The value. Secrets appear as `***`, and of URLs only scheme and host.
    pub value: String,
    /// The flag, environment variable or line of the file that sets it; `None` for the default.
    pub from: Option<String>,
}

/// A value and its origin.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Without the value, which may be a secret.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setting").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Settings by the name of their key. Every value has been checked against the kind and the bounds of its
/// key.
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

    /// Adds a value if it is valid. The error says what a valid value is.
    pub(super) fn take(&mut self, name: &str, value: Value, origin: Origin) -> Result<(), String> {
        let key = key(name).ok_or_else(String::new)?;
        let value = checked(key, value).ok_or_else(|| format!("it must be {}", key.kind.expected()))?;
        self.0.insert(key.name, Setting { value, origin });
        Ok(())
    }

    /// Adds the text of a flag or environment variable, as an integer, a bool or a string: the first that is
    /// valid.
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

    /// Overrides this layer with `upper`. A key of `upper` also removes the key that it excludes from this
    /// layer.
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

    /// The origin of a key's value; the default if the key is not set.
    pub(super) fn origin(&self, name: &str) -> Origin {
        self.0.get(name).map_or(Origin::Default, |setting| setting.origin.clone())
    }

    /// Whether the file, an environment variable or a flag sets the key.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.origin(name) != Origin::Default
    }

    /// Whether it contains secrets. A URL is one only if it has a password.
    pub(super) fn has_secrets(&self) -> bool {
        self.0.iter().any(|(name, setting)| match &setting.value {
            Value::String(url) if URLS.contains(name) => {
                redact::credentials(url).is_some_and(|credentials| credentials.contains(':'))
            }
            _ => key(name).is_some_and(|key| key.kind.is_secret()),
        })
    }

    /// The keys of a scope that are set, with their origins.
    pub(super) fn given_in(&self, scope: KeyScope) -> impl Iterator<Item = (&'static str, &Origin)> {
        let of_scope = move |name: &&'static str| key(name).is_some_and(|key| key.scope == scope);
        self.0.iter().filter(move |(name, _)| of_scope(name)).map(|(name, setting)| (*name, &setting.origin))
    }

    /// Every key that has a value, in the order of [`KEYS`], with secrets hidden.
    pub(super) fn shown(&self, file: &str) -> Vec<ShownKey> {
        let settings = KEYS.iter().filter_map(|key| Some((key, self.0.get(key.name)?)));
        let shown = settings.map(|(key, setting)| ShownKey {
            key: key.name,
            value: shown(key, &setting.value),
            from: place(key.name, &setting.origin, file),
        });
        shown.collect()
    }

    /// The values as the typed struct.
    pub(super) fn keys(&self) -> Keys {
        let settings = self.0.iter().filter_map(|(name, setting)| Some((key(name)?, setting)));
        let table = settings.map(|(key, setting)| (key.name.to_owned(), plain(key, &setting.value)));
        Keys::deserialize(Value::Table(table.collect())).expect("each was deserialised alone when it came in")
    }
}

/// A value for display: scheme and host of URLs, other secrets hidden.
fn shown(key: &Key, value: &Value) -> String {
    match value {
        Value::String(url) if URLS.contains(&key.name) => redact::url(url),
        _ if key.kind.is_secret() => "***".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Returns the value if it is of the key's kind and within its bounds.
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

/// The value in the form that its type deserialises: words in lower case.
fn plain(key: &Key, value: &Value) -> Value {
    match (key.kind, value) {
        (ValueKind::Choice(_) | ValueKind::DatabaseType, Value::String(word)) => {
            Value::String(word.to_ascii_lowercase())
        }
        (_, value) => value.clone(),
    }
}

/// The flag, environment variable or line of the file for messages; `None` for a default.
pub(super) fn place(name: &str, origin: &Origin, file: &str) -> Option<String> {
    match origin {
        Origin::Default => None,
        Origin::File { line } | Origin::Table { line } => Some(format!("line {line} of {file}")),
        Origin::Variable => key(name).map(Key::variable),
        Origin::Flag => Some(format!("--{name}")),
    }
}

/// A problem of a key, with the place that sets it.
pub(super) fn problem(name: &str, origin: &Origin, file: &str, what: impl Into<String>) -> Problem {
    Problem::new(name, place(name, origin, file), what)
}
