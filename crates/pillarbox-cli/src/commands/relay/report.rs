//! What people are told of a relay: where events come from and go to, and what was done in the end.

use pillarbox_relay::config::SourceConfig;
use pillarbox_relay::{Counts, Relay, SourceReport, shown_url};
use pillarbox_terminal::failure::Outcome;
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Answer, Ink, Output, Reader};
use serde::Serialize;

/// One line on a source, without secrets.
pub(super) fn start_line(source: &SourceConfig) -> String {
    let from = shown_url(source.database_url.reveal());
    let to = shown_url(source.sink.url.reveal());
    if !source.enabled {
        return format!("{}: {from} is not delivered: enabled = false", source.name);
    }
    let groups = counted(source.max_concurrent_groups as u64, "group");
    format!(
        "{}: {from} to {to}, {groups} at once, up to {} events a batch",
        source.name, source.api_batch_size
    )
}

/// Whether a source's events go to standard output, which then has to hold nothing else.
pub(super) fn is_stdout(source: &SourceConfig) -> bool {
    source.sink.url.reveal().starts_with("stdout")
}

/// What was done.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    empty: bool,
    #[serde(flatten)]
    counts: Counts,
    sources: Vec<SourceReport>,
}

impl Summary {
    pub(super) fn of(relay: &Relay, empty: bool) -> Self {
        let sources = relay.sources();
        let counts = sources.iter().fold(Counts::default(), |all, source| all + source.counts);
        Self { empty, counts, sources }
    }

    pub(super) fn print(&self, output: Output, prints_events: bool) -> Outcome {
        match (prints_events, output.reader()) {
            (false, _) => output.answer(self),
            (true, Reader::People) => {
                output.note(&self.for_people(Ink::Plain));
                Ok(())
            }
            (true, Reader::Programs) => Ok(()),
        }
    }
}

impl Answer for Summary {
    fn for_people(&self, _: Ink) -> String {
        let line = |counts: &Counts| {
            let delivered = counted(counts.delivered, "event");
            format!(
                "delivered {delivered}, {} failed, {} dead",
                counted(counts.failed, "attempt"),
                counts.dead
            )
        };
        let mut lines = Vec::new();
        if self.sources.len() > 1 {
            lines.extend(
                self.sources.iter().map(|source| format!("{}: {}", source.name, line(&source.counts))),
            );
        }
        let end = if self.empty { "; nothing is left" } else { "" };
        lines.push(format!("{}{end}", line(&self.counts)));
        lines.join("\n")
    }
}
