//! The state of nodes and slots as a pure state machine, with its encoding as a document.

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{Lane, NodeId, Seq, Slot};
use pillarbox::port::{ErrorKind, GroupStates, HeldSlot, Membership, NodeInfo, Quarantine};
use pillarbox::rules::{Share, SlotState, share};

use crate::call::whole;
use crate::error::Failure;
use crate::time::{from_us, until, us};

/// A registered node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) label: String,
    pub(crate) lane: Lane,
    pub(crate) joined_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) state: Option<String>,
}

/// A slot or lane, its holder, and its quarantine since an eviction. `suspect` is set if the last holder was
/// evicted.
#[derive(Debug, Clone, Copy)]
struct Held {
    state: SlotState,
    suspect: bool,
    quarantine: Option<Quarantine>,
}

impl Held {
    fn free(slot: Slot) -> Self {
        Self { state: SlotState { slot, holder: None }, suspect: false, quarantine: None }
    }
}

#[derive(Debug, Clone, Copy)]
enum Removal {
    Left,
    /// The highest pending number at the eviction, where rows have numbers.
    Evicted(Option<Seq>),
}

/// Nodes in order of registration, slots in ascending order, and the suspect slots that this call took over.
#[derive(Debug, Clone)]
pub(crate) struct Members {
    nodes: Vec<Node>,
    slots: Vec<Held>,
    taken_suspect: Vec<Slot>,
}

impl Members {
    /// No nodes, and all slots free.
    pub(crate) fn none(slots: i16) -> Self {
        let slots = (0..slots).map(|slot| Held::free(Slot(slot))).collect();
        Self { nodes: Vec::new(), slots, taken_suspect: Vec::new() }
    }

    pub(crate) fn read(document: &Document) -> Result<Self, Failure> {
        let list = |field| document.get_array(field).map(Vec::as_slice).unwrap_or_default().iter();
        let nodes = list("nodes").filter_map(Bson::as_document).map(read_node);
        let slots = list("slots").filter_map(Bson::as_document).map(read_slot);
        let mut slots: Vec<Held> = slots.collect::<Result<_, _>>()?;
        for quarantined in list("quarantine").filter_map(Bson::as_document) {
            let (slot, quarantine) = read_quarantine(quarantined)?;
            if let Some(held) = slots.iter_mut().find(|held| held.state.slot == slot) {
                held.quarantine = Some(quarantine);
            }
        }
        Ok(Self { nodes: nodes.collect::<Result<_, _>>()?, slots, taken_suspect: Vec::new() })
    }

