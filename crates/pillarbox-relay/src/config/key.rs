//! What is known of a key: its name, where it may stand, its kind of value, its default, its bounds.

use pillarbox_stores::stores;

use super::value::HumanDuration;

/// Where a key may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScope {
    /// At the top, for all sources, and in a `[[source]]`, for that one.
    Source,
    /// The same, and it says which tables are read: a flag or variable never overrides that of a `[[source]]`.
    Place,
    /// At the top only: the relay has one.
    Relay,
}

/// What the values of a key look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// A duration from the first to the second, in milliseconds.
    Duration(u64, u64),
    /// `none`, or a duration of at least a minute.
    Retention,
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// A kind of database that this build has, in any case.
    DatabaseType,
    /// A text.
    Text,
    /// A text that is never shown.
    Secret,
    /// Texts, in a list or separated by commas, that are never shown.
    Secrets,
    /// Names and values, in a table or as NAME=VALUE separated by commas, that are never shown.
    Pairs,
}

impl ValueKind {
    /// Whether its values are never shown.
    #[must_use]
    pub const fn is_secret(self) -> bool {
        matches!(self, Self::Secret | Self::Secrets | Self::Pairs)
    }

    /// The words that its values are chosen from; none: any value of the kind will do.
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

    /// What a value must be, in words.
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

    /// The name of its values on the command line.
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
    /// Its name in the file; with `--` before it the flag.
    pub name: &'static str,
    /// What it is about.
    pub section: Section,
    /// Where it may stand.
    pub scope: KeyScope,
    /// What its values look like.
    pub kind: ValueKind,
    /// Its default as it stands in a file; none: not set.
    pub default: Option<&'static str>,
    /// A value for people to start from, where there is no default.
    pub example: &'static str,
    /// What it does; the first sentence stands alone.
    pub doc: &'static str,
}

impl Key {
    /// The variable that sets it: `PILLARBOX_POLL_INTERVAL`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("PILLARBOX_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }

    /// What it does, without the space that begins a line of documentation.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.doc.trim()
    }
}

/// What keys are about; they are listed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Which tables.
    Tables,
    /// How they are read.
    Reading,
    /// How events are delivered.
    Delivery,
    /// The HTTP API of batches.
    Api,
    /// Other sinks.
    Sinks,
    /// The relay itself.
    Relay,
}

impl Section {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Tables, Self::Reading, Self::Delivery, Self::Api, Self::Sinks, Self::Relay];

    /// Its heading.
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
