//! The list of evicted nodes whose settles may still be applied, and the slots that are withheld until then.

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{NodeId, Slot};

use crate::call::whole;
use crate::members::Members;
use crate::time::us;

/// The field of the list, in the document of nodes and slots.
pub(crate) const ENDING: &str = "ending";
/// The list keeps the newest 1,000 nodes.
const MOST: usize = 1_000;

/// An evicted node: its sessions and fence documents may still be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) node: NodeId,
    /// When it was evicted, in microseconds.
    at: i64,
    /// The slots it held. Nobody gets them before it has ended.
    slots: Vec<Slot>,
}

impl Ending {
    /// A member that is about to be evicted.
    pub(crate) fn of(members: &Members, node: NodeId, at: Timestamp) -> Self {
        Self { node, at: us(at), slots: members.held_by(node).map(|record| record.state.slot).collect() }
    }
}

/// The withheld slots.
pub(crate) fn slots(ending: &[Ending]) -> Vec<Slot> {
    ending.iter().flat_map(|ending| &ending.slots).copied().collect()
}

/// Reads the list, without nodes that were evicted before `oldest`. Entries of an older release have no slots.
pub(crate) fn read(members: &Document, oldest: Timestamp) -> Vec<Ending> {
    let slot = |slot: &Bson| slot.as_i32().and_then(|slot| i16::try_from(slot).ok()).map(Slot);
    let entry = |entry: &Document| {
        let slots = entry.get_array("slots").map(Vec::as_slice).unwrap_or_default();
        Some(Ending {
            node: NodeId::parse(entry.get_str("id").ok()?).ok()?,
            at: whole(entry, "at")?,
            slots: slots.iter().filter_map(slot).collect(),
        })
    };
    let list = members.get_array(ENDING).map(Vec::as_slice).unwrap_or_default();
    let entries = list.iter().filter_map(Bson::as_document).filter_map(entry);
    entries.filter(|entry| entry.at > us(oldest)).collect()
}

pub(crate) fn to_list(ending: &[Ending]) -> Vec<Bson> {
    let entry = |ending: &Ending| {
        let slots: Vec<i32> = ending.slots.iter().map(|slot| i32::from(slot.0)).collect();
        Bson::from(doc! { "id": ending.node.to_string(), "at": ending.at, "slots": slots })
    };
    ending.iter().skip(ending.len().saturating_sub(MOST)).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::none;

    /// PBX-120
    #[test]
    fn slots_of_an_ending_node_are_withheld_until_its_transactions_are_over() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let node = NodeId::from_random(1);
        let mut members = none(3);
        members.take(node, &[Slot(0), Slot(2)]);
        let ending = vec![Ending::of(&members, node, at(10))];
        let document = doc! { ENDING: to_list(&ending) };
        assert_eq!(read(&document, at(9)), ending);
        assert_eq!(slots(&ending), [Slot(0), Slot(2)]);
        assert!(read(&document, at(10)).is_empty(), "an old entry is dropped");
        let older = doc! { ENDING: [{ "id": node.to_string(), "at": us(at(10)) }] };
        assert!(slots(&read(&older, at(9))).is_empty(), "an older release withholds nothing");
    }
}
