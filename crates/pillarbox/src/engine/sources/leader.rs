//! The leader source: takes items, which have no sequence numbers, some of each group in turn.
//!
//! A taken row is marked in the store, so an event that leaves memory must be released. Taken rows
//! that no process has in memory, because a leader crashed or an answer was lost, are recovered
//! before anything else is taken.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{Asked, Failed, Read, ReadResult, RowSource};
use crate::engine::core::{Core, Phase, earliest};
use crate::engine::state::groups::Group;
use crate::engine::state::item::Custody;
use crate::engine::state::schedule::Reader;
use crate::engine::state::settings::Ungrouped;
use crate::engine::steps::admission::{Arrival, Suspicion};
use crate::model::{EventId, GroupKey, NodeId, Row, Seq, Slot};
use crate::port::{Change, Order, Outcome, Recover, Take, Taken};

/// Maximum number of rows released in one call.
const RECOVER_ROWS: usize = 10_000;

/// Interval of the search for taken rows that were not settled in time.
const RECOVER_EVERY: Duration = Duration::from_secs(60);

/// Pause after the store answers that another node leads; a heartbeat may clarify it earlier.
const UNSURE_FOR: Duration = Duration::from_secs(1);

/// The slot whose holder is the leader.
const LEADERSHIP: Slot = Slot(0);

/// Takes rows while this node leads.
#[derive(Debug, Default)]
pub(crate) struct LeaderSource {
    /// Time of the next recovery. `None` means that rows of an earlier leader or of a lost
    /// answer must be released first.
    recover_at: Option<Instant>,
    /// Group after which the next take begins; `None` begins with the first group.
    after: Option<GroupKey>,
    /// Local sequence number of the last taken row. Items have none, so rows are numbered
    /// in the order of takes.
    taken: i64,
    /// Version of the held-groups list when the take in progress began.
    list: u64,
}

impl RowSource for LeaderSource {
    fn next(&mut self, core: &mut Core, now: Instant) -> Read {
        core.groups.wake(now);
        core.reads.follow_up(now);
        while let Some(key) = core.groups.next_to_read() {
            if let Some(group) = core.groups.get_mut(&key) {
                group.missed = None;
            }
            core.groups.place(&key, now);
            core.reads.wake = true;
        }
        let (Some(node), true) = (core.node.id(), leads(core)) else {
            return core.idle(None);
        };
        if self.recover_at.is_none_or(|at| at <= now) {
            let older_than = self.recover_at.map_or(Duration::ZERO, |_| core.settings.processing_timeout);
            let except: Vec<EventId> = core.leases.ids().cloned().collect();
            return Read::Recover(Recover { node, older_than, except, rows: RECOVER_ROWS, now: None });
        }
        let held = hold_takes(core, now);
        if held.is_some() || core.cold_room().0 < core.read_at_room() || !wants_rows(core) {
            let waking = core.groups.next_waking();
            return core.idle(earliest([self.recover_at, waking, core.reads.wake_at, held.flatten()]));
        }
        self.take(core, node)
    }

    fn merge(&mut self, core: &mut Core, answer: ReadResult, Asked { now, .. }: Asked) -> Vec<Outcome> {
        match answer {
            ReadResult::Taken { take, taken } => self.merge_taken(core, &take, taken, now),
            ReadResult::Recovered(released) => self.recovered(core, released, now),
            _ => {}
        }
        Vec::new()
    }

    /// A failed take may have marked rows that are not in memory. They are recovered before anything else is
    /// taken, since taking later rows of their groups would break the order.
    fn failed(&mut self, core: &mut Core, failed: Failed, _: Instant) {
        if matches!(failed, Failed::Take) {
            core.read_over();
            core.reads.wake = true;
            core.slots.left(LEADERSHIP);
            core.groups.take_overtaken();
            self.recover_at = None;
        }
    }

