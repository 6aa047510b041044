//! What answers are compared by: numbers and slots are a store's own, so they get names that all stores share.

use std::collections::BTreeMap;
use std::fmt::Write;

use pillarbox::model::{Decoded, EventId, GroupKey, Record, Row, Seq, Slot, Token};

/// The numbers one store gave out, by the order in which it first told them.
#[derive(Default)]
pub(crate) struct Names {
    order: BTreeMap<Seq, usize>,
    /// For each event, every number and token it was known by, the newest last.
    known: BTreeMap<String, Vec<(Seq, Token)>>,
    groups: BTreeMap<String, GroupKey>,
    homes: BTreeMap<String, Slot>,
}

impl Names {
    pub(crate) fn seq(&mut self, seq: Seq) -> String {
        let next = self.order.len();
        format!("#{}", self.order.entry(seq).or_insert(next))
    }

    /// The name of a number that was told before.
    pub(crate) fn told(&self, seq: Seq) -> String {
        self.order.get(&seq).map_or_else(|| "none".to_owned(), |name| format!("#{name}"))
    }

    pub(crate) fn learn(&mut self, id: &EventId, seq: Seq, token: Token) {
        let known = self.known.entry(id.to_string()).or_default();
        if known.last() != Some(&(seq, token)) {
            known.push((seq, token));
        }
    }

    fn learn_place(&mut self, id: &EventId, slot: Slot, group: Option<&GroupKey>) {
        let Some(group) = group else { return };
        self.groups.insert(id.to_string(), group.clone());
        if (0..64).contains(&slot.0) {
            self.homes.insert(group.to_string(), slot);
        }
    }

    /// How a row of this event was known: now, or so many changes ago.
    pub(crate) fn known(&self, id: &str, back: usize) -> (Seq, Token) {
        let known = self.known.get(id).map_or(&[][..], Vec::as_slice);
        let place = known.len().checked_sub(back + 1);
        place.map_or((Seq(i64::MAX), Token(0)), |place| known[place])
    }

    pub(crate) fn group_of(&self, id: &str) -> Option<GroupKey> {
        self.groups.get(id).cloned()
    }

    pub(crate) fn home_of(&self, group: &str) -> Option<Slot> {
        self.homes.get(group).copied()
    }

    pub(crate) fn row(&mut self, row: &Row) -> String {
        self.learn_place(&row.id, row.slot, row.group.as_ref());
        if row.token != Token(0) {
            self.learn(&row.id, row.seq, row.token);
        }
        format!(
            "{} {} {} {} attempts {} created {} available {} expires {:?} token {} error {:?} group {:?} {}",
            self.seq(row.seq),
            row.id,
            place(row.slot),
            row.status,
            row.attempts,
            row.created_at,
            row.available_at,
            row.expires_at,
            row.token.0,
            row.last_error,
            row.group,
            event(&row.event),
        )
    }

    pub(crate) fn record(&mut self, record: &Record) -> String {
        self.learn_place(&record.id, record.slot, record.group.as_ref());
        self.learn(&record.id, record.seq, record.token);
        format!(
            "{} {} {} {} attempts {} created {} available {} expires {:?} done {:?} error {:?} by {:?} locked {:?} until {:?} \
             token {} group {:?} {}",
            self.seq(record.seq),
            record.id,
            place(record.slot),
            record.status,
            record.attempts,
            record.created_at,
            record.available_at,
            record.expires_at,
            record.done_at,
            record.last_error,
            record.processed_by,
            record.locked_by,
            record.locked_until,
            record.token.0,
            record.group,
            event(&record.event),
        )
    }
}

/// A slot of groups depends on the store's hash; a lane does not.
pub(crate) fn place(slot: Slot) -> String {
    if (0..64).contains(&slot.0) { "home".to_owned() } else { format!("lane {}", slot.0) }
}

fn event(event: &Decoded) -> String {
    let mut text = String::new();
    let written = match event {
        Ok(event) => write!(
            text,
            "{} {} {:?} {:?} {:?} {:?}",
            event.event_type(),
            event.aggregate_type(),
            event.aggregate_id(),
            event.message_id(),
            event.headers(),
            event.payload().as_json(),
        ),
        Err(malformed) => write!(text, "malformed {malformed}"),
    };
    written.expect("a string takes all");
    text
}
