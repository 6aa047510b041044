//! `nodes`: who delivers.

use clap::Subcommand;
use jiff::Timestamp;
use pillarbox::port::NodeInfo;
use pillarbox_terminal::failure::Outcome;
use pillarbox_terminal::output::{Answer, Column, Ink, Table, ago, span};
use serde::Serialize;

use super::Session;

/// What to do with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum Nodes {
    /// List the nodes, their leases and how many slots they hold
    #[command(after_help = "Example:\n  pillarbox nodes list --json")]
    List,
}

impl Nodes {
    pub(crate) async fn run(self, session: &Session) -> Outcome {
        let Self::List = self;
        let nodes = session.store().await?.admin().nodes().await?;
        session.output.answer(&Listed(nodes.iter().map(Node::from).collect()))
    }
}

/// A node as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    node: String,
    label: String,
    lane: i16,
    slots: usize,
    joined_at: Timestamp,
    /// `null`: its lease has ended, and nobody has taken over yet.
    expires_in_ms: Option<u64>,
    #[serde(skip)]
    expires_in: Option<std::time::Duration>,
}

impl From<&NodeInfo> for Node {
    fn from(info: &NodeInfo) -> Self {
        Self {
            node: info.node.to_string(),
            label: info.label.clone(),
            lane: info.lane.0,
            slots: info.slots,
            joined_at: info.joined_at,
            expires_in_ms: info.expires_in.map(|left| left.as_millis() as u64),
            expires_in: info.expires_in,
        }
    }
}

/// A table of nodes.
pub(crate) fn table(ink: Ink, nodes: &[Node]) -> String {
    use Column::{Number, Whole, Wrapped};
    let columns =
        [Whole("NODE"), Wrapped("LABEL"), Number("LANE"), Number("SLOTS"), Whole("JOINED"), Whole("LEASE")];
    let mut table = Table::new(ink, &columns);
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

impl Answer for Listed {
    fn for_people(&self, ink: Ink) -> String {
        match self.0.as_slice() {
            [] => "no nodes".to_owned(),
            nodes => table(ink, nodes),
        }
    }
}
