//! The slot source: reads pending rows of this node's slots behind a cursor.
//!
//! Rows stay pending while they are in memory. When an event leaves memory, the source rewinds the cursor and
//! reads the row again; rows that are still in memory are recognised by their ids in flight.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::sweep::Sweep;
use super::{Asked, Failed, Read, ReadResult, RowSource};
use crate::engine::core::{Core, earliest};
use crate::engine::state::item::Custody;
use crate::engine::state::schedule::{Reader, Reread};
use crate::engine::steps::admission::{Arrival, Suspicion};
use crate::model::{GroupKey, Row, Seq, Status};
use crate::port::{Cursor, Fetch, Fetched, Order, Outcome, Promoted, Scope};

/// Maximum widening factor of a read.
const WIDEST: usize = 64;

/// Reads slots and groups behind a cursor.
#[derive(Debug)]
pub(crate) struct SlotSource {
    pub(super) cursor: Cursor,
    /// Widening factor of the next read, greater than 1 if the last read was cut short and
    /// found only rows in memory.
    widening: usize,
    pub(super) sweep: Sweep,
}

impl Default for SlotSource {
    fn default() -> Self {
        Self { cursor: Cursor::default(), widening: 1, sweep: Sweep::default() }
    }
}

impl RowSource for SlotSource {
    fn next(&mut self, core: &mut Core, now: Instant) -> Read {
        self.set_back(core);
        if let Some(fetch) = self.next_sweep(core, now) {
            return Read::Sweep(fetch);
        }
        if let Some(until) = core.hold_reads(now) {
            return core.idle(earliest([until, self.sweep.at()]));
        }
        let (rows, bytes) = core.cold_room();
        if rows < core.read_at_room() {
            return core.idle(self.sweep.at());
        }
        core.groups.wake(now);
        core.reads.follow_up(now);
        // A probe should not be an event under which the endpoint failed before, because that event may be
        // the cause. Those are read only when nothing else is left.
        let others_first = core.breaker.is_open() && wants_slots(core);
        if !others_first && let Some(read) = self.next_held_back(core, now, rows, bytes) {
            return read;
        }
        if wants_slots(core) {
            core.reads.wake = false;
            core.read_begins();
            let (rows, bytes) = self.limits(core, rows.min(core.reads.page), bytes, self.cursor.decided);
            let scope = Scope::Slots { slots: core.slots.active_set(), cursor: self.cursor.clone() };
            let bytes = core.byte_limits(bytes);
            let fetch = Fetch { scope, rows, bytes, skip_recent: core.settings.skip_recent, now: None };
            return Read::Slots { fetch, version: core.reads.version() };
        }
        let (waking, due) = (core.groups.next_waking(), core.reads.dues.next());
        core.idle(earliest([waking, due, core.reads.wake_at, self.sweep.at(), core.aside.next()]))
    }

    fn merge(&mut self, core: &mut Core, answer: ReadResult, asked: Asked) -> Vec<Outcome> {
        self.set_back(core);
        match answer {
            ReadResult::Slots { fetched, version } => self.merge_slots(core, fetched, version, asked),
            ReadResult::Group { key, fetched } => self.merge_group(core, &key, fetched, asked),
            ReadResult::Sweep(fetched) => self.merge_sweep(core, &fetched, asked.now),
            ReadResult::Promoted(promoted) => after_promotion(core, &promoted, asked.now),
            ReadResult::Taken { .. }
            | ReadResult::Recovered(_)
            | ReadResult::Claimed { .. }
            | ReadResult::GaveBack => {}
        }
        Vec::new()
    }

    fn failed(&mut self, core: &mut Core, failed: Failed, now: Instant) {
        match failed {
            Failed::Sweep => self.sweep_failed(core, now),
            Failed::Promote => {
                // The rows are still due, so the promotion is tried again.
                core.reads.hint_due(now + core.settings.poll_interval);
                core.reads.wake = true;
            }
            Failed::Slots | Failed::Group(_) | Failed::Take | Failed::Recover => {
                core.read_over();
                core.reads.wake = true;
                if let Failed::Group(key) = failed {
                    core.groups.place(&key, now);
                }
            }
        }
    }

    fn wakes(&mut self, core: &mut Core) -> bool {
        let moved = core.reads.take_moved();
        core.reads.reader == Reader::Idle && (moved || wants_read(core))
    }

    fn gained(&mut self, core: &mut Core) {
        core.reads.reread_all();
    }

