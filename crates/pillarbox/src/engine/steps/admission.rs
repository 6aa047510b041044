//! Admission: turns rows of all sources into events in memory.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::core::Core;
use crate::engine::state::item::{Custody, Item, Recorded};
use crate::engine::state::leases::HeldLease;
use crate::engine::state::settle_queue::Unsettled;
use crate::engine::tally::{Death, Notice};
use crate::model::{EventId, GroupKey, Row, Seq, Slot, Status, Token};
use crate::port::{Change, DeliveryPath, Fence, Outcome};

/// Clock tolerance: a grouped row due within this time keeps its place instead of being delayed.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Error of an event that expired.
pub(crate) const EXPIRED: &str = "expired before it was delivered";

/// Whether a row may have crashed the process that held it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// Suspect if its slot is, and the row is among the first rows of that slot.
    OfSlot,
    Of(bool),
}

/// A row from a source, with what the source knows of it.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) row: Row,
    /// Position among the rows of its source: the sequence number, or the order of takes.
    pub(crate) seq: Seq,
    /// Group of the row, if groups keep their order.
    pub(crate) group: Option<GroupKey>,
    pub(crate) custody: Custody,
    pub(crate) path: DeliveryPath,
    pub(crate) suspicion: Suspicion,
    pub(crate) due: Instant,
    pub(crate) expires: Option<Instant>,
    pub(crate) expired: bool,
    pub(crate) age: Option<(Duration, Instant)>,
}

impl Arrival {
    /// A row that is due and has no group, expiry or suspicion.
    pub(crate) fn of(row: Row, now: Instant) -> Self {
        Self {
            seq: row.seq,
            row,
            group: None,
            custody: Custody::Pending,
            path: DeliveryPath::Cold,
            suspicion: Suspicion::Of(false),
            due: now,
            expires: None,
            expired: false,
            age: None,
        }
    }
}

impl Core {
    /// Admits a row to memory, or settles it if it cannot be delivered now. Returns the row if its
    /// id is in flight already.
    #[must_use]
    pub(in crate::engine) fn admit(&mut self, arrival: Arrival, now: Instant) -> Option<Row> {
        let Arrival { row, seq, group, custody, path, suspicion, due, expires, expired, age } = arrival;
        if !self.in_flight.admit(&row.id, seq) {
            return Some(row);
        }
        let lease = HeldLease::of(&row, seq);
        let Row { id, slot, status, attempts, event, last_error, .. } = row;
        let outcome = |change| Outcome { seq, id: id.clone(), token: custody.token(), change };
        let event = match event {
            Ok(event) if !expired => event,
            undeliverable => {
                let event_type = undeliverable.as_ref().ok().map(|event| event.event_type().to_owned());
                let error = undeliverable
                    .map_or_else(|why| self.undecodable(&id, &why.error()), |_| EXPIRED.to_owned());
                let (event, why) = (id.clone(), error.clone());
                let death = Death { event, event_type, group, attempts, error: why };
                self.tally.notices.push(Notice::Dead(death));
                let change = Change::Dead { error, counts: custody.untried(attempts), blocks: None };
                self.settle_unadmitted(outcome(change), slot, None, now);
                return None;
            }
        };
        let put_off = status == Status::New && due > now + CLOCK_TOLERANCE;
        if due > now && (put_off || group.is_none()) {
            self.reads.hint_due(due);
            self.settle_unadmitted(outcome(Change::Delay), slot, None, now);
            return None;
        }
        let suspect = match suspicion {
            Suspicion::OfSlot => self.slots.suspects(slot, group.as_ref(), seq),
            Suspicion::Of(suspect) => suspect,
        };
        let (attempts, recorded) = self.recorded(&custody, attempts, suspect);
        let item = Item {
            custody,
            attempts,
            recorded,
            quarantined: suspect && group.is_none(),
            group,
            expires,
            age,
            last_error: last_error.map(Into::into),
            ..Item::new(event, seq, slot, path)
        };
        if self.is_leased(&item.custody) {
            self.leases.begin(id, lease);
        }
        self.take_in(item, suspect, due, now);
        None
    }

    fn undecodable(&mut self, id: &EventId, error: &str) -> String {
        let notice = Notice::Undecodable { event: id.clone(), error: error.to_owned() };
        self.tally.notices.push(notice);
        error.to_owned()
    }

