//! The report of `stats`: counts, ages, rates, dead events by type, nodes and held groups.

use jiff::Timestamp;
use pillarbox::port::{self, HeldGroups, StatusCounts};
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Printable, TableColumn, TextTable, count, fields, span};
use pillarbox_terminal::printable::one_line;
use serde::Serialize;

use crate::commands::groups::{self, HeldGroupView};
use crate::commands::nodes::{self, Node};

/// Maximum number of nodes and of groups in the report. `nodes list` and `groups list` show all.
const SHOWN: usize = 20;

/// The state of an outbox.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    at: Timestamp,
    store: Outbox,
    events: StatusCounts,
    queue: StatusCounts,
    pending: Pending,
    rates: Rates,
    dead_by_type: Vec<DeadType>,
    nodes: Vec<Node>,
    slots: Slots,
    groups: Groups,
}

#[derive(Debug, Serialize)]
struct Outbox {
    kind: &'static str,
    name: String,
}

#[derive(Debug, Serialize)]
struct Pending {
    total: u64,
    delayed: u64,
    queued: u64,
    /// The age of the oldest event that is due.
    oldest_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Rates {
    written_last_minute: u64,
    done_last_minute: u64,
    written_per_second: f64,
    done_per_second: f64,
}

#[derive(Debug, Serialize)]
struct DeadType {
    #[serde(rename = "type")]
    event_type: String,
    count: u64,
}

#[derive(Debug, Serialize)]
struct Slots {
    /// Slots that no node holds, including the lanes of nodes that are gone.
    free: u64,
}

#[derive(Debug, Serialize)]
struct Groups {
    blocked: u64,
    paused: u64,
    held: Vec<HeldGroupView>,
}

impl Report {
    /// Reads the report. A read that fails is an error, never a zero.
    pub(super) async fn read(store: &dyn port::Table) -> CommandResult<Self> {
        let stats = store.admin().stats().await?;
        let nodes = store.admin().nodes().await?;
        let held = store.admin().groups(HeldGroups { after: None, limit: SHOWN }).await?;
        let dead = |t: &port::TypeCount| DeadType { event_type: t.event_type.clone(), count: t.count };
        let facts = store.facts();
        Ok(Self {
            at: Timestamp::now(),
            store: Outbox { kind: facts.kind, name: facts.name.clone() },
            events: stats.events,
            queue: stats.queue,
            pending: Pending {
                total: stats.events.pending() + stats.queue.pending(),
                delayed: stats.delayed,
                queued: stats.queue.pending(),
                oldest_ms: stats.oldest.map(|age| age.as_millis() as u64),
            },
            rates: Rates::of(&stats),
            dead_by_type: stats.dead_by_type.iter().map(dead).collect(),
            nodes: nodes.iter().map(Node::from).collect(),
            slots: Slots { free: stats.free_slots },
            groups: Groups {
                blocked: stats.blocked_groups,
                paused: stats.paused_groups,
                held: held.iter().map(HeldGroupView::from).collect(),
            },
        })
    }
}

impl Rates {
    fn of(stats: &port::Stats) -> Self {
        let per_second = |in_a_minute: u64| (in_a_minute as f64 / 6.0).round() / 10.0;
        Self {
            written_last_minute: stats.written_last_minute,
            done_last_minute: stats.done_last_minute,
            written_per_second: per_second(stats.written_last_minute),
            done_per_second: per_second(stats.done_last_minute),
        }
    }
}

impl Printable for Report {
    fn for_people(&self, ink: Ink) -> String {
        let mut parts = vec![self.overview(ink)];
        if !self.dead_by_type.is_empty() {
            let mut table = TextTable::new(ink, &[TableColumn::Number("DEAD"), TableColumn::Wrapped("TYPE")]);
            for dead in self.dead_by_type.iter().take(SHOWN) {
                table.row([&count(dead.count), &dead.event_type]);
            }
            parts.push(table.render());
        }
        if !self.nodes.is_empty() {
            parts.push(nodes::table(ink, &self.nodes[..self.nodes.len().min(SHOWN)]));
        }
        let failing: Vec<String> =
            self.nodes.iter().filter_map(Node::failure).take(SHOWN).map(|line| ink.red(&line)).collect();
        if !failing.is_empty() {
            parts.push(format!("failing sinks:\n{}", failing.join("\n")));
        }
        if !self.groups.held.is_empty() {
            parts.push(groups::table(ink, &self.groups.held));
        }
        parts.join("\n\n")
    }
}

impl Report {
    fn overview(&self, ink: Ink) -> String {
        let oldest = self.pending.oldest_ms.map(|ms| span(std::time::Duration::from_millis(ms)));
        let dead = both(self.events.dead, self.queue.dead);
        let dead = if self.events.dead + self.queue.dead == 0 { dead } else { ink.red(&dead) };
        let held = match (self.groups.blocked, self.groups.paused) {
            (0, 0) => "none held back".to_owned(),
            (blocked, paused) => ink.yellow(&format!("{} blocked, {} paused", count(blocked), count(paused))),
        };
        let pairs = [
            ("store", format!("{} {}", self.store.kind, one_line(&self.store.name))),
            ("pending", self.pending_line()),
            ("oldest", oldest.unwrap_or("nothing is due".to_owned())),
            ("done", both(self.events.done, self.queue.done)),
            ("dead", dead),
            ("written", rate(self.rates.written_last_minute, self.rates.written_per_second)),
            ("delivered", rate(self.rates.done_last_minute, self.rates.done_per_second)),
            ("nodes", self.nodes_line()),
            ("groups", held),
        ];
        fields(ink, &pairs)
    }

    fn pending_line(&self) -> String {
        let StatusCounts { new, retry, .. } = self.events;
        let mut parts = vec![format!("{} new", count(new)), format!("{} to retry", count(retry))];
        let further = [(self.pending.delayed, "delayed"), (self.pending.queued, "in the queue")];
        parts.extend(further.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))));
        format!("{} ({})", count(self.pending.total), parts.join(", "))
    }

    fn nodes_line(&self) -> String {
        let free = match self.slots.free {
            0 => String::new(),
            free => format!(", {} held by none", counted(free, "slot")),
        };
        format!("{}{free}", counted(self.nodes.len() as u64, "node"))
    }
}

/// A number of events, and that of messages if there are any.
fn both(events: u64, messages: u64) -> String {
    match messages {
        0 => count(events),
        messages => format!("{}, {}", counted(events, "event"), counted(messages, "message")),
    }
}

fn rate(last_minute: u64, per_second: f64) -> String {
    format!("{} in the last minute ({per_second}/s)", count(last_minute))
}
