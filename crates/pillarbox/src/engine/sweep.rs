//! The sweep: every few minutes a read from the first pending row, for rows that the read position has passed.
//!
//! A store moves the cursor past numbers that it believes can't appear any more. Where that belief is wrong (a server
//! that was restored, numbers given again, a done mark that a crash took back), nothing else would ever read the row.
//! A sweep takes nothing in: it only looks for rows that nobody has in hand, and sets the read position back to the
//! first of them, so that they come the same way as all others, in order and once.

use std::time::Duration;

use tokio::time::Instant;

use super::core::{Core, Phase};
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

impl Core {
    /// The next sweep starts from the first row, in its time.
    pub(super) fn sweep_later(&mut self, now: Instant) {
        self.sweep = Sweep { at: Some(now + self.settings.sweep_interval), after: Seq::default() };
    }

    /// The next page of a sweep, if it is due. It needs no room, since it takes nothing in.
    pub(super) fn next_sweep(&mut self, now: Instant) -> Option<Fetch> {
        if self.sweep.at.is_none_or(|at| at > now) {
            return None;
        }
        if !self.slots.any_active() {
            self.sweep_later(now);
            return None;
        }
        self.read_begins();
        let cursor = Cursor { decided: self.sweep.after, ..Cursor::default() };
        let scope = Scope::Slots { slots: self.slots.active_set(), cursor };
        let bytes = self.byte_limits(PAGE_BYTES.min(self.settings.buffer_bytes));
        Some(Fetch { scope, rows: PAGE_ROWS, bytes, skip_recent: self.settings.skip_recent, now: None })
    }

    /// A page of a sweep came back.
    pub(crate) fn merge_sweep(&mut self, fetched: &Fetched, incarnation: u64, now: Instant) {
        // An engine that stops has given back what it had in hand, and knows nothing of it any more.
        if incarnation != self.incarnation || self.phase != Phase::Running {
            self.read_over();
            return;
        }
        // What was moved while it was in hand is read again anyway.
        self.read_moved();
        let decided = self.cursor.decided;
        let below = fetched.rows.iter().filter(|row| row.seq <= decided);
        let mut passed = below.filter(|row| self.is_passed_by(row)).map(|row| row.seq);
        let lowest = passed.next();
        let count = lowest.into_iter().chain(passed).count();
        self.read_over();
        let last = fetched.rows.last().map(|row| row.seq).filter(|last| fetched.more && *last < decided);
        match (lowest, last) {
            (Some(lowest), _) => {
                // What else was passed lies above: the ordinary reads find it from here on.
                self.tally.passed_by = Some((count as u64, lowest));
                self.rewind(lowest);
                self.wake = true;
                self.sweep_later(now);
            }
            (None, Some(last)) => self.sweep = Sweep { at: Some(now + BETWEEN_PAGES), after: last },
            (None, None) => self.sweep_later(now),
        }
    }

    /// A page of a sweep could not be read; it is asked for again.
    pub(crate) fn sweep_failed(&mut self, now: Instant) {
        self.read_over();
        self.sweep.at = Some(now + AFTER_FAILURE.min(self.settings.sweep_interval));
    }

    /// Whether nobody has this row in hand, and nobody would read it.
    fn is_passed_by(&self, row: &Row) -> bool {
        let in_hand = self.known.has(&row.id) || self.aside.has(&row.id) || self.aside.has_passed(row.seq);
        self.slots.takes_rows(row.slot) && !in_hand && !self.waits_with_its_group(row)
    }

    /// Rows of a group that is held back stay in the store, and are read when it is let go.
    fn waits_with_its_group(&self, row: &Row) -> bool {
        let ordered = self.settings.order == Order::PerGroup && !row.slot.is_lane();
        let Some(key) = row.group.as_ref().filter(|_| ordered) else {
            return false;
        };
        let waits = |missed: Option<Seq>| missed.is_some_and(|missed| missed <= row.seq);
        self.held.contains(key)
            || self.groups.get(key).is_some_and(|group| group.hold.is_some() || waits(group.missed))
    }
}
