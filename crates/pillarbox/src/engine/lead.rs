//! Leadership: where rows have no numbers, one node takes them from the store, some of each group in turn.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::core::{Core, Phase, Unsettled};
use super::intake::Read;
use super::item::Item;
use super::settings::Ungrouped;
use crate::model::{GroupKey, Row, Seq, Slot};
use crate::port::{Change, Counts, Fence, Order, Outcome, Recover, Source, Take, Taken};

/// Rows given back in one call.
const RECOVER_ROWS: usize = 10_000;

/// How often to look for rows that somebody took and has not settled.
const RECOVER_EVERY: Duration = Duration::from_secs(60);

/// A leader that was told it leads no more asks again after this, unless a beat says so before.
const UNSURE_FOR: Duration = Duration::from_secs(1);

/// The slot whose holder leads.
const LEADERSHIP: Slot = Slot(0);

/// How far a leader has got.
#[derive(Debug, Default)]
pub(crate) struct Leadership {
    /// When to look next for rows that nobody has in hand; none: what the leader before had is still to be given back.
    recover_at: Option<Instant>,
    /// The group after which the next rows are taken; none: from the first.
    after: Option<GroupKey>,
    /// Numbers rows in the order in which they were taken.
    taken: i64,
    /// Groups of which a row was given back since the take under way began: it may have taken what comes behind.
    overtaken: Option<BTreeSet<GroupKey>>,
    /// A list of held groups came since the take under way began: it knows more than the store did then.
    relisted: bool,
}

impl Core {
    /// Rows are taken from here on.
    pub(crate) fn take_rows_as_leader(&mut self) {
        self.lead = Some(Leadership::default());
        self.groups.read_ahead();
    }

    /// Leadership has come to this node: first what was in other hands is given back.
    pub(super) fn lead_anew(&mut self) {
        if let Some(lead) = &mut self.lead {
            *lead = Leadership { taken: lead.taken, ..Leadership::default() };
        }
    }