    fn begin(&mut self, core: &mut Core, now: Instant) {
        self.cursor = Cursor::default();
        self.sweep_later(core, now);
    }

    fn position(&mut self, core: &mut Core) -> Seq {
        self.set_back(core);
        self.cursor.decided
    }

    fn rereads(&self) -> bool {
        true
    }
}

fn wants_read(core: &Core) -> bool {
    core.may_take_in()
        && (wants_slots(core) || core.groups.wants_read())
        && core.cold_room().0 >= core.read_at_room()
}

fn wants_slots(core: &Core) -> bool {
    core.wants_rows() && core.slots.any_active()
}

fn after_promotion(core: &mut Core, promoted: &Promoted, now: Instant) {
    let stuck = promoted.moved == 0 && promoted.next_due == Some(Duration::ZERO);
    if stuck {
        // Other transactions have locked the due rows. An immediate retry would starve all other reads.
        core.reads.hint_due(now + core.settings.poll_interval);
    }
    let next = promoted.next_due.filter(|_| !stuck);
    for ahead in [next, promoted.later].into_iter().flatten() {
        core.reads.hint_due(now + ahead);
    }
    core.reads.wake = true;
}

impl SlotSource {
    /// Rewinds the cursor to the lowest row that left memory.
    ///
    /// Runs before the cursor is used. A read that began before the rewind has an older version
    /// and cannot move the cursor.
    pub(super) fn set_back(&mut self, core: &mut Core) {
        match core.reads.take_reread() {
            Some(Reread::All) => self.cursor = Cursor::default(),
            Some(Reread::From(seq)) => self.cursor.decided = self.cursor.decided.min(Seq(seq.0 - 1)),
            None => {}
        }
    }

    /// Returns a promotion or a group read, if one is due.
    fn next_held_back(&mut self, core: &mut Core, now: Instant, rows: usize, bytes: usize) -> Option<Read> {
        core.wake_aside(now);
        self.set_back(core);
        if let Some(lane) = core.node.lane
            && core.reads.dues.begin(now)
        {
            return Some(Read::Promote { lane, rows: rows.min(core.reads.page) });
        }
        let key = core.groups.next_to_read()?;
        Some(self.read_group(core, key, rows, bytes, now))
    }

    fn read_group(&self, core: &mut Core, key: GroupKey, rows: usize, bytes: usize, now: Instant) -> Read {
        let (slot, missed) = match core.groups.get(&key) {
            Some(group) => (group.slot, group.missed.unwrap_or_default()),
            None => return Read::Idle(Some(now)),
        };
        core.read_begins();
        // Since the group was left, a transaction may have committed a number below `missed`, but none at or
        // below `decided`. Starting at the lower of the two misses no row.
        let from = missed.min(Seq(self.cursor.decided.0 + 1));
        let (rows, bytes) = self.limits(core, rows.min(core.settings.group_rows()), bytes, Seq(from.0 - 1));
        let scope = Scope::Group { slot, group: key.clone(), from };
        let bytes = core.byte_limits(bytes);
        Read::Group { key, fetch: Fetch { scope, rows, bytes, skip_recent: Duration::ZERO, now: None } }
    }

    /// Rows and bytes that a read must request to find new rows.
    ///
    /// While an older transaction is open the cursor cannot pass its horizon, so each read returns the rows
    /// above it again, in memory or set aside; the limits are raised by their number.
    fn limits(&self, core: &Core, rows: usize, bytes: usize, after: Seq) -> (usize, usize) {
        let rows = rows.saturating_mul(self.widening) + core.in_flight.above(after) + core.aside.above(after);
        let bytes_max = bytes.max(core.settings.buffer_bytes);
        (rows, bytes.saturating_mul(self.widening).min(bytes_max))
    }

    /// Widens the next read if this one was cut short and found nothing new.
    ///
    /// Returns false at the maximum width: rows beyond it wait until the open transaction ends.
    fn widen(&mut self, cut: bool, fruitful: bool) -> bool {
        let again = cut && !fruitful;
        self.widening = if again { (self.widening * 4).min(WIDEST) } else { 1 };
        self.widening < WIDEST
    }

