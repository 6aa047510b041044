//! Documents generated from the keys: the default file, the JSON schema and the reference page.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::key::{Key, KeyScope, Section, ValueKind};
use super::keys::KEYS;
use super::layers::URLS;
use super::value::HumanDuration;

/// A configuration file with every key, its help text and its default. Loading it gives the defaults.
#[must_use]
pub fn default_file() -> String {
    let mut text = String::from(
        "# Configuration of `pillarbox relay`. Every key is also a flag (--poll-interval) and an environment variable\n\
         # (PILLARBOX_POLL_INTERVAL). Flags override environment variables, which override this file. Keys without\n\
         # a default are commented out. The keys may also be in a table [outbox-processor].\n",
    );
    for section in Section::ALL {
        let _ = write!(text, "\n## {}\n", section.heading());
        for key in KEYS.iter().filter(|key| key.section == section) {
            text.push('\n');
            for line in wrapped(key.help(), 116) {
                let _ = writeln!(text, "# {line}");
            }
            if !key.kind.words().is_empty() {
                let _ = writeln!(text, "# One of {}.", key.kind.words().join(", "));
            }
            let _ = match key.default {
                Some(default) => writeln!(text, "{} = {default}", key.name),
                None => writeln!(text, "# {} = {:?}", key.name, key.example),
            };
        }
    }
    text.push_str(
        "\n# Several databases in one relay: one table per database, with a name. Its keys override those above.\n\
         # [[source]]\n# name = \"orders\"\n# database-url = \"postgres://relay@localhost/orders\"\n",
    );
    text
}

/// The JSON schema of the file, for editors.
#[must_use]
pub fn json_schema() -> Value {
    let mut top = table_schema();
    let mut source = table_schema();
    if let Some(properties) = source.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| KEYS.iter().any(|key| key.name == name && key.scope != KeyScope::Relay));
        let pattern = "^[A-Za-z0-9_-]{1,64}$";
        properties.insert("name".to_owned(), json!({ "type": "string", "pattern": pattern }));
    }
    source["required"] = json!(["name"]);
    let prefixed =
        json!({ "type": "object", "properties": top["properties"], "additionalProperties": false });
    if let Some(properties) = top.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("outbox-processor".to_owned(), prefixed);
        properties.insert("source".to_owned(), json!({ "type": "array", "items": source }));
    }
    top["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    top["title"] = json!("Configuration of pillarbox relay");
    top
}

fn table_schema() -> Value {
    let properties: serde_json::Map<_, _> =
        KEYS.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The JSON schema of one key.
fn property(key: &Key) -> Value {
    let mut schema = match key.kind {
        ValueKind::Bool => json!({ "type": "boolean" }),
        ValueKind::Count(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ValueKind::Duration(..) => json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" }),
        ValueKind::Choice(_) | ValueKind::DatabaseType => {
            let words = key.kind.words();
            let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
            let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            all.extend(lower.into_iter().filter(|word| !words.contains(&word.as_str())));
            json!({ "type": "string", "enum": all })
        }
        ValueKind::Retention => json!({ "type": "string", "pattern": "^(none|[0-9]+(ms|s|m|h|d))$" }),
        ValueKind::Text | ValueKind::Secret => json!({ "type": "string" }),
        ValueKind::Secrets => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
        }
        ValueKind::Pairs => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "object", "additionalProperties": { "type": "string" } }] })
        }
    };
    schema["description"] = json!(key.help());
    if let Some(default) = default_of(key) {
        schema["default"] = default;
    }
    schema
}

fn default_of(key: &Key) -> Option<Value> {
    let document = format!("value = {}", key.default?);
    let table = document.parse::<toml::Table>().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

/// The reference page in Markdown: a table of keys for each section.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Configuration of the relay\n\n\
         Every key of `pillarbox relay` can be set in a TOML file (`--config FILE`), as a flag and as an environment variable.\n\
         Flags override environment variables, which override the file.\n\
         For example, `poll-interval` is `--poll-interval` and `PILLARBOX_POLL_INTERVAL`.\n\
         `pillarbox config default` prints a file with all keys.\n\
         `pillarbox config check` reports every mistake in yours, or prints the effective configuration.\n\
         `pillarbox config schema` prints a JSON schema for editors.\n\
         The keys may also be in a table `[outbox-processor]`.\n\n\
         `[[source]]` tables, each with a `name`, let one relay drain several databases; their keys override those at the top of the file.\n\
         Keys marked *relay* are allowed at the top only.\n\
         A flag or environment variable overrides a key in every source.\n\
         For keys marked *location*, which select what is read, it is an error if a source sets its own value.\n\n\
         This page is made from the code; a test compares them.\n",
    );
    for section in Section::ALL {
        let _ = write!(
            text,
            "\n## {}\n\n| key | value | default | what it does |\n|---|---|---|---|\n",
            section.heading()
        );
        for key in KEYS.iter().filter(|key| key.section == section) {
            let default = key
                .default
                .map_or_else(|| "—".to_owned(), |default| format!("`{}`", default.trim_matches('"')));
            let mark = match key.scope {
                KeyScope::Source => "",
                KeyScope::Location => " *(location)*",
                KeyScope::Relay => " *(relay)*",
            };
            let _ = writeln!(text, "| `{}`{mark} | {} | {default} | {} |", key.name, value(key), key.help());
        }
    }
    text
}

fn value(key: &Key) -> String {
    let kind = key.kind;
    match kind {
        ValueKind::Bool => "true, false".to_owned(),
        ValueKind::Count(min, max) => format!("{min} to {max}"),
        ValueKind::Duration(min, max) => {
            format!("duration, {} to {}", HumanDuration::from_millis(min), HumanDuration::from_millis(max))
        }
        ValueKind::Retention => "duration of at least 1m, or none".to_owned(),
        ValueKind::Choice(_) | ValueKind::DatabaseType => kind.words().join(", "),
        ValueKind::Text => "text".to_owned(),
        ValueKind::Secret if URLS.contains(&key.name) => "URL, shown as scheme and host".to_owned(),
        ValueKind::Secret => "text, never shown".to_owned(),
        ValueKind::Secrets => "texts, never shown".to_owned(),
        ValueKind::Pairs => "names and values, never shown".to_owned(),
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.is_empty() || line.len() + word.len() < width);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}
