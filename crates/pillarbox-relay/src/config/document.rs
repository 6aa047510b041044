//! Reads the file: keys at the top, in `[outbox-processor]` and in `[[source]]`, each with its line number.

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::key::KeyScope;
use super::keys::{KEYS, key};
use super::layers::{Layer, problem};
use super::problem::{Origin, Problem, nearest};

/// The table whose keys mean the same as at the top.
const PREFIX: &str = "outbox-processor";
const SOURCE: &str = "source";
const NAME: &str = "name";
/// Maximum number of sources in one relay.
const MAX_SOURCES: usize = 256;

/// The settings of a file.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) top: Layer,
    pub(super) sources: Vec<Table>,
}

impl Document {
    /// Whether the text of the file contains secrets.
    pub(super) fn has_secrets(&self) -> bool {
        self.top.has_secrets() || self.sources.iter().any(|source| source.layer.has_secrets())
    }
}

/// The settings of a `[[source]]`.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) layer: Layer,
}

/// Reads a file and appends its problems to `problems`.
pub(super) fn read(text: &str, file: &str, problems: &mut Vec<Problem>) -> Document {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { text, file, problems, document: Document::default() };
    for error in errors {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        // Only the first line: the rest of the text quotes the file, which may contain secrets.
        let what = error.message().lines().next().unwrap_or("not TOML").to_owned();
        reader.problems.push(Problem::new("file", Some(format!("line {line} of {file}")), what));
    }
    for (name, value) in table.into_inner() {
        reader.entry(&name, value);
    }
    reader.document
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    problems: &'a mut Vec<Problem>,
    document: Document,
}

impl Reader<'_> {
    fn entry(&mut self, name: &Spanned<std::borrow::Cow<'_, str>>, value: Spanned<DeValue<'_>>) {
        let line = line_of(self.text, name.span().start);
        match (name.get_ref().as_ref(), value.into_inner()) {
            (SOURCE, DeValue::Array(tables)) => tables.into_iter().for_each(|table| self.source(table)),
            (SOURCE, _) => self.wrong(SOURCE, line, "write it as [[source]], a table each"),
            (PREFIX, DeValue::Table(table)) => {
                for (name, value) in table {
                    let line = line_of(self.text, name.span().start);
                    self.top(name.get_ref(), &value.into_inner(), line);
                }
            }
            (name, value) => self.top(name, &value, line),
        }
    }

    fn top(&mut self, name: &str, value: &DeValue<'_>, line: usize) {
        if self.document.top.is_given(name) {
            return self.wrong(name, line, format!("it is set twice, with and without [{PREFIX}]"));
        }
        let mut layer = std::mem::take(&mut self.document.top);
        self.take(&mut layer, name, value, Origin::File { line });
        self.document.top = layer;
    }

    fn source(&mut self, table: Spanned<DeValue<'_>>) {
        let line = line_of(self.text, table.span().start);
        let DeValue::Table(table) = table.into_inner() else {
            return self.wrong(SOURCE, line, "write it as [[source]], a table each");
        };
        if self.document.sources.len() == MAX_SOURCES {
            return self.wrong(SOURCE, line, format!("there are more than {MAX_SOURCES}"));
        }
        let mut source = Table { name: String::new(), line, layer: Layer::default() };
        for (name, value) in table {
            let line = line_of(self.text, name.span().start);
            match (name.get_ref().as_ref(), value.into_inner()) {
                (NAME, value) => source.name = source_name(&value),
                (name, value) => self.take(&mut source.layer, name, &value, Origin::Table { line }),
            }
        }
        if source.name.is_empty() {
            self.wrong(SOURCE, line, "it needs a name of letters, digits, `-` and `_`, up to 64");
        } else if self.document.sources.iter().any(|other| other.name == source.name) {
            self.wrong(SOURCE, line, format!("another one is called {:?} too", source.name));
        }
        self.document.sources.push(source);
    }

    fn take(&mut self, layer: &mut Layer, name: &str, value: &DeValue<'_>, origin: Origin) {
        let (Origin::File { line } | Origin::Table { line }) = origin else { return };
        match key(name) {
            None => self.wrong(name, line, unknown(name)),
            Some(key) if key.scope == KeyScope::Relay && matches!(origin, Origin::Table { .. }) => {
                self.wrong(name, line, "it is for the whole relay: write it above the sources");
            }
            Some(_) => {
                let taken = match owned(value) {
                    Some(value) => layer.take(name, value, origin.clone()),
                    None => Err("its number is too large".to_owned()),
                };
                if let Err(what) = taken {
                    self.problems.push(problem(name, &origin, self.file, what));
                }
            }
        }
    }

    fn wrong(&mut self, name: &str, line: usize, what: impl Into<String>) {
        let name: String = name.chars().take(64).collect();
        self.problems.push(Problem::new(name, Some(format!("line {line} of {}", self.file)), what));
    }
}

/// The name, or an empty string if it is invalid; the caller then reports the problem.
fn source_name(value: &DeValue<'_>) -> String {
    let is_plain = |name: &&str| {
        name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    value.as_str().filter(is_plain).unwrap_or_default().to_owned()
}

/// The message for an unknown key.
pub(super) fn unknown(name: &str) -> String {
    match nearest(name, KEYS.iter().map(|key| key.name)) {
        Some(near) => format!("there is no such key; is it {near}?"),
        None => "there is no such key; `pillarbox config default` shows all".to_owned(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// The value without positions in the file, or `None` for a number that is out of range.
fn owned(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().ok()?),
        DeValue::Boolean(switch) => Value::Boolean(*switch),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(values) => {
            Value::Array(values.iter().map(|value| owned(value.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let entry = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                Some((name.get_ref().to_string(), owned(value.get_ref())?))
            };
            Value::Table(table.iter().map(entry).collect::<Option<_>>()?)
        }
    })
}
