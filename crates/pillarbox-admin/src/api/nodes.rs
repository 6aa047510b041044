//! Lists nodes.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::call::Call;
use crate::described::described;
use crate::refusal::{Refusal, store_failed};
use crate::state::AdminState;

/// Maximum number of nodes in a response.
const NODES: usize = 1_000;

described! {
    /// A node that delivers.
    #[derive(Serialize)]
    pub(crate) struct NodeView {
        /// Its source.
        source: String,
        /// Its table.
        table: String,
        /// Its id.
        node: String,
        /// Its label.
        label: String,
        /// Its lane.
        lane: i16,
        /// Slots that it holds.
        slots: usize,
        /// When it was registered.
        joined_at: Timestamp,
        /// Milliseconds until its lease expires; null if it has expired and no node has evicted it yet.
        expires_in_ms: Option<u64>,
        /// The state of its sink, as it published it last: breaker, last_failure, next_attempt_at; null if it has never failed.
        sink: Option<Value>,
    }
}

described! {
    /// The nodes.
    #[derive(Serialize)]
    pub(crate) struct NodesPage {
        /// The nodes of all tables.
        nodes: Vec<NodeView>,
        /// Whether there are more than 1,000.
        capped: bool,
    }
}

pub(crate) async fn list(state: &AdminState, call: &Call) -> Result<NodesPage, Refusal> {
    let mut nodes = Vec::new();
    for place in state.places(call)? {
        let found = match place.table.store.admin().nodes().await {
            Ok(found) => found,
            Err(error) => return Err(store_failed(&place.table.store, error).await),
        };
        nodes.extend(found.into_iter().map(|info| {
            let told: Option<Value> =
                info.state.as_deref().and_then(|state| serde_json::from_str(state).ok());
            NodeView {
                source: place.source.clone(),
                table: place.table.name.clone(),
                node: info.node.to_string(),
                label: info.label,
                lane: info.lane.0,
                slots: info.slots,
                joined_at: info.joined_at,
                expires_in_ms: info
                    .expires_in
                    .map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
                sink: told.and_then(|told| told.get("sink").filter(|sink| sink.is_object()).cloned()),
            }
        }));
    }
    let capped = nodes.len() > NODES;
    nodes.truncate(NODES);
    Ok(NodesPage { nodes, capped })
}
