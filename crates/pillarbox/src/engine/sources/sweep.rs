//! The sweep: every few minutes a read from the first pending row, for rows that the cursor has passed.
//!
//! A store moves the cursor past numbers that it believes can't appear any more. Where that belief is wrong (a server
//! that was restored, numbers given again, a done mark that a crash took back), nothing else would ever read the row.
//! A sweep takes nothing in: it only looks for rows that are not in memory, and sets the cursor back to the first of them, so
//! that they come the same way as all others, in order and once.

use std::time::Duration;

use tokio::time::Instant;

use super::slots::SlotSource;
use crate::engine::core::{Core, Phase};
use crate::model::{Row, Seq};
use crate::port::{Cursor, Fetch, Fetched, Order, Scope};

/// Between two pages of one sweep: a million rows of held groups then cost a page a second.
const BETWEEN_PAGES: Duration = Duration::from_secs(1);
/// After a page that failed: the ordinary reads go on meanwhile.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
const PAGE_ROWS: usize = 1_000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// When the next page of a sweep is due, and where it starts.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    at: Option<Instant>,
    after: Seq,
}

impl Sweep {
    /// When the next page is due.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }
}

impl SlotSource {
    /// The next sweep starts from the first row, after the sweep interval.
    pub(super) fn sweep_later(&mut self, core: &Core, now: Instant) {
        self.sweep = Sweep { at: Some(now + core.settings.sweep_interval), after: Seq::default() };
    }

    /// The next page of a sweep, if it is due. It needs no room, since it takes nothing in.
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

    /// A page of a sweep came back.
    pub(super) fn merge_sweep(&mut self, core: &mut Core, fetched: &Fetched, now: Instant) {
        // An engine that stops has given back what it had in memory, and knows nothing of it any more.
        if core.phase != Phase::Running {
            core.read_over();
            return;
        }
        // What was moved while it was in memory is read again anyway.
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
                // What else was passed lies above: the ordinary reads find it from here on.
                core.tally.passed_by = Some((count as u64, lowest));
                core.reads.reread_from(lowest);
                core.reads.wake = true;
                self.sweep_later(core, now);
            }
            (None, Some(last)) => self.sweep = Sweep { at: Some(now + BETWEEN_PAGES), after: last },
            (None, None) => self.sweep_later(core, now),
        }
    }

    /// A page of a sweep could not be read; it is asked for again.
    pub(super) fn sweep_failed(&mut self, core: &mut Core, now: Instant) {
        core.read_over();
        self.sweep.at = Some(now + AFTER_FAILURE.min(core.settings.sweep_interval));
    }
}

/// Whether this row is not in memory, and nobody would read it.
fn is_passed_by(core: &Core, row: &Row) -> bool {
    let known = core.in_flight.has(&row.id) || core.aside.has(&row.id) || core.aside.has_passed(row.seq);
    core.slots.takes_rows(row.slot) && !known && !waits_with_its_group(core, row)
}

/// Rows of a group that is held back stay in the store, and are read when it is released.
fn waits_with_its_group(core: &Core, row: &Row) -> bool {
    let ordered = core.settings.order == Order::PerGroup && !row.slot.is_lane();
    let Some(key) = row.group.as_ref().filter(|_| ordered) else {
        return false;
    };
    let waits = |missed: Option<Seq>| missed.is_some_and(|missed| missed <= row.seq);
    core.held.contains(key)
        || core.groups.get(key).is_some_and(|group| group.hold.is_some() || waits(group.missed))
}