    fn merge_slots(&mut self, core: &mut Core, fetched: Fetched, version: u64, asked: Asked) {
        let mut cursor = fetched.cursor;
        if version == core.reads.version() && cursor.decided < self.cursor.decided {
            // Without a rewind here, a lower cursor means that the store started over: sequence numbers may
            // be reused, so they no longer tell which rows are newer than the eviction.
            core.slots.suspect_any_number();
        }
        let mut cut = fetched.more;
        let mut last = None;
        let before = core.progress();
        for row in fetched.rows {
            let discards = core.reads.discards(version);
            if core.cold_room().0 == 0 || discards || core.hold_reads(asked.now).is_some() {
                // The cursor stops at the last admitted row, but never beyond the store's `decided`: a
                // transaction may still commit a number below that row.
                cursor.decided = last.unwrap_or(self.cursor.decided).min(cursor.decided);
                cut = true;
                break;
            }
            last = Some(row.seq);
            take_row(core, row, fetched.now, asked, Suspicion::OfSlot);
        }
        core.read_over();
        let after = core.progress();
        core.reads.found(after.cold > before.cold, asked.now);
        // The cursor was rewound during this read. Applying this answer's cursor would skip
        // the rows that left memory.
        if version != core.reads.version() {
            core.reads.wake = true;
            return;
        }
        let fruitful = after != before || cursor.decided > self.cursor.decided;
        self.cursor = cursor;
        core.aside.read_upto(self.cursor.decided);
        core.slots.read_upto(self.cursor.decided);
        core.reads.more = cut && self.widen(cut, fruitful);
        if cut && !core.reads.more {
            core.reads.wake_at = Some(asked.now + core.settings.poll_interval);
        }
        core.turn_page(cut);
        // A complete read has shown every pending row once, so no later row can be suspect.
        if !cut {
            core.slots.trust();
        }
        core.poll_soon(fruitful, asked.now);
    }

    /// Whether the numbers of a group's rows are of another origin than the cursor's. A cursor at the start has passed
    /// no numbers, so no origin makes it wrong.
    fn is_stale(&self, fetched: &Fetched) -> bool {
        let passed = self.cursor.decided > Seq::default();
        passed && !fetched.rows.is_empty() && fetched.cursor.origin != self.cursor.origin
    }

    fn merge_group(&mut self, core: &mut Core, key: &GroupKey, fetched: Fetched, asked: Asked) {
        let Some(group) = core.groups.get_mut(key) else {
            // The group left memory during the read, with its slot or because it is held.
            // These rows may be outdated.
            core.read_over();
            return;
        };
        if self.is_stale(&fetched) {
            // `missed` is a number of the old origin: rows of the group may have been written below it since.
            core.slots.suspect_any_number();
            core.reads.reread_all();
            core.read_over();
            core.groups.place(key, asked.now);
            return;
        }
        group.missed = None;
        group.quarantined &= !fetched.rows.is_empty();
        let last = fetched.rows.last().map(|row| row.seq);
        let mut rest = last.filter(|_| fetched.more).map(|last| Seq(last.0 + 1));
        let before = core.progress();
        for row in fetched.rows {
            if core.cold_room().0 == 0 || core.hold_reads(asked.now).is_some() {
                rest = Some(row.seq);
                break;
            }
            take_row(core, row, fetched.now, asked, Suspicion::Of(false));
        }
        core.read_over();
        let soon = self.widen(rest.is_some(), core.progress() != before);
        if let (Some(group), Some(rest)) = (core.groups.get_mut(key), rest) {
            group.miss(rest);
            if !soon {
                group.until = Some(asked.now + core.settings.poll_interval);
            }
        }
        core.groups.place(key, asked.now);
    }
}

/// Admits a row of a slot or group.
///
/// The database's time of the answer lies between request and answer on the local clock. Due times are
/// converted with the later of the two and expiry times with the earlier, so that an event is never sent too
/// early or after its expiry.
fn take_row(core: &mut Core, row: Row, db_now: Timestamp, asked: Asked, suspicion: Suspicion) {
    if core.aside.waits(&row.id) || !core.slots.takes_rows(row.slot) {
        return;
    }
    let from_birth = row.status == Status::New && row.available_at <= row.created_at;
    let due = if from_birth { asked.now } else { Core::local(row.available_at, db_now, asked.now) };
    let ordered = core.settings.order == Order::PerGroup && !row.slot.is_lane();
    let arrival = Arrival {
        group: row.group.clone().filter(|_| ordered),
        custody: Custody::Pending,
        suspicion,
        due,
        expires: row.expires_at.map(|at| Core::local(at, db_now, asked.at)),
        expired: row.expires_at.is_some_and(|at| at <= db_now),
        ..Arrival::of(row, asked.now)
    };
    if let Some(row) = core.admit(arrival, asked.now) {
        core.aside.put_off(&row.id, asked.now);
    }
}
