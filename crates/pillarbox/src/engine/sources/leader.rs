//! Taking as a leader: where rows have no numbers, one node takes them from the store, some of each group in turn.
//!
//! A row that was taken is marked in the store. So what leaves memory is released, and what nobody has in memory any more,
//! because a leader died or an answer was lost, is recovered before anything else is taken.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{Answer, Asked, Failed, Read, RowSource};
use crate::engine::core::{Core, Phase, earliest};
use crate::engine::state::groups::Group;
use crate::engine::state::item::Custody;
use crate::engine::state::schedule::Reader;
use crate::engine::state::settings::Ungrouped;
use crate::engine::steps::admission::{Arrival, Suspicion};
use crate::model::{EventId, GroupKey, NodeId, Row, Seq, Slot};
use crate::port::{Change, Order, Outcome, Recover, Take, Taken};

/// Rows released in one call.
const RECOVER_ROWS: usize = 10_000;

/// How often to look for rows that somebody took and has not settled.
const RECOVER_EVERY: Duration = Duration::from_secs(60);

/// A leader that was told it leads no more asks again after this, unless a heartbeat says so before.
const UNSURE_FOR: Duration = Duration::from_secs(1);

/// The slot whose holder leads.
const LEADERSHIP: Slot = Slot(0);

/// Takes rows while this node leads.
#[derive(Debug, Default)]
pub(crate) struct LeaderSource {
    /// When to look next for rows that nobody has in memory; none: those of the leader before are still to be released.
    recover_at: Option<Instant>,
    /// The group after which the next rows are taken; none: from the first.
    after: Option<GroupKey>,
    /// Numbers rows in the order in which they were taken.
    taken: i64,
    /// The list of held groups that was known when the take under way began.
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

    fn merge(&mut self, core: &mut Core, answer: Answer, Asked { now, .. }: Asked) -> Vec<Outcome> {
        match answer {
            Answer::Taken { take, taken } => self.merge_taken(core, &take, taken, now),
            Answer::Recovered(released) => self.recovered(core, released, now),
            _ => {}
        }
        Vec::new()
    }

    /// Rows may have been taken that nobody has in memory: they are released before anything else is taken.
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

    /// Leadership has come to this node.
    fn gained(&mut self, core: &mut Core) {
        *self = Self { taken: self.taken, ..Self::default() };
        core.reads.wake = true;
    }
}

/// Whether this node holds the one slot and is not about to hand it over.
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

/// While the endpoint is taken to be down, nothing is taken but a probe, and only if there is none in memory.
fn hold_takes(core: &mut Core, now: Instant) -> Option<Option<Instant>> {
    let probe = core.breaker.is_open() && core.buffer.cold_rows() > 0;
    core.hold_reads(now).or_else(|| {
        core.reads.held = probe;
        probe.then_some(None)
    })
}

/// Rows of one group that are taken together: a batch, and more where few groups share a large buffer.
fn per_group(core: &Core) -> usize {
    core.settings.batch.max(core.settings.cold_rows / (2 * core.settings.workers).max(1))
}

fn takes_of(core: &Core, key: &GroupKey) -> bool {
    let has_room = |group: &Group| group.takes_rows(core.settings.batch);
    !core.held.contains(key) && core.groups.get(key).is_none_or(has_room)
}

/// Groups that wait, or have enough in memory. Those that are held in the store it leaves out itself.
fn excluded_groups(core: &Core) -> Vec<GroupKey> {
    let full = core.groups.iter().filter(|(_, group)| !group.takes_rows(core.settings.batch));
    let mut excluded: Vec<GroupKey> = full.map(|(key, _)| key.clone()).collect();
    excluded.sort_unstable();
    excluded
}

/// The group that rows without one share, if they do.
fn shared_group(core: &Core) -> Option<GroupKey> {
    (core.settings.ungrouped == Ungrouped::Default).then(|| GroupKey::new(Ungrouped::GROUP))
}

impl LeaderSource {
    fn take(&mut self, core: &mut Core, node: NodeId) -> Read {
        core.reads.wake = false;
        core.reads.more = false;
        core.slots.read_began();
        // Leadership is not handed over while rows are on their way.
        core.slots.entered(LEADERSHIP);
        core.groups.watch_overtaken();
        self.list = core.held.version();
        let (rows, bytes) = core.cold_room();
        let rows = if core.breaker.is_open() { rows.min(1) } else { rows };
        let (rows, bytes) = (rows.min(core.reads.page).min(Take::MOST), core.byte_limits(bytes));
        let each = per_group(core);
        let (ungrouped, ungrouped_order) = match core.settings.ungrouped {
            // Half of them: many without a group leave room for those with one.
            Ungrouped::Parallel => (rows.div_ceil(2), Order::None),
            Ungrouped::Default if takes_of(core, &GroupKey::new(Ungrouped::GROUP)) => (each, Order::PerGroup),
            Ungrouped::Default => (0, Order::PerGroup),
        };
        let (after, except) = (self.after.clone(), excluded_groups(core));
        Read::Take(Take { node, after, except, rows, bytes, each, ungrouped, ungrouped_order, now: None })
    }

    fn recovered(&mut self, core: &mut Core, released: u64, now: Instant) {
        if self.recover_at.is_none() && released == 0 {
            // The last leader had nothing in memory that it could have died of.
            core.slots.trust();
        }
        if released < RECOVER_ROWS as u64 {
            self.recover_at = Some(now + RECOVER_EVERY.min(core.settings.processing_timeout));
        }
        core.reads.wake |= released > 0;
    }

    /// Rows were taken, or the store says that another node leads.
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

    /// Where the next take begins, and whether it comes at once.
    fn next_turn(&mut self, core: &mut Core, take: &Take, cut: bool, last: Option<GroupKey>) {
        let from_first = take.after.is_none();
        self.after = if cut { last } else { None };
        core.reads.more |= cut || !from_first;
        core.turn_page(cut);
        if !cut && from_first {
            core.slots.trust();
        }
    }

    /// A group had as many rows as may be taken together: there may be more.
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
        // The store takes nothing of held groups: one that is on an older list was released since.
        let relisted = self.list != core.held.version();
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
            // Its outcome is in the store and not confirmed yet, or someone else released it: later, and nothing behind it before.
            release(core, &row, group, now);
        }
    }
}

/// Gives a row back that was taken; nothing of its group is taken before that is confirmed.
fn release(core: &mut Core, row: &Row, group: Option<GroupKey>, now: Instant) {
    let outcome = Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change: Change::Release };
    if let Some(key) = &group {
        let group = core.groups.entry(key, row.slot);
        group.settling += 1;
        group.miss(Seq::default());
    }
    core.settle_unadmitted(outcome, row.slot, group, now);
}
