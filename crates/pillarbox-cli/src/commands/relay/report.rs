//! Messages of a relay for people: its sources and sinks at the start, and a summary at the end.

use std::time::Duration;

use pillarbox::redact;
use pillarbox_relay::config::SourceConfig;
use pillarbox_relay::{Left, Relay, SourceCounts, SourceReport};
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Output, Printable, Reader};
use serde::Serialize;
use tokio::time::timeout;

/// Timeout for counting the remaining events.
const COUNTED_WITHIN: Duration = Duration::from_secs(5);

/// One line about a source, without secrets.
pub(super) fn start_line(source: &SourceConfig) -> String {
    let from = redact::url(source.database_url.reveal());
    let to = redact::url(source.sink.url.reveal());
    if !source.enabled {
        return format!("{}: {from} is not delivered: enabled = false", source.name);
    }
    let groups = counted(source.engine.workers as u64, "group");
    format!("{}: {from} to {to}, {groups} at once, up to {} events a batch", source.name, source.engine.batch)
}

/// Whether a source delivers to standard output, which then must contain nothing else.
pub(super) fn is_stdout(source: &SourceConfig) -> bool {
    source.sink.url.reveal().starts_with("stdout")
}

/// The summary of a relay that has ended.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    empty: bool,
    #[serde(flatten)]
    counts: SourceCounts,
    /// The pending events that remain; `null` if they could not be counted.
    left: Option<Left>,
    sources: Vec<SourceReport>,
}

impl Summary {
    pub(super) async fn of(relay: &Relay, empty: bool) -> Self {
        let sources = relay.sources();
        let counts = sources.iter().fold(SourceCounts::default(), |all, source| all + source.counts);
        // The server may have closed the connection that the first call finds.
        let left = async {
            match relay.left().await {
                Err(_) => relay.left().await,
                left => left,
            }
        };
        let left = timeout(COUNTED_WITHIN, left).await;
        Self { empty, counts, left: left.ok().and_then(Result::ok), sources }
    }

    /// A line about failed requests, with the class of the last failure.
    fn endpoint_line(&self) -> Option<String> {
        let last = self.sources.iter().filter_map(|source| source.last_failure.as_ref());
        let last = last.max_by_key(|failure| failure.last_at)?;
        let requests = counted(self.counts.endpoint_failures, "request");
        Some(format!("{requests} failed: {} ({})", last.error, last.class))
    }

    fn left_line(&self) -> String {
        match &self.left {
            None => "what is left could not be counted".to_owned(),
            Some(left) if left.total() > 0 => {
                let verb = if left.total() == 1 { "waits" } else { "wait" };
                format!("{} still {verb}{}", counted(left.total(), "event"), reasons(left))
            }
            Some(_) if self.empty => "nothing is left".to_owned(),
            Some(_) => "nothing is pending".to_owned(),
        }
    }

    pub(super) fn print(&self, output: Output, prints_events: bool) -> CommandResult {
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

impl Printable for Summary {
    fn for_people(&self, _: Ink) -> String {
        let line = |counts: &SourceCounts| {
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
        let end = [Some(line(&self.counts)), self.endpoint_line(), Some(self.left_line())];
        lines.push(end.into_iter().flatten().collect::<Vec<_>>().join("; "));
        lines.join("\n")
    }
}

/// The reasons other than the endpoint why events remain.
fn reasons(left: &Left) -> String {
    let reasons = [
        (left.held, "in groups that are paused or blocked"),
        (left.delayed, "for their time"),
        (left.queued, "in the queue"),
        (left.beside, "in tables of another layout, which are not drained"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<String> = reasons.map(|(count, why)| format!("{count} {why}")).collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}
