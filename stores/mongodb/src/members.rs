//! The document of nodes and slots: how `rules::Members` is read and written.

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{Lane, NodeId, Seq, Slot};
use pillarbox::port::{ErrorKind, NodeInfo, Quarantine};
use pillarbox::rules::{Member, SlotRecord};

use crate::call::whole;
use crate::error::DriverError;
use crate::time::{from_us, until, us};

/// What the document keeps of a node beyond its membership.
#[derive(Debug, Clone)]
pub(crate) struct Details {
    pub(crate) label: String,
    pub(crate) joined_at: Timestamp,
    pub(crate) state: Option<String>,
}

/// The nodes and slots of the document.
pub(crate) type Members = pillarbox::rules::Members<Details>;

/// No nodes, and all slots free.
pub(crate) fn none(slots: i16) -> Members {
    Members::new(Vec::new(), (0..slots).map(|slot| SlotRecord::free(Slot(slot))).collect())
}

pub(crate) fn read(document: &Document) -> Result<Members, DriverError> {
    let list = |field| document.get_array(field).map(Vec::as_slice).unwrap_or_default().iter();
    let nodes = list("nodes").filter_map(Bson::as_document).map(read_node);
    let slots = list("slots").filter_map(Bson::as_document).map(read_slot);
    let mut slots: Vec<SlotRecord> = slots.collect::<Result<_, _>>()?;
    for quarantined in list("quarantine").filter_map(Bson::as_document) {
        let (slot, quarantine) = read_quarantine(quarantined)?;
        if let Some(record) = slots.iter_mut().find(|record| record.state.slot == slot) {
            record.quarantine = Some(quarantine);
        }
    }
    Ok(Members::new(nodes.collect::<Result<_, _>>()?, slots))
}

pub(crate) fn to_document(members: &Members) -> Document {
    let node = |node: &Member<Details>| {
        Bson::from(doc! {
            "id": node.id.to_string(),
            "label": node.details.label.as_str(),
            "lane": i32::from(node.lane.0),
            "joined_at": us(node.details.joined_at),
            "expires_at": us(node.expires_at),
            "state": node.details.state.as_deref(),
        })
    };
    let slot = |record: &SlotRecord| {
        let holder = record.state.holder.map(|node| node.to_string());
        let slot = i32::from(record.state.slot.0);
        Bson::from(doc! { "slot": slot, "holder": holder, "suspect": record.suspect })
    };
    // A separate list: an older release rewrites the slots, and would drop a field it does not know.
    let quarantine = |record: &SlotRecord| {
        let Quarantine { evictions, upto } = record.quarantine?;
        let slot = i32::from(record.state.slot.0);
        Some(Bson::from(doc! { "slot": slot, "evictions": i64::from(evictions), "upto": upto.0 }))
    };
    let nodes: Vec<Bson> = members.nodes().iter().map(node).collect();
    let slots: Vec<Bson> = members.slots().iter().map(slot).collect();
    let quarantine: Vec<Bson> = members.slots().iter().filter_map(quarantine).collect();
    doc! { "nodes": nodes, "slots": slots, "quarantine": quarantine }
}

/// Nodes in order of registration, for operators.
pub(crate) fn infos(members: &Members, now: Timestamp) -> Vec<NodeInfo> {
    let info = |node: &Member<Details>| NodeInfo {
        node: node.id,
        label: node.details.label.clone(),
        lane: node.lane,
        slots: members.held_by(node.id).count(),
        joined_at: node.details.joined_at,
        expires_in: (node.expires_at > now).then(|| until(now, node.expires_at)),
        expires_at: node.expires_at,
        state: node.details.state.clone(),
    };
    members.nodes().iter().map(info).collect()
}

fn unreadable() -> DriverError {
    DriverError::Refused(ErrorKind::Unexpected, "the document of nodes and slots can't be read".to_owned())
}

fn node_id(text: &str) -> Result<NodeId, DriverError> {
    NodeId::parse(text).map_err(|_| unreadable())
}

fn small(document: &Document, field: &str) -> Result<i16, DriverError> {
    whole(document, field).and_then(|number| i16::try_from(number).ok()).ok_or_else(unreadable)
}

fn read_node(document: &Document) -> Result<Member<Details>, DriverError> {
    let time = |field| whole(document, field).map(from_us).ok_or_else(unreadable);
    Ok(Member {
        id: node_id(document.get_str("id").map_err(|_| unreadable())?)?,
        lane: Lane(small(document, "lane")?),
        expires_at: time("expires_at")?,
        details: Details {
            label: document.get_str("label").unwrap_or_default().to_owned(),
            joined_at: time("joined_at")?,
            state: document.get_str("state").ok().map(str::to_owned),
        },
    })
}

fn read_slot(document: &Document) -> Result<SlotRecord, DriverError> {
    let holder = document.get_str("holder").ok().map(node_id).transpose()?;
    let suspect = document.get_bool("suspect").unwrap_or(false);
    Ok(SlotRecord::new(Slot(small(document, "slot")?), holder, suspect, 0, Seq(0)))
}

fn read_quarantine(document: &Document) -> Result<(Slot, Quarantine), DriverError> {
    let evictions = whole(document, "evictions").and_then(|evictions| u32::try_from(evictions).ok());
    let upto = whole(document, "upto").map(Seq);
    let (evictions, upto) = evictions.zip(upto).ok_or_else(unreadable)?;
    Ok((Slot(small(document, "slot")?), Quarantine { evictions, upto }))
}

#[cfg(test)]
mod tests {
    use pillarbox::port::HeldSlot;

    use super::*;

    /// PBX-063: an older release writes nodes and slots anew, as it knows them, and nothing else of the document.
    #[test]
    fn a_quarantine_outlives_the_heartbeat_of_an_older_release() {
        let (dead, slot) = (NodeId::from_random(1), Slot(1));
        let mut members = none(2);
        members.take(dead, &[slot]);
        members.evict(&[dead], Some(Seq(7)));
        let document = to_document(&members);
        for slot in document.get_array("slots").unwrap() {
            let fields: Vec<&String> = slot.as_document().unwrap().keys().collect();
            assert_eq!(fields, ["slot", "holder", "suspect"]);
        }
        let mut members = read(&document).unwrap();
        let heir = NodeId::from_random(2);
        members.take(heir, &[Slot(0), slot]);
        let held = members.membership(heir, Vec::new(), None, Timestamp::UNIX_EPOCH).held;
        let quarantine = Some(Quarantine { evictions: 1, upto: Seq(7) });
        assert_eq!(held[0], HeldSlot { slot: Slot(0), suspect: false, quarantine: None });
        assert_eq!(held[1], HeldSlot { slot, suspect: true, quarantine });
    }
}
