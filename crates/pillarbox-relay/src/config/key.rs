//! The description of a configuration key: name, scope, kind of value, bounds, default and help text.

use pillarbox_stores::stores;

use super::value::HumanDuration;

/// The parts of the configuration that may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScope {
    /// At the top for all sources, or in a `[[source]]` for that source.
    Source,
    /// Like `Source`, for keys that select the tables to read. It is an error if a flag or environment
    /// variable sets such a key and a `[[source]]` sets it too.
    Location,
    /// At the top only, for the relay as a whole.
    Relay,
}

/// The kind of a key's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A whole number from the first to the second, inclusive.
    Count(u64, u64),
    /// A duration between two bounds in milliseconds, inclusive.
    Duration(u64, u64),
    /// `none`, or a duration of at least a minute.
    Retention,
    /// One of these words, in upper or lower case.
    Choice(&'static [&'static str]),
    /// A database that this build supports, in upper or lower case.
    DatabaseType,
    /// Any text.
    Text,
    /// A text that is never shown.
    Secret,
    /// A list of texts, or one text separated by commas. The texts are never shown.
    Secrets,
    /// A table of names and values, or NAME=VALUE pairs separated by commas. The values are never shown.
    Pairs,
}

impl ValueKind {
    /// Whether its values are never shown.
    #[must_use]
    pub const fn is_secret(self) -> bool {
        matches!(self, Self::Secret | Self::Secrets | Self::Pairs)
    }

    /// The possible words; empty for kinds that are not a choice.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        match self {
            Self::Choice(words) => words.to_vec(),
            Self::DatabaseType => {
                stores().iter().filter(|kind| kind.is_built_in()).map(|kind| kind.database_type).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A phrase that describes valid values, for error messages.
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Count(min, max) => format!("a whole number from {min} to {max}"),
            Self::Duration(min, max) => format!(
                "a whole number and a unit, as in 500ms, 30s, 5m, 2h or 7d, from {} to {}",
                HumanDuration::from_millis(min),
                HumanDuration::from_millis(max)
            ),
            Self::Retention => {
                "`none`, or a whole number and a unit of at least a minute, as in 12h or 7d".to_owned()
            }
            Self::Choice(_) | Self::DatabaseType => format!("one of {}", self.words().join(", ")),
            Self::Text | Self::Secret => "a text".to_owned(),
            Self::Secrets => "a list of texts, or one text with commas between them".to_owned(),
            Self::Pairs => "a table of texts, or NAME=VALUE with commas between them".to_owned(),
        }
    }

    /// The placeholder of a value in `--help`.
    #[must_use]
    pub const fn value_name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Count(..) => "N",
            Self::Duration(..) => "DURATION",
            Self::Choice(_) | Self::DatabaseType => "WORD",
            Self::Text | Self::Secret | Self::Retention => "TEXT",
            Self::Secrets | Self::Pairs => "LIST",
        }
    }
}

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The name in the file. The flag is this name with `--` in front.
    pub name: &'static str,
    /// The section of the documents that lists it.
    pub section: Section,
    /// The parts of the configuration that may set it.
    pub scope: KeyScope,
    /// The kind of its values, with bounds.
    pub kind: ValueKind,
    /// The default in TOML; `None` if the key is not set by default.
    pub default: Option<&'static str>,
    /// An example value for the default file, used for keys without a default.
    pub example: &'static str,
    /// The help text. Its first sentence stands alone.
    pub doc: &'static str,
}

impl Key {
    /// The environment variable that sets it, such as `PILLARBOX_POLL_INTERVAL`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("PILLARBOX_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }

    /// The help text, without the space that begins a doc comment.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.doc.trim()
    }
}

/// The sections of the documents, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Keys that select databases and tables.
    Tables,
    /// Keys about reading and buffering rows.
    Reading,
    /// Keys about batches, retries and retention.
    Delivery,
    /// Keys of the HTTP sink.
    Api,
    /// Keys of all other sinks.
    Sinks,
    /// Keys of the relay as a whole: admin server, metrics and log.
    Relay,
}

impl Section {
    /// All sections in order.
    pub const ALL: [Self; 6] =
        [Self::Tables, Self::Reading, Self::Delivery, Self::Api, Self::Sinks, Self::Relay];

    /// The heading in the documents.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Tables => "Tables",
            Self::Reading => "Reading",
            Self::Delivery => "Delivery",
            Self::Api => "HTTP API",
            Self::Sinks => "Other sinks",
            Self::Relay => "Relay",
        }
    }
}
