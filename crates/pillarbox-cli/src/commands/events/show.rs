//! Formats events for people: a table, or one event in full.

use jiff::Timestamp;
use pillarbox_terminal::output::{Ink, Printable, TableColumn, TextTable, ago, bytes, fields, shortened};
use pillarbox_terminal::printable::{lines, one_line};
use serde::Serialize;

use crate::view::{Content, FailedAttempt, Summary, Whole};

/// A list of events of any status.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Listed(pub(super) Vec<Summary>);

impl Printable for Listed {
    fn for_people(&self, ink: Ink) -> String {
        match self.0.as_slice() {
            [] => "no events".to_owned(),
            events => event_table(ink, events),
        }
    }
}

/// Formats events of any status as a table.
fn event_table(ink: Ink, events: &[Summary]) -> String {
    use TableColumn::{Number, Whole, Wrapped};
    let columns =
        [Whole("ID"), Whole("STATUS"), Wrapped("TYPE"), Wrapped("GROUP"), Number("TRIES"), Whole("WRITTEN")];
    let mut table = TextTable::new(ink, &columns);
    let now = Timestamp::now();
    for event in events {
        let (kind, group) = (kind(event), event.group.clone().unwrap_or("-".to_owned()));
        let tries = event.attempts.to_string();
        table.row_with_status(&event.id, event.status, [kind, group, tries, ago(event.created_at, now)]);
    }
    table.render()
}

/// Formats dead events as a table with their errors.
pub(crate) fn dead_table(ink: Ink, events: &[Summary]) -> String {
    use TableColumn::{Number, Whole, Wrapped};
    let columns =
        [Whole("ID"), Wrapped("TYPE"), Wrapped("GROUP"), Number("TRIES"), Whole("DIED"), Wrapped("ERROR")];
    let mut table = TextTable::new(ink, &columns);
    let now = Timestamp::now();
    for event in events {
        let died = ago(event.ended_at.unwrap_or(event.created_at), now);
        let group = event.group.clone().unwrap_or("-".to_owned());
        let error = shortened(event.last_error.as_deref().unwrap_or("-"), ERROR_SHOWN);
        table.row([event.id.clone(), kind(event), group, event.attempts.to_string(), died, error]);
    }
    table.render()
}

fn kind(event: &Summary) -> String {
    event.event_type.clone().unwrap_or("(malformed)".to_owned())
}

/// Maximum characters of an error in a list; `show` prints all of it.
const ERROR_SHOWN: usize = 100;

impl Printable for Whole {
    fn for_people(&self, ink: Ink) -> String {
        let mut parts = vec![fields(ink, &known(&self.summary))];
        if !self.headers.is_empty() {
            let headers =
                self.headers.iter().map(|(name, value)| format!("{}  {}", one_line(name), lines(value)));
            parts.push(section(ink, "headers", &headers.collect::<Vec<_>>().join("\n")));
        }
        if !self.failures.is_empty() {
            let failures: Vec<String> = self.failures.iter().map(attempt).collect();
            parts.push(section(ink, "failed attempts", &failures.join("\n")));
        }
        if let Some(payload) = &self.payload {
            let size = bytes(self.summary.payload_size.unwrap_or_default());
            let (form, text) = match payload {
                Content::Text(text) => ("text", text),
                Content::Base64(text) => ("base 64", text),
            };
            parts.push(section(ink, &format!("payload ({form}, {size})"), &lines(text)));
        }
        parts.join("\n\n")
    }
}

fn section(ink: Ink, title: &str, text: &str) -> String {
    format!("{}\n{text}", ink.bold(title))
}

fn attempt(failed: &FailedAttempt) -> String {
    let text = format!("{}  {}  {}: {}", failed.number, failed.at, failed.by, failed.error);
    lines(&text)
}

/// The fields that are set, the most important first.
fn known(event: &Summary) -> Vec<(&'static str, String)> {
    let now = Timestamp::now();
    let time = |at: Timestamp| format!("{at} ({})", ago(at, now));
    let text = |value: &Option<String>| value.clone();
    let all = [
        ("id", Some(event.id.clone())),
        ("number", Some(event.seq.to_string())),
        ("status", Some(event.status.to_string())),
        ("malformed", text(&event.malformed)),
        ("type", text(&event.event_type)),
        ("aggregate type", text(&event.aggregate_type)),
        ("aggregate id", text(&event.aggregate_id)),
        ("group", text(&event.group)),
        ("tenant", text(&event.tenant)),
        ("message id", text(&event.message_id)),
        ("correlation id", text(&event.correlation_id)),
        ("attempts", Some(event.attempts.to_string())),
        ("happened", event.occurred_at.map(time)),
        ("written", Some(time(event.created_at))),
        ("due", Some(time(event.available_at))),
        ("expires", event.expires_at.map(time)),
        ("ended", event.ended_at.map(time)),
        ("last error", text(&event.last_error)),
        ("claimed by", text(&event.locked_by)),
        ("claimed until", event.locked_until.map(time)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, lines(&value?)))).collect()
}
