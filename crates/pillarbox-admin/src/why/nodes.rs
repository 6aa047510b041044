//! What the node that should deliver an event adds: none is there, it died, its sink fails, it crashed before.

use pillarbox::model::{Lane, Record};
use pillarbox::port::{NodeInfo, ReadScope};

use super::words::{at, lasting};
use super::{Hold, Reason, Situation, due_since, sink};

/// Who holds the slot of an event.
enum Holder<'a> {
    /// The store does not tell, or the event is in no slot yet.
    Unknown,
    Alive(&'a NodeInfo),
    /// Its lease has ended, and no node has evicted it yet.
    Expired(&'a NodeInfo),
    /// It was evicted.
    Evicted,
    Nobody,
}

fn holder<'a>(situation: &'a Situation, nodes: &'a [NodeInfo]) -> Holder<'a> {
    let Some(slot) = situation.slot else { return Holder::Unknown };
    let Some(holder) = slot.state.holder else {
        return if slot.suspect { Holder::Evicted } else { Holder::Nobody };
    };
    match nodes.iter().find(|node| node.node == holder) {
        Some(node) if is_alive(node) => Holder::Alive(node),
        Some(node) => Holder::Expired(node),
        None => Holder::Evicted,
    }
}

fn is_alive(node: &NodeInfo) -> bool {
    node.expires_in.is_some()
}

/// Whether a node takes over slots of others.
fn takes_over(node: &&NodeInfo) -> bool {
    is_alive(node) && ReadScope::of(node.lane) == ReadScope::Share
}

/// A reason why the node does not deliver the event, if there is one.
pub(super) fn trouble(situation: &Situation, record: &Record) -> Option<Hold> {
    let nodes = situation.nodes.as_deref()?;
    let holder = holder(situation, nodes);
    if let Holder::Alive(node) = holder {
        return sink::trouble(node).or_else(|| quarantined(situation, record, node));
    }
    // Delayed events become due through any node, also one that reads only its own lane.
    let is_delayed = record.slot == Lane::DELAYED.slot();
    let heirs: Vec<&NodeInfo> =
        nodes.iter().filter(|node| takes_over(node) || is_delayed && is_alive(node)).collect();
    let Some(heir) = heirs.first() else { return Some(no_node(nodes)) };
    match holder {
        Holder::Expired(node) => Some(died(node, heir)),
        Holder::Evicted => Some(evicted(heir)),
        Holder::Nobody => Some(free(record, heir)),
        // Any of them may deliver it, so all have to fail.
        Holder::Unknown | Holder::Alive(_) => {
            let failing: Vec<Hold> = heirs.iter().filter_map(|node| sink::trouble(node)).collect();
            if failing.len() == heirs.len() { failing.into_iter().next() } else { None }
        }
    }
}

fn no_node(nodes: &[NodeInfo]) -> Hold {
    let last = nodes.iter().filter(|node| !is_alive(node)).max_by_key(|node| node.expires_at);
    let sentence = match last {
        _ if nodes.iter().any(is_alive) => {
            "The nodes that are alive deliver only events that they wrote themselves.".to_owned()
        }
        Some(node) => format!(
            "No node is alive: the lease of the last one, {}, ended at {}.",
            node.label,
            at(node.expires_at)
        ),
        None => "No node is alive that would deliver it.".to_owned(),
    };
    Hold::new(Reason::NoNode, sentence)
        .fact_if("last node", last.map(|node| node.label.clone()))
        .fact_if("lease ended", last.map(|node| at(node.expires_at)))
        .advise("start the service or the relay that delivers from this table")
        .advise("then look whether it is registered: pillarbox nodes list")
}

fn died(node: &NodeInfo, heir: &NodeInfo) -> Hold {
    let (label, end) = (&node.label, at(node.expires_at));
    let sentence = format!(
        "The node {label} held it and died: its lease ended at {end}. {} takes over with its next heartbeat.",
        heir.label
    );
    Hold::new(Reason::NodeDied, sentence)
        .fact("node", label)
        .fact("lease ended", end)
        .fact("taken over by", &heir.label)
        .advise("wait a few seconds for the take-over, and look at what happened to that node")
}

fn evicted(heir: &NodeInfo) -> Hold {
    let sentence = format!(
        "The node that held it died and was evicted. {} takes over with its next heartbeat.",
        heir.label
    );
    Hold::new(Reason::NodeDied, sentence)
        .fact("taken over by", &heir.label)
        .advise("wait a few seconds for the take-over")
}

fn free(record: &Record, heir: &NodeInfo) -> Hold {
    let sentence = if record.slot.is_lane() {
        "The node of its lane is gone; another one adopts the lane with its next sweep, within 5 minutes."
            .to_owned()
    } else {
        format!("No node holds its slot yet: {} takes it with its next heartbeat.", heir.label)
    };
    Hold::new(Reason::SlotFree, sentence).fact("slot", record.slot.0.to_string())
}

fn quarantined(situation: &Situation, record: &Record, node: &NodeInfo) -> Option<Hold> {
    let quarantine = situation.slot?.quarantine.filter(|quarantine| record.seq <= quarantine.upto)?;
    let crashes = match quarantine.evictions {
        1 => "1 node".to_owned(),
        number => format!("{number} nodes"),
    };
    let sentence = format!(
        "It is in quarantine: {crashes} died while holding it, perhaps because of an event there. \
         {} sends such events a few at a time until it trusts them.",
        node.label
    );
    Some(
        Hold::new(Reason::Quarantined, sentence)
            .fact("evictions", quarantine.evictions.to_string())
            .fact("quarantined up to", format!("number {}", quarantine.upto))
            .fact("node", &node.label)
            .advise("wait; if nodes keep crashing, look at their logs for the event that is sent alone"),
    )
}

/// The living node that has had an event for a while.
pub(super) fn holding(situation: &Situation, record: &Record) -> Option<Hold> {
    let Holder::Alive(node) = holder(situation, situation.nodes.as_deref()?) else { return None };
    let (label, until, due) = (&node.label, at(node.expires_at), due_since(record));
    let sentence = format!(
        "The node {label} holds it until {until} and renews that: it has been due for {}, \
         so that node has it in memory or in flight.",
        lasting(due, situation.now)
    );
    Some(
        Hold::new(Reason::HeldByNode, sentence)
            .fact("node", label)
            .fact("lease until", until)
            .fact("due since", at(due))
            .advise(format!(
                "look at the log and the metrics of {label}: its listener or sink is slow, or full"
            ))
            .advise("if it hangs, end it: another node takes over when its lease ends"),
    )
}

pub(super) fn next_read(situation: &Situation, record: &Record) -> Hold {
    let node = match holder(situation, situation.nodes.as_deref().unwrap_or_default()) {
        Holder::Alive(node) => Some(node),
        _ => None,
    };
    let sentence = match node {
        Some(node) => format!("Nothing holds it: {} delivers it with its next read.", node.label),
        None => "Nothing holds it: it is delivered with the next read.".to_owned(),
    };
    Hold::new(Reason::NextRead, sentence)
        .fact_if("node", node.map(|node| node.label.clone()))
        .fact_if("lease until", node.map(|node| at(node.expires_at)))
        .fact("due since", at(due_since(record)))
}
