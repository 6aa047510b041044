//! Layers of settings, one over the other: defaults, file, `[[source]]`, variables, flags. Each value keeps where it came from.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Value;

use super::key::{Form, Key, Scope};
use super::keys::{KEYS, Keys, key};
use super::problem::{Origin, Problem};
use super::value::{Span, Word};
use crate::secret::shown_url;

/// Pairs of keys of which one is set.
const EITHER: [(&str, &str); 5] = [
    ("database-url", "database-url-file"),
    ("api-token", "api-token-file"),
    ("webhook-secrets", "webhook-secrets-file"),
    ("admin-token", "admin-token-file"),
    ("sink", "api-base-url"),
];

/// Secrets of which people may see a part.
const URLS: [&str; 3] = ["database-url", "api-base-url", "sink"];

/// A key and its value, as people may see them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShownKey {
    /// The key.
    pub key: &'static str,
    /// Its value; secrets as `***`, URLs without users, passwords and queries.
    pub value: String,
    /// Where it stands; none: it is the default.
    pub from: Option<String>,
}

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Settings by the names of their keys: every one is of its key's form and within its bounds.
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

    /// Takes a value of the file in, or says what is wrong with it.
    pub(super) fn take(&mut self, name: &str, value: Value, origin: Origin) -> Result<(), String> {
        let key = key(name).ok_or_else(String::new)?;
        let value = checked(key, value).ok_or_else(|| format!("it must be {}", key.form.expected()))?;
        self.0.insert(key.name, Setting { value, origin });
        Ok(())
    }

    /// Takes a text of a flag or variable in: whatever of its readings fits.
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

    /// This layer under another. Of two keys that say the same in two ways, the upper layer's takes the place of the lower one's.
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

    /// Whether somebody set it.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.origin(name) != Origin::Default
    }

    /// The keys that are set, of a scope.
    pub(super) fn given_in(&self, scope: Scope) -> impl Iterator<Item = (&'static str, &Origin)> {
        let of_scope = move |name: &&'static str| key(name).is_some_and(|key| key.scope == scope);
        self.0.iter().filter(move |(name, _)| of_scope(name)).map(|(name, setting)| (*name, &setting.origin))
    }

    /// Every key that has a value, as people may see it, and where it stands.
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
        let table = self.0.iter().map(|(name, setting)| ((*name).to_owned(), setting.value.clone()));
        // Each was read alone when it came in.
        Keys::deserialize(Value::Table(table.collect())).unwrap_or_default()
    }
}

/// A value as people may see it: of a URL where it leads to, of any other secret nothing.
fn shown(key: &Key, value: &Value) -> String {
    match value {
        Value::String(url) if URLS.contains(&key.name) => shown_url(url),
        _ if key.form.is_secret() => "***".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// The value, if it is of the key's form and within its bounds.
fn checked(key: &Key, value: Value) -> Option<Value> {
    let alone = toml::Table::from_iter([(key.name.to_owned(), value.clone())]);
    Keys::deserialize(Value::Table(alone)).ok()?;
    let fits = match key.form {
        Form::Count(min, max) => {
            let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
            number.is_some_and(|number| (min..=max).contains(&number))
        }
        Form::Span(min, max) => {
            let span = value.as_str().and_then(Span::parse);
            span.is_some_and(|span| (min..=max).contains(&span.as_ms()))
        }
        Form::Word(words) => {
            let word = Word::deserialize(value.clone()).ok()?.lower();
            words.iter().any(|known| known.eq_ignore_ascii_case(&word))
        }
        Form::Switch | Form::Text | Form::Secret | Form::Secrets | Form::Pairs => true,
    };
    fits.then_some(value)
}

/// Where a value of this key stands, for people.
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
