//! Encoding of an event as a document, and common filters.

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};
use pillarbox::model::{GroupKey, Lane, NewColumns, NewRow, Status, When};
use pillarbox::rules::SLOTS;

use crate::time::{cut, us};

/// A filter on the statuses of pending rows.
pub(crate) fn pending() -> Document {
    doc! { "$in": [code(Status::New), code(Status::Retry)] }
}

pub(crate) fn code(status: Status) -> i32 {
    status.code().into()
}

/// The fields to set when a claim is reaped. `locked_at` stays, so that the next claim does not count the
/// attempt again.
pub(crate) fn reaped() -> Document {
    doc! { "locked_by": Bson::Null, "locked_until": Bson::Null }
}

/// The fields to set when a claim ends.
pub(crate) fn unlocked() -> Document {
    doc! { "locked_by": Bson::Null, "locked_at": Bson::Null, "locked_until": Bson::Null }
}

/// Alternatives for `$or`: the row has no claim, or an expired one.
pub(crate) fn unclaimed(now: Timestamp) -> Bson {
    let free = doc! { "locked_until": Bson::Null };
    Bson::from(vec![Bson::from(free), Bson::from(doc! { "locked_until": { "$lte": us(now) } })])
}

/// The slot of a key: folded FNV-1a. It must never change between releases, because rows store their slot.
pub(crate) fn slot_of(key: &str) -> i32 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let folded = hash ^ (hash >> 32) ^ (hash >> 16);
    (folded % SLOTS as u64) as i32
}

/// A new row as a document.
pub(crate) struct Fresh {
    pub(crate) document: Document,
    pub(crate) delayed: bool,
}

/// Encodes a new row. `write` marks the rows of one call, so that a failed call can delete them.
pub(crate) fn fresh(row: &NewRow, seq: i64, now: Timestamp, write: ObjectId) -> Fresh {
    let columns = NewColumns::new(row);
    let event = columns.event;
    let time = |when: When| cut(when.resolve(now));
    let (due, expires) = (columns.due.map(time), columns.expires.map(time));
    let late = due.is_some_and(|due| due > now) && columns.lane != Some(Lane::QUEUE);
    let lane = if late { Some(Lane::DELAYED) } else { columns.lane };
    let group = GroupKey::of(event);
    let home = slot_of(group.as_ref().map_or(event.id().as_str(), GroupKey::as_str));
    let texts = NewColumns::text_names().zip(columns.texts).filter_map(|(name, text)| {
        let field = if name == "event_id" { "_id" } else { name };
        Some((field.to_owned(), Bson::from(text?.into_owned())))
    });
    let mut document: Document = texts.collect();
    document.extend(doc! {
        "seq": seq,
        "slot": lane.map_or(home, |lane| lane.0.into()),
        "home": home,
        "status": code(Status::New),
        "attempts": 0,
        "created_at": us(now),
        "available_at": us(due.map_or(now, |due| due.max(now))),
        "occurred_at": us(columns.occurred_at),
        "mark": write,
    });
    let times = [("due_at", due), ("expires_at", expires)];
    document.extend(times.into_iter().filter_map(|(name, at)| Some((name.to_owned(), Bson::from(us(at?))))));
    document.extend(group.map(|group| ("group_key".to_owned(), Bson::from(group.as_str()))));
    document
        .extend(columns.payload_bytes.map(|bytes| ("payload_bytes".to_owned(), Bson::from(binary(bytes)))));
    Fresh { document, delayed: lane == Some(Lane::DELAYED) }
}

fn binary(bytes: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-010: rows hold their slot, so it may never be another one in a later release.
    #[test]
    fn the_slot_of_a_key_is_fixed_and_spreads() {
        assert_eq!([slot_of(""), slot_of("order/7"), slot_of("g")], [35, 43, 43]);
        let slots: std::collections::BTreeSet<i32> = (0..2_000).map(|n| slot_of(&format!("k{n}"))).collect();
        assert_eq!(slots.len(), 64);
    }
}