    pub(crate) fn to_document(&self) -> Document {
        let node = |node: &Node| {
            Bson::from(doc! {
                "id": node.id.to_string(),
                "label": node.label.as_str(),
                "lane": i32::from(node.lane.0),
                "joined_at": us(node.joined_at),
                "expires_at": us(node.expires_at),
                "state": node.state.as_deref(),
            })
        };
        let slot = |held: &Held| {
            let holder = held.state.holder.map(|node| node.to_string());
            Bson::from(
                doc! { "slot": i32::from(held.state.slot.0), "holder": holder, "suspect": held.suspect },
            )
        };
        // A separate list: an older release rewrites the slots, and would drop a field it does not know.
        let quarantine = |held: &Held| {
            let Quarantine { evictions, upto } = held.quarantine?;
            let slot = i32::from(held.state.slot.0);
            Some(Bson::from(doc! { "slot": slot, "evictions": i64::from(evictions), "upto": upto.0 }))
        };
        let nodes: Vec<Bson> = self.nodes.iter().map(node).collect();
        let slots: Vec<Bson> = self.slots.iter().map(slot).collect();
        let quarantine: Vec<Bson> = self.slots.iter().filter_map(quarantine).collect();
        doc! { "nodes": nodes, "slots": slots, "quarantine": quarantine }
    }

    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.nodes.iter().any(|one| one.id == node)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|node| node.id)
    }

    pub(crate) fn add(&mut self, node: Node) {
        self.nodes.push(node);
        self.nodes.sort_by_key(|node| (node.joined_at, node.id));
    }

    /// Returns false if the node is not registered.
    pub(crate) fn renew(&mut self, node: NodeId, expires_at: Timestamp) -> bool {
        let found = self.nodes.iter_mut().find(|one| one.id == node);
        found.map(|node| node.expires_at = expires_at).is_some()
    }

    /// All expired nodes, except the node that is renewing its lease.
    pub(crate) fn expired(&self, now: Timestamp, renewing: Option<NodeId>) -> Vec<NodeId> {
        let expired = |node: &&Node| node.expires_at <= now && Some(node.id) != renewing;
        self.nodes.iter().filter(expired).map(|node| node.id).collect()
    }

    /// Removes expired nodes and marks their slots suspect. Where rows have numbers, also quarantines rows up
    /// to `upto`.
    pub(crate) fn evict(&mut self, dead: &[NodeId], upto: Option<Seq>) {
        for node in dead {
            self.remove(*node, Removal::Evicted(upto));
        }
    }

    /// Returns false if the node is not registered.
    pub(crate) fn leave(&mut self, node: NodeId) -> bool {
        let there = self.has(node);
        self.remove(node, Removal::Left);
        there
    }

    fn remove(&mut self, node: NodeId, removal: Removal) {
        self.nodes.retain(|one| one.id != node);
        for held in self.slots.iter_mut().filter(|held| held.state.holder == Some(node)) {
            held.state.holder = None;
            held.suspect = matches!(removal, Removal::Evicted(_));
            if let Removal::Evicted(Some(upto)) = removal {
                let evictions = held.quarantine.map_or(0, |quarantine| quarantine.evictions) + 1;
                held.quarantine = Some(Quarantine { evictions, upto });
            }
        }
    }

    /// Ends the quarantine of these slots, as far as the node holds them.
    pub(crate) fn trust(&mut self, node: NodeId, slots: &[Slot]) {
        let trusted = |held: &&mut Held| held.state.holder == Some(node) && slots.contains(&held.state.slot);
        for held in self.slots.iter_mut().filter(trusted) {
            held.quarantine = None;
        }
    }

    /// Frees drained slots and drops drained lanes, as far as the node holds them. A node never releases its
    /// own lane.
    pub(crate) fn release(&mut self, node: NodeId, slots: &[Slot]) {
        let own = self.lane_of(node).slot();
        let drained = |held: &Held| {
            let slot = held.state.slot;
            held.state.holder == Some(node) && slot != own && slots.contains(&slot)
        };
        self.slots.retain(|held| !(drained(held) && held.state.slot.is_lane()));
        for held in self.slots.iter_mut().filter(|held| drained(held)) {
            held.state.holder = None;
            held.suspect = false;
        }
    }

    /// Adds lanes that have rows but no entry, so that a node can take them.
    pub(crate) fn know(&mut self, lanes: &[Slot]) {
        for lane in lanes {
            self.entry(*lane);
        }
    }

    fn entry(&mut self, slot: Slot) -> &mut Held {
        let place = match self.slots.binary_search_by_key(&slot, |held| held.state.slot) {
            Ok(place) => place,
            Err(place) => {
                self.slots.insert(place, Held::free(slot));
                place
            }
        };
        &mut self.slots[place]
    }

    pub(crate) fn take(&mut self, node: NodeId, slots: Vec<Slot>) {
        for slot in slots {
            let held = self.entry(slot);
            held.state.holder = Some(node);
            if std::mem::take(&mut held.suspect) {
                self.taken_suspect.push(slot);
            }
        }
    }

    pub(crate) fn states(&self) -> Vec<SlotState> {
        self.slots.iter().map(|held| held.state).collect()
    }

    /// The free slots that the node should take, and the slots it should release.
    pub(crate) fn share(&self, node: NodeId) -> Share {
        share(node, self.nodes.iter().map(|one| (one.id, one.lane)), &self.states())
    }

    fn lane_of(&self, node: NodeId) -> Lane {
        self.nodes.iter().find(|one| one.id == node).map_or(Lane::FIRST, |one| one.lane)
    }

    fn held_by(&self, node: NodeId) -> impl Iterator<Item = &Held> {
        self.slots.iter().filter(move |held| held.state.holder == Some(node))
    }

    /// The membership of a node, without the state of pending rows.
    pub(crate) fn standing(
        &self,
        node: NodeId,
        give: Vec<Slot>,
        groups: Option<GroupStates>,
        now: Timestamp,
    ) -> Membership {
        let held = |held: &Held| {
            let Held { state: SlotState { slot, .. }, quarantine, .. } = *held;
            HeldSlot { slot, suspect: self.taken_suspect.contains(&slot), quarantine }
        };
        Membership {
            lane: self.lane_of(node),
            held: self.held_by(node).map(held).collect(),
            give,
            nodes: self.nodes.len(),
            groups,
            ready: false,
            next_due: None,
            oldest: None,
            now,
        }
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.slots.iter().filter(|held| held.state.holder.is_none()).count()
    }

    /// Nodes in order of registration, for operators.
    pub(crate) fn infos(&self, now: Timestamp) -> Vec<NodeInfo> {
        let info = |node: &Node| NodeInfo {
            node: node.id,
            label: node.label.clone(),
            lane: node.lane,
            slots: self.held_by(node.id).count(),
            joined_at: node.joined_at,
            expires_in: (node.expires_at > now).then(|| until(now, node.expires_at)),
            state: node.state.clone(),
        };
        self.nodes.iter().map(info).collect()
    }
}