    /// What a leader does next.
    pub(super) fn next_lead(&mut self, now: Instant) -> Read {
        self.groups.wake(now);
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            self.wake = true;
        }
        while let Some(key) = self.groups.next_to_read() {
            if let Some(group) = self.groups.get_mut(&key) {
                group.missed = None;
            }
            self.groups.place(&key, now);
            self.wake = true;
        }
        let (Some(lead), Fence::Node(node), true) = (&self.lead, &self.fence, self.leads()) else {
            self.reader_idle = true;
            return Read::Idle(None);
        };
        let node = *node;
        if lead.recover_at.is_none_or(|at| at <= now) {
            let older_than = lead.recover_at.map_or(Duration::ZERO, |_| self.settings.processing_timeout);
            let except = self.claims.ids();
            return Read::Recover(Recover { node, older_than, except, rows: RECOVER_ROWS, now: None });
        }
        let recover_at = lead.recover_at;
        let held = self.hold_takes(now);
        if held.is_some() || self.cold_room().0 < self.read_at_room() || !self.wants_slots() {
            let until = [recover_at, self.groups.next_waking(), self.wake_at, held.flatten()];
            self.reader_idle = true;
            return Read::Idle(until.into_iter().flatten().min());
        }
        let after = self.lead.as_ref().and_then(|lead| lead.after.clone());
        self.wake = false;
        self.more = false;
        self.slots.read_began();
        // Leadership is not handed over while rows are on their way.
        self.slots.entered(LEADERSHIP);
        if let Some(lead) = &mut self.lead {
            (lead.overtaken, lead.relisted) = (Some(BTreeSet::new()), false);
        }
        let (rows, bytes) = self.cold_room();
        let rows = if self.breaker.is_open() { rows.min(1) } else { rows };
        let (rows, bytes) = (rows.min(self.page).min(Take::MOST), self.byte_limits(bytes));
        let each = self.each();
        let (ungrouped, ungrouped_order) = match self.settings.ungrouped {
            // Half of them: many without a group leave room for those with one.
            Ungrouped::Parallel => (rows.div_ceil(2), Order::None),
            Ungrouped::Default if self.takes_of(&GroupKey::new(Ungrouped::GROUP)) => (each, Order::PerGroup),
            Ungrouped::Default => (0, Order::PerGroup),
        };
        let except = self.not_now();
        Read::Take(Take { node, after, except, rows, bytes, each, ungrouped, ungrouped_order, now: None })
    }

    /// While the endpoint is taken to be down, nothing is taken but a probe, and only if there is none in hand.
    fn hold_takes(&mut self, now: Instant) -> Option<Option<Instant>> {
        let probe = self.breaker.is_open() && self.lines.cold_rows() > 0;
        self.hold_reads(now).or_else(|| {
            self.reads_held = probe;
            probe.then_some(None)
        })
    }

    /// Whether this node holds the one slot and is not about to hand it over.
    pub(super) fn leads(&self) -> bool {
        self.slots.is_active(LEADERSHIP)
    }

    /// Something of this group goes back: what a take under way brings of it comes behind that.
    pub(super) fn overtakes(&mut self, key: &GroupKey) {
        if let Some(overtaken) = self.lead.as_mut().and_then(|lead| lead.overtaken.as_mut()) {
            overtaken.insert(key.clone());
        }
    }

    /// There is a new list of held groups.
    pub(super) fn relisted(&mut self) {
        if let Some(lead) = &mut self.lead {
            lead.relisted = true;
        }
    }

    /// A take failed. Rows may have been taken that nobody has in hand: they go back before anything else is taken.
    pub(crate) fn take_failed(&mut self, incarnation: u64, now: Instant) {
        self.read_failed(None, now);
        if incarnation != self.incarnation {
            return;
        }
        self.slots.left(LEADERSHIP);
        if let Some(lead) = &mut self.lead {
            (lead.recover_at, lead.overtaken) = (None, None);
        }
    }

    /// Rows of one group that are taken together: a batch, and more where few groups share a large buffer.
    fn each(&self) -> usize {
        self.settings.batch.max(self.settings.cold_rows / (2 * self.settings.workers).max(1))
    }

    fn takes_of(&self, key: &GroupKey) -> bool {
        !self.held.contains(key)
            && self.groups.get(key).is_none_or(|group| group.takes_rows(self.settings.batch))
    }

    /// Groups that wait, or have enough in memory. Those that are held in the store it leaves out itself.
    fn not_now(&self) -> Vec<GroupKey> {
        let full = |(key, group): (&GroupKey, &super::groups::Group)| {
            (!group.takes_rows(self.settings.batch)).then(|| key.clone())
        };
        let mut except: Vec<GroupKey> = self.groups.iter().filter_map(full).collect();
        except.sort_unstable();
        except
    }

    /// Rows were given back.
    pub(crate) fn recovered(&mut self, given_back: u64, incarnation: u64, now: Instant) {
        if incarnation != self.incarnation {
            return;
        }
        let first = self.lead.as_ref().is_some_and(|lead| lead.recover_at.is_none());
        if first && given_back == 0 {
            // The last leader had nothing in hand that it could have died of.
            self.slots.trust();
        }
        let all = given_back < RECOVER_ROWS as u64;
        if let Some(lead) = self.lead.as_mut().filter(|_| all) {
            lead.recover_at = Some(now + RECOVER_EVERY.min(self.settings.processing_timeout));
        }
        self.wake |= given_back > 0;
    }

    /// Rows were taken, or the store says that another leads.
    pub(crate) fn merge_taken(&mut self, take: &Take, taken: Taken, incarnation: u64, now: Instant) {
        let overtaken = self.lead.as_mut().and_then(|lead| lead.overtaken.take()).unwrap_or_default();
        if incarnation != self.incarnation {
            // They are the next leader's, who gives back what is in no hands.
            return self.read_over();
        }
        self.slots.left(LEADERSHIP);
        if !taken.leads {
            self.wake_at = Some(now + UNSURE_FOR);
            return self.read_over();
        }
        let count = taken.rows.len();
        let last = taken.rows.last().and_then(|row| row.group.clone());
        let bytes: usize = taken.rows.iter().map(|row| row.bytes).sum();
        let cut = count >= take.rows || take.bytes.reached_by(bytes);
        let groups = taken.rows.chunk_by(|one, next| one.group == next.group);
        let longer: Vec<_> =
            groups.filter(|rows| rows.len() >= take.each).map(|rows| rows[0].group.clone()).collect();
        for row in taken.rows {
            self.take_led(row, &overtaken, now);
        }
        for key in longer {
            self.leave_the_rest(key, now);
        }
        self.read_over();
        self.next_turn(take, cut, last);
        self.look_again_soon(count > 0, now);
    }

    /// Where the next take begins, and whether it comes at once.
    fn next_turn(&mut self, take: &Take, cut: bool, last: Option<GroupKey>) {
        let from_first = take.after.is_none();
        if let Some(lead) = &mut self.lead {
            lead.after = if cut { last } else { None };
        }
        self.more |= cut || !from_first;
        self.page = if cut { (self.page * 2).min(self.settings.cold_rows) } else { self.settings.fetch_rows };
        if !cut && from_first {
            self.slots.trust();
        }
    }

    /// A group had as many rows as may be taken together: there may be more.
    fn leave_the_rest(&mut self, key: Option<GroupKey>, now: Instant) {
        let Some(key) = key.or_else(|| self.shared_group()) else {
            return;
        };
        let number = self.lead.as_ref().map_or(0, |lead| lead.taken + 1);
        if let Some(group) = self.groups.get_mut(&key) {
            group.miss(Seq(number));
        }
        self.groups.place(&key, now);
    }

    fn shared_group(&self) -> Option<GroupKey> {
        (self.settings.ungrouped == Ungrouped::Default).then(|| GroupKey::new(Ungrouped::GROUP))
    }

    fn take_led(&mut self, row: Row, overtaken: &BTreeSet<GroupKey>, now: Instant) {
        let outcome = |change| Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change };
        let group = row.group.clone().or_else(|| self.shared_group());
        // The store takes nothing of held groups: one that is on an older list was let go.
        let relisted = self.lead.as_ref().is_some_and(|lead| lead.relisted);
        let in_order = group.as_ref().is_none_or(|key| {
            let held = relisted && self.held.contains(key);
            !held
                && !overtaken.contains(key)
                && self.groups.get(key).is_none_or(|group| group.takes_rows(usize::MAX))
        });
        if self.phase != Phase::Running || !self.slots.takes_rows(row.slot) || !in_order {
            return self.settle_unheld(outcome(Change::Release), &row, group, now);
        }
        let number = match &mut self.lead {
            Some(lead) => {
                lead.taken += 1;
                Seq(lead.taken)
            }
            None => row.seq,
        };
        if !self.known.admit(&row.id, number) {
            // Its outcome is in the store and not confirmed yet, or someone else gave it back: later, and nothing behind it before.
            return self.settle_unheld(outcome(Change::Release), &row, group, now);
        }
        let event = match &row.event {
            Ok(event) => event.clone(),
            Err(why) => {
                let error = why.error();
                self.tally.undecodable.push((row.id.clone(), error.clone()));
                self.tally.dead.push((row.id.clone(), error.clone()));
                let change = Change::Dead { error, counts: Counts::None, blocks: None };
                return self.settle_unheld(outcome(change), &row, None, now);
            }
        };
        self.claims.begin(row.id.clone(), number, row.token);
        let suspect = self.slots.suspects(row.slot, group.as_ref(), number);
        // Its last attempt was written and it came back untried: that one is still due to it.
        let most = self.settings.max_attempts;
        let untried = row.attempts > most && !suspect;
        let mut item = Item {
            attempts: if untried { most } else { row.attempts },
            careful_attempt: untried,
            token: row.token,
            counted: true,
            led: true,
            group: group.clone(),
            careful: suspect && group.is_none(),
            ..self.item(event, number, row.slot, Source::Cold)
        };
        self.recall(&mut item);
        self.tally.cold += 1;
        self.enter(&item);
        let Some(key) = group else {
            return self.lines.push(item);
        };
        let group = self.groups.entry(&key, item.slot);
        group.careful |= suspect;
        group.insert(item);
        self.groups.place(&key, now);
    }

    /// An outcome for a row that never became an item.
    fn settle_unheld(&mut self, outcome: Outcome, row: &Row, group: Option<GroupKey>, now: Instant) {
        self.slots.entered(row.slot);
        if let Some(key) = &group {
            let group = self.groups.entry(key, row.slot);
            group.settling += 1;
            group.miss(Seq::default());
        }
        self.push_unsettled(Unsettled { outcome, slot: row.slot, group }, now);
    }

    /// After rows were found the next look comes soon; the longer nothing is found, the later.
    pub(super) fn look_again_soon(&mut self, fruitful: bool, now: Instant) {
        let Some(first) = self.settings.quick_poll else {
            return;
        };
        let pause = match self.quick {
            Some(pause) if !fruitful => pause * 2,
            _ if fruitful => first,
            _ => return,
        };
        self.quick = (pause < self.settings.poll_interval).then_some(pause);
        if self.quick.is_some() {
            self.wake_at = Some(self.wake_at.map_or(now + pause, |at| at.min(now + pause)));
        }
    }
}
