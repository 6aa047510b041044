//! The sweep: searches every few minutes for pending rows that the cursor has passed.
//!
//! A store moves the cursor past numbers that can no longer be committed. If that turns out to be wrong (a
//! restored server, reused numbers, a done mark lost in a crash), no other read would ever return the row. A
//! sweep admits nothing. It only finds rows that are not in memory and rewinds the cursor to the first of
//! them, so that the ordinary read admits them in order and once.

use std::time::Duration;

use tokio::time::Instant;

use super::slots::SlotSource;
use crate::engine::core::{Core, Phase};
use crate::engine::tally::Notice;
use crate::model::{Row, Seq};
use crate::port::{Cursor, Fetch, Fetched, Order, Scope};

/// Pause between two pages of a sweep, so that even a million rows of held groups cost
/// only one page per second.
const BETWEEN_PAGES: Duration = Duration::from_secs(1);
/// Pause after a failed page; ordinary reads continue meanwhile.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
const PAGE_ROWS: usize = 1_000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The time of the next page of a sweep, and its start.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    at: Option<Instant>,
    after: Seq,
}

impl Sweep {
    /// Time of the next page.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }
}

impl SlotSource {
    /// Schedules the next sweep from the first row, after the sweep interval.
    pub(super) fn sweep_later(&mut self, core: &Core, now: Instant) {
        self.sweep = Sweep { at: Some(now + core.settings.sweep_interval), after: Seq::default() };
    }

    /// Returns the next page of a sweep, if it is due. It needs no room in memory, because it admits nothing.
    pub(super) fn next_sweep(&mut self, core: &mut Core, now: Instant) -> Option<Fetch> {
        if self.sweep.at.is_none_or(|at| at > now) {
            return None;
        }
        if !core.slots.any_active() {
            self.sweep_later(core, now);
            return None;
        }
        core.read_begins();
        let cursor = Cursor { decided: self.sweep.after, ..Cursor::default() };
        let scope = Scope::Slots { slots: core.slots.active_set(), cursor };
        let bytes = core.byte_limits(PAGE_BYTES.min(core.settings.buffer_bytes));
        Some(Fetch { scope, rows: PAGE_ROWS, bytes, skip_recent: core.settings.skip_recent, now: None })
    }

    /// Checks a page of a sweep for rows that the cursor has passed.
    pub(super) fn merge_sweep(&mut self, core: &mut Core, fetched: &Fetched, now: Instant) {
        // A stopping engine has dropped its events from memory, so their pending rows would look passed.
        if core.phase != Phase::Running {
            core.read_over();
            return;
        }
        // Rows that were promoted while in memory are reread anyway; rewinding first keeps
        // them out of the count.
        core.reread_moved();
        self.set_back(core);
        let decided = self.cursor.decided;
        let below = fetched.rows.iter().filter(|row| row.seq <= decided);
        let mut passed = below.filter(|row| is_passed_by(core, row)).map(|row| row.seq);
        let lowest = passed.next();
        let count = lowest.into_iter().chain(passed).count();
        core.read_over();
        let last = fetched.rows.last().map(|row| row.seq).filter(|last| fetched.more && *last < decided);
        match (lowest, last) {
            (Some(lowest), _) => {
                // All other passed rows have higher numbers, so the ordinary reads find them from here on.
                core.tally.notices.push(Notice::Passed { events: count as u64, first: lowest });
                core.reads.reread_from(lowest);
                core.reads.wake = true;
                self.sweep_later(core, now);
            }
            (None, Some(last)) => self.sweep = Sweep { at: Some(now + BETWEEN_PAGES), after: last },
            (None, None) => self.sweep_later(core, now),
        }
    }

    /// Schedules a failed page again.
    pub(super) fn sweep_failed(&mut self, core: &mut Core, now: Instant) {
        core.read_over();
        self.sweep.at = Some(now + AFTER_FAILURE.min(core.settings.sweep_interval));
    }
}

/// Whether this row is not in memory and no other read is going to return it.
fn is_passed_by(core: &Core, row: &Row) -> bool {
    let known = core.in_flight.has(&row.id) || core.aside.has(&row.id) || core.aside.has_passed(row.seq);
    core.slots.takes_rows(row.slot) && !known && !waits_with_its_group(core, row)
}

/// Whether the row's group is held or will be read from a number at or below this row.
fn waits_with_its_group(core: &Core, row: &Row) -> bool {
    let ordered = core.settings.order == Order::PerGroup && !row.slot.is_lane();
    let Some(key) = row.group.as_ref().filter(|_| ordered) else {
        return false;
    };
    let waits = |missed: Option<Seq>| missed.is_some_and(|missed| missed <= row.seq);
    core.held.contains(key)
        || core.groups.get(key).is_some_and(|group| group.hold.is_some() || waits(group.missed))
}