fn unreadable() -> Failure {
    Failure::Refused(ErrorKind::Unexpected, "the document of nodes and slots can't be read".to_owned())
}

fn node_id(text: &str) -> Result<NodeId, Failure> {
    NodeId::parse(text).map_err(|_| unreadable())
}

fn small(document: &Document, field: &str) -> Result<i16, Failure> {
    whole(document, field).and_then(|number| i16::try_from(number).ok()).ok_or_else(unreadable)
}

fn read_node(document: &Document) -> Result<Node, Failure> {
    let time = |field| whole(document, field).map(from_us).ok_or_else(unreadable);
    Ok(Node {
        id: node_id(document.get_str("id").map_err(|_| unreadable())?)?,
        label: document.get_str("label").unwrap_or_default().to_owned(),
        lane: Lane(small(document, "lane")?),
        joined_at: time("joined_at")?,
        expires_at: time("expires_at")?,
        state: document.get_str("state").ok().map(str::to_owned),
    })
}

fn read_slot(document: &Document) -> Result<Held, Failure> {
    let holder = document.get_str("holder").ok().map(node_id).transpose()?;
    let suspect = document.get_bool("suspect").unwrap_or(false);
    let state = SlotState { slot: Slot(small(document, "slot")?), holder };
    Ok(Held { state, suspect, quarantine: None })
}

fn read_quarantine(document: &Document) -> Result<(Slot, Quarantine), Failure> {
    let evictions = whole(document, "evictions").and_then(|evictions| u32::try_from(evictions).ok());
    let upto = whole(document, "upto").map(Seq);
    let (evictions, upto) = evictions.zip(upto).ok_or_else(unreadable)?;
    Ok((Slot(small(document, "slot")?), Quarantine { evictions, upto }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-063: an older release writes nodes and slots anew, as it knows them, and nothing else of the document.
    #[test]
    fn a_quarantine_outlives_the_heartbeat_of_an_older_release() {
        let (dead, slot) = (NodeId::from_random(1), Slot(1));
        let mut members = Members::none(2);
        members.take(dead, vec![slot]);
        members.evict(&[dead], Some(Seq(7)));
        let document = members.to_document();
        for slot in document.get_array("slots").unwrap() {
            let fields: Vec<&String> = slot.as_document().unwrap().keys().collect();
            assert_eq!(fields, ["slot", "holder", "suspect"]);
        }
        let mut read = Members::read(&document).unwrap();
        let heir = NodeId::from_random(2);
        read.take(heir, vec![Slot(0), slot]);
        let held = read.standing(heir, Vec::new(), None, Timestamp::UNIX_EPOCH).held;
        let quarantine = Some(Quarantine { evictions: 1, upto: Seq(7) });
        assert_eq!(held[0], HeldSlot { slot: Slot(0), suspect: false, quarantine: None });
        assert_eq!(held[1], HeldSlot { slot, suspect: true, quarantine });
    }
}
