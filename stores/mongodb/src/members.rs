//! The state of nodes and slots, and how it changes: pure, but for reading and writing it as a document.

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{Lane, NodeId, Seq, Slot};
use pillarbox::port::{ErrorKind, GroupStates, HeldSlot, Membership, NodeInfo, Quarantine};
use pillarbox::rules::{Share, SlotState, share};

use crate::call::whole;
use crate::error::Failure;
use crate::time::{from_us, until, us};

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) label: String,
    pub(crate) lane: Lane,
    pub(crate) joined_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) state: Option<String>,
}

/// A slot of groups or a lane, who holds it, and whether its last holder was buried.
#[derive(Debug, Clone, Copy)]
struct Held {
    state: SlotState,
    suspect: bool,
}

/// Nodes in the order they joined, slots ascending, and what this call took from the dead.
#[derive(Debug, Clone)]
pub(crate) struct Members {
    nodes: Vec<Node>,
    slots: Vec<Held>,
    taken_suspect: Vec<Slot>,
    /// The highest pending number when these were taken, where rows have numbers.
    pending_upto: Option<Seq>,
}

impl Members {
    /// Nobody, and all slots free.
    pub(crate) fn none(slots: i16) -> Self {
        let free = |slot| Held { state: SlotState { slot: Slot(slot), holder: None }, suspect: false };
        let slots = (0..slots).map(free).collect();
        Self { nodes: Vec::new(), slots, taken_suspect: Vec::new(), pending_upto: None }
    }

    pub(crate) fn read(document: &Document) -> Result<Self, Failure> {
        let list = |field| document.get_array(field).map(Vec::as_slice).unwrap_or_default().iter();
        let nodes = list("nodes").filter_map(Bson::as_document).map(read_node);
        let slots = list("slots").filter_map(Bson::as_document).map(read_slot);
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            slots: slots.collect::<Result<_, _>>()?,
            taken_suspect: Vec::new(),
            pending_upto: None,
        })
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
        let nodes: Vec<Bson> = self.nodes.iter().map(node).collect();
        let slots: Vec<Bson> = self.slots.iter().map(slot).collect();
        doc! { "nodes": nodes, "slots": slots }
    }

    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.nodes.iter().any(|one| one.id == node)
    }

    pub(crate) fn add(&mut self, node: Node) {
        self.nodes.push(node);
        self.nodes.sort_by_key(|node| (node.joined_at, node.id));
    }

    /// False if it is not there.
    pub(crate) fn renew(&mut self, node: NodeId, expires_at: Timestamp) -> bool {
        let found = self.nodes.iter_mut().find(|one| one.id == node);
        found.map(|node| node.expires_at = expires_at).is_some()
    }

    /// Removes every node that has expired, but the one that is just beating.
    pub(crate) fn bury(&mut self, now: Timestamp, beating: Option<NodeId>) -> Vec<NodeId> {
        let expired = |node: &&Node| node.expires_at <= now && Some(node.id) != beating;
        let dead: Vec<NodeId> = self.nodes.iter().filter(expired).map(|node| node.id).collect();
        for node in &dead {
            self.remove(*node, true);
        }
        dead
    }

    /// False if it is not there.
    pub(crate) fn leave(&mut self, node: NodeId) -> bool {
        let there = self.has(node);
        self.remove(node, false);
        there
    }

    fn remove(&mut self, node: NodeId, suspect: bool) {
        self.nodes.retain(|one| one.id != node);
        for held in self.slots.iter_mut().filter(|held| held.state.holder == Some(node)) {
            held.state.holder = None;
            held.suspect = suspect;
        }
    }

    /// Frees drained slots of groups and drops drained lanes, of those this node holds.
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

    /// Makes lanes free to be taken that have rows but no holder.
    pub(crate) fn know(&mut self, lanes: &[Slot]) {
        for lane in lanes {
            self.entry(*lane);
        }
    }

    fn entry(&mut self, slot: Slot) -> &mut Held {
        let place = match self.slots.binary_search_by_key(&slot, |held| held.state.slot) {
            Ok(place) => place,
            Err(place) => {
                let free = Held { state: SlotState { slot, holder: None }, suspect: false };
                self.slots.insert(place, free);
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

    /// Whether this call took slots from the dead.
    pub(crate) fn took_from_the_dead(&self) -> bool {
        !self.taken_suspect.is_empty()
    }

    /// Rows up to this number were pending then.
    pub(crate) fn pending_upto(&mut self, upto: Seq) {
        self.pending_upto = Some(upto);
    }

    pub(crate) fn states(&self) -> Vec<SlotState> {
        self.slots.iter().map(|held| held.state).collect()
    }

    /// What is free and due to the node, and what it should give.
    pub(crate) fn share(&self, node: NodeId) -> Share {
        share(node, self.nodes.iter().map(|one| (one.id, one.lane)), &self.states())
    }

    fn lane_of(&self, node: NodeId) -> Lane {
        self.nodes.iter().find(|one| one.id == node).map_or(Lane::FIRST, |one| one.lane)
    }

    fn held_by(&self, node: NodeId) -> impl Iterator<Item = Slot> {
        let mine = self.slots.iter().filter(move |held| held.state.holder == Some(node));
        mine.map(|held| held.state.slot)
    }

    /// Where a node stands, all but the rows that wait for it.
    pub(crate) fn standing(
        &self,
        node: NodeId,
        give: Vec<Slot>,
        groups: Option<GroupStates>,
        now: Timestamp,
    ) -> Membership {
        let suspect = |slot| {
            let suspect = self.taken_suspect.contains(&slot);
            let upto = self.pending_upto.filter(|_| suspect);
            HeldSlot { slot, suspect, quarantine: upto.map(|upto| Quarantine { burials: 0, upto }) }
        };
        Membership {
            lane: self.lane_of(node),
            held: self.held_by(node).map(suspect).collect(),
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

    /// Nodes in the order they joined, as people see them.
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
    Ok(Held { state: SlotState { slot: Slot(small(document, "slot")?), holder }, suspect })
}