    fn wakes(&mut self, core: &mut Core) -> bool {
        let moved = core.reads.take_moved();
        core.reads.reader == Reader::Idle && (moved || wants_read(core))
    }

    /// Starts a new term when this node becomes the leader.
    fn gained(&mut self, core: &mut Core) {
        *self = Self { taken: self.taken, ..Self::default() };
        core.reads.wake = true;
    }
}

/// Whether this node is the leader and is not handing leadership over.
fn leads(core: &Core) -> bool {
    core.slots.is_active(LEADERSHIP)
}

fn wants_rows(core: &Core) -> bool {
    core.wants_rows() && leads(core)
}

fn wants_read(core: &Core) -> bool {
    core.may_take_in()
        && (wants_rows(core) || core.groups.wants_read())
        && core.cold_room().0 >= core.read_at_room()
}

/// While the circuit breaker is open, the leader takes only a probe, and only if no event is in memory.
fn hold_takes(core: &mut Core, now: Instant) -> Option<Option<Instant>> {
    let probe = core.breaker.is_open() && core.buffer.cold_rows() > 0;
    core.hold_reads(now).or_else(|| {
        core.reads.held = probe;
        probe.then_some(None)
    })
}

/// Maximum number of rows of one group in a take: a batch, or more if the buffer is large.
fn per_group(core: &Core) -> usize {
    core.settings.batch.max(core.settings.cold_rows / (2 * core.settings.workers).max(1))
}

fn takes_of(core: &Core, key: &GroupKey) -> bool {
    let has_room = |group: &Group| group.takes_rows(core.settings.batch);
    !core.held.contains(key) && core.groups.get(key).is_none_or(has_room)
}

/// Groups to exclude, because they wait or have enough rows in memory. The store itself excludes held groups.
fn excluded_groups(core: &Core) -> Vec<GroupKey> {
    let full = core.groups.iter().filter(|(_, group)| !group.takes_rows(core.settings.batch));
    let mut excluded: Vec<GroupKey> = full.map(|(key, _)| key.clone()).collect();
    excluded.sort_unstable();
    excluded
}

/// The group shared by rows without a group, unless they are delivered in parallel.
fn shared_group(core: &Core) -> Option<GroupKey> {
    (core.settings.ungrouped == Ungrouped::Default).then(|| GroupKey::new(Ungrouped::GROUP))
}

impl LeaderSource {
    fn take(&mut self, core: &mut Core, node: NodeId) -> Read {
        core.reads.wake = false;
        core.reads.more = false;
        core.slots.read_began();
        // Counting the take as a row in memory prevents a hand-over of leadership
        // before its answer is merged.
        core.slots.entered(LEADERSHIP);
        core.groups.watch_overtaken();
        self.list = core.held.version();
        let (rows, bytes) = core.cold_room();
        let rows = if core.breaker.is_open() { rows.min(1) } else { rows };
        let (rows, bytes) = (rows.min(core.reads.page).min(Take::MOST), core.byte_limits(bytes));
        let each = per_group(core);
        let (ungrouped, ungrouped_order) = match core.settings.ungrouped {
            // At most half of the rows, so that ungrouped rows leave room for grouped ones.
            Ungrouped::Parallel => (rows.div_ceil(2), Order::None),
            Ungrouped::Default if takes_of(core, &GroupKey::new(Ungrouped::GROUP)) => (each, Order::PerGroup),
            Ungrouped::Default => (0, Order::PerGroup),
        };
        let (after, except) = (self.after.clone(), excluded_groups(core));
        Read::Take(Take { node, after, except, rows, bytes, each, ungrouped, ungrouped_order, now: None })
    }

    fn recovered(&mut self, core: &mut Core, released: u64, now: Instant) {
        if self.recover_at.is_none() && released == 0 {
            // The last leader had taken no rows, so none of them can have crashed it.
            core.slots.trust();
        }
        if released < RECOVER_ROWS as u64 {
            self.recover_at = Some(now + RECOVER_EVERY.min(core.settings.processing_timeout));
        }
        core.reads.wake |= released > 0;
    }