    /// Returns the attempts of a row, and whether they include the attempt to come.
    ///
    /// If the count is above the maximum, the last attempt was recorded but not made, so it is still due.
    fn recorded(&self, custody: &Custody, attempts: u32, suspect: bool) -> (u32, Recorded) {
        let max = self.settings.max_attempts;
        match custody {
            Custody::Pending if attempts >= max => (attempts, Recorded::Before),
            Custody::Pending => (attempts, Recorded::No),
            Custody::HandedIn(token) if *token == Token::default() => (attempts, Recorded::No),
            Custody::Taken(_) if attempts > max && !suspect => (max, Recorded::Before),
            Custody::HandedIn(_) | Custody::Taken(_) | Custody::Claimed(_) => (attempts, Recorded::ByTake),
        }
    }

    /// Queues an event, unless its group takes no rows now; its row is then read later.
    fn take_in(&mut self, mut item: Item, suspect: bool, due: Instant, now: Instant) {
        if matches!(item.custody, Custody::Pending) && self.defer(&item, suspect, due, now) {
            return self.in_flight.forget(item.id());
        }
        if let Some(memo) = self.aside.take(item.id()) {
            memo.apply(&mut item);
        }
        match item.path {
            DeliveryPath::Hot => self.tally.hot += 1,
            DeliveryPath::Cold => self.tally.cold += 1,
        }
        self.enter(&item);
        match item.group.clone() {
            Some(key) => {
                let group = self.groups.entry(&key, item.slot);
                group.quarantined |= suspect;
                group.insert(item);
                self.groups.place(&key, now);
            }
            None => self.buffer.push(item),
        }
    }

    /// Leaves a row in the store if its group is held, full or waiting, or the row is not
    /// due. Returns whether it did.
    fn defer(&mut self, item: &Item, suspect: bool, due: Instant, now: Instant) -> bool {
        let Some(key) = &item.group else {
            return false;
        };
        if self.held.contains(key) {
            if suspect {
                self.held.distrust(key.clone(), item.slot);
            }
            return true;
        }
        let room = self.settings.group_rows();
        let group = self.groups.entry(key, item.slot);
        group.quarantined |= suspect;
        if group.takes_rows(room) && due <= now {
            return false;
        }
        group.miss(item.seq);
        if due > now {
            group.until = Some(group.until.map_or(due, |until| until.max(due)));
        }
        self.groups.place(key, now);
        true
    }

    /// Settles a row that was not admitted to memory.
    pub(in crate::engine) fn settle_unadmitted(
        &mut self,
        outcome: Outcome,
        slot: Slot,
        group: Option<GroupKey>,
        now: Instant,
    ) {
        self.slots.entered(slot);
        self.push_unsettled(Unsettled { outcome, slot, group }, now);
    }

    /// Admits a row that a caller passes in. Returns false if there is no room, the row is malformed, or the
    /// engine is shutting down.
    pub(crate) fn hand_in(&mut self, row: Row, path: DeliveryPath, now: Instant) -> bool {
        if self.leases.renew(&row) {
            return true;
        }
        if !self.is_running() || row.event.is_err() {
            return false;
        }
        if self.room_on(path) == 0 {
            self.tally.hot_dropped += u64::from(path == DeliveryPath::Hot);
            return false;
        }
        let custody = Custody::HandedIn(row.token);
        // The caller's last claim expired, so the row may have crashed its process.
        let suspicion = Suspicion::Of(row.lapsed);
        if self.is_leased(&custody) {
            self.in_flight.claimed(&row.id);
        }
        // An event that is in memory already counts as accepted.
        drop(self.admit(Arrival { custody, path, suspicion, ..Arrival::of(row, now) }, now));
        true
    }

    /// Whether this engine holds a lease on such a row, which it must end if the event leaves memory.
    pub(in crate::engine) fn is_leased(&self, custody: &Custody) -> bool {
        match custody {
            Custody::Pending => false,
            Custody::Taken(_) | Custody::Claimed(_) => true,
            // Without an owner nothing tells this claim from a later one of another process.
            Custody::HandedIn(token) => {
                *token != Token::default() && matches!(self.node.fence, Fence::Owner(_))
            }
        }
    }

    /// Called before a caller reads rows to pass in. Ids that are settled meanwhile stay in flight until
    /// `poll_over`, because that read may still return them as pending.
    pub(crate) fn poll_begins(&mut self) {
        self.in_flight.read_began();
    }

    pub(crate) fn poll_over(&mut self) {
        self.in_flight.read_merged();
    }
}
