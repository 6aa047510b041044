//! `nodes`: lists the nodes that deliver.

use clap::Subcommand;
use jiff::Timestamp;
use pillarbox::port::NodeInfo;
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::{Ink, Printable, TableColumn, TextTable, ago, counted, span};
use pillarbox_terminal::printable::one_line;
use serde::Serialize;
use serde_json::Value;

use super::Session;

/// Subcommands of `nodes`.
#[derive(Debug, Subcommand)]
pub(crate) enum Nodes {
    /// List the nodes, their leases and the number of slots they hold
    #[command(after_help = "Example:\n  pillarbox nodes list --json")]
    List,
}

impl Nodes {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let Self::List = self;
        let nodes = session.store().await?.admin().nodes().await?;
        session.output.answer(&Listed(nodes.iter().map(Node::from).collect()))
    }
}

/// A node for display.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    node: String,
    label: String,
    lane: i16,
    slots: usize,
    joined_at: Timestamp,
    /// `null` if its lease has expired and no node has evicted it yet.
    expires_in_ms: Option<u64>,
    #[serde(skip)]
    expires_in: Option<std::time::Duration>,
    /// The process id that a relay published, in its own PID namespace.
    pid: Option<i64>,
    /// The state of the sink that the node published last; `null` if the sink has never failed.
    pub(crate) sink: Option<Value>,
}

impl From<&NodeInfo> for Node {
    fn from(info: &NodeInfo) -> Self {
        let state: Option<Value> = info.state.as_deref().and_then(|state| serde_json::from_str(state).ok());
        let published = |pointer| state.as_ref().and_then(|state| state.pointer(pointer));
        Self {
            node: info.node.to_string(),
            label: info.label.clone(),
            lane: info.lane.0,
            slots: info.slots,
            joined_at: info.joined_at,
            expires_in_ms: info.expires_in.map(|left| left.as_millis() as u64),
            expires_in: info.expires_in,
            pid: published("/process/pid").and_then(Value::as_i64),
            sink: published("/sink").filter(|sink| sink.is_object()).cloned(),
        }
    }
}

impl Node {
    /// A text about the current failure of the sink; `None` if it does not fail.
    pub(crate) fn failure(&self) -> Option<String> {
        let sink = self.sink.as_ref()?;
        let failure = sink.get("last_failure").filter(|failure| failure["recovered_at"].is_null())?;
        let text = |field: &str| failure[field].as_str().unwrap_or_default();
        let next =
            sink["next_attempt_at"].as_str().map(|at| format!(", next attempt {at}")).unwrap_or_default();
        let requests = failure["requests"].as_u64().unwrap_or_default();
        let line = format!(
            "{}: {} ({}) since {}, {} failed{next}",
            self.label,
            text("error"),
            text("class"),
            text("since"),
            counted(requests, "request"),
        );
        Some(one_line(&line))
    }
}

/// Formats nodes as a table.
pub(crate) fn table(ink: Ink, nodes: &[Node]) -> String {
    use TableColumn::{Number, Whole, Wrapped};
    let columns =
        [Whole("NODE"), Wrapped("LABEL"), Number("LANE"), Number("SLOTS"), Whole("JOINED"), Whole("LEASE")];
    let mut table = TextTable::new(ink, &columns);
    let now = Timestamp::now();
    for node in nodes {
        let lease = node.expires_in.map_or("expired".to_owned(), |left| format!("{} left", span(left)));
        let short = node.node.get(..8).unwrap_or(&node.node).to_owned();
        let (lane, slots) = (node.lane.to_string(), node.slots.to_string());
        table.row([short, node.label.clone(), lane, slots, ago(node.joined_at, now), lease]);
    }
    table.render()
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Listed(Vec<Node>);

impl Printable for Listed {
    fn for_people(&self, ink: Ink) -> String {
        match self.0.as_slice() {
            [] => "no nodes".to_owned(),
            nodes => table(ink, nodes),
        }
    }
}