    /// Merges the answer to a take: rows, or the information that another node leads.
    fn merge_taken(&mut self, core: &mut Core, take: &Take, taken: Taken, now: Instant) {
        let overtaken = core.groups.take_overtaken();
        core.slots.left(LEADERSHIP);
        if !taken.leads {
            core.reads.wake_at = Some(now + UNSURE_FOR);
            return core.read_over();
        }
        let count = taken.rows.len();
        let last = taken.rows.last().and_then(|row| row.group.clone());
        let bytes: usize = taken.rows.iter().map(|row| row.bytes).sum();
        let cut = count >= take.rows || take.bytes.reached_by(bytes);
        let groups = taken.rows.chunk_by(|one, next| one.group == next.group);
        let longer: Vec<_> =
            groups.filter(|rows| rows.len() >= take.each).map(|rows| rows[0].group.clone()).collect();
        for row in taken.rows {
            self.take_row(core, row, &overtaken, now);
        }
        for key in longer {
            self.leave_the_rest(core, key, now);
        }
        core.read_over();
        self.next_turn(core, take, cut, last);
        core.poll_soon(count > 0, now);
    }

    /// Decides where the next take begins, and whether it follows immediately.
    fn next_turn(&mut self, core: &mut Core, take: &Take, cut: bool, last: Option<GroupKey>) {
        let from_first = take.after.is_none();
        self.after = if cut { last } else { None };
        core.reads.more |= cut || !from_first;
        core.turn_page(cut);
        if !cut && from_first {
            core.slots.trust();
        }
    }

    /// Marks a group with the maximum number of rows per take as having more rows in the store.
    fn leave_the_rest(&self, core: &mut Core, key: Option<GroupKey>, now: Instant) {
        let Some(key) = key.or_else(|| shared_group(core)) else {
            return;
        };
        if let Some(group) = core.groups.get_mut(&key) {
            group.miss(Seq(self.taken + 1));
        }
        core.groups.place(&key, now);
    }

    fn take_row(&mut self, core: &mut Core, row: Row, overtaken: &BTreeSet<GroupKey>, now: Instant) {
        let group = row.group.clone().or_else(|| shared_group(core));
        // The store takes no rows of held groups. If the list is the one from before the take, the
        // group was released since and its rows are good; a newer list means that the group may have
        // been held after the take.
        let relisted = self.list != core.held.version();
        // Rows of an overtaken group come after a row that went back to the store during the take. Admitting
        // them would deliver them before that row.
        let in_order = group.as_ref().is_none_or(|key| {
            let held = relisted && core.held.contains(key);
            let takes = core.groups.get(key).is_none_or(|group| group.takes_rows(usize::MAX));
            !held && !overtaken.contains(key) && takes
        });
        if core.phase != Phase::Running || !core.slots.takes_rows(row.slot) || !in_order {
            return release(core, &row, group, now);
        }
        self.taken += 1;
        let arrival = Arrival {
            seq: Seq(self.taken),
            group: group.clone(),
            custody: Custody::Taken(row.token),
            suspicion: Suspicion::OfSlot,
            ..Arrival::of(row, now)
        };
        if let Some(row) = core.admit(arrival, now) {
            // The event is still in flight: its last outcome is unconfirmed, or another process released the
            // row. It is released for a later take, and its group waits for that.
            release(core, &row, group, now);
        }
    }
}

/// Releases a taken row. No row of its group is taken before the release is confirmed.
fn release(core: &mut Core, row: &Row, group: Option<GroupKey>, now: Instant) {
    let change = Change::Release { attempts: row.attempts.saturating_sub(1) };
    let outcome = Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change };
    if let Some(key) = &group {
        let group = core.groups.entry(key, row.slot);
        group.settling += 1;
        group.miss(Seq::default());
    }
    core.settle_unadmitted(outcome, row.slot, group, now);
}
