//! The state of the engine: one owner, plain data, no I/O.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::aside::Aside;
use super::breaker::{Breaker, Gate, Outlook};
use super::busy::Busy;
use super::careful::Careful;
use super::caught::CaughtPolicy;
use super::claims::Claims;
use super::due::Dues;
use super::groups::Groups;
use super::held::Held;
use super::intake::GROUPS_MAX;
use super::item::Item;
use super::known::Known;
use super::lead::Leadership;
use super::lines::Lines;
use super::notes::Notes;
use super::running::EngineHealth;
use super::settings::EngineSettings;
use super::shared::Signals;
use super::slots::Slots;
use super::sweep::Sweep;
use crate::model::{EventId, GroupKey, Lane, NodeId, Seq, Slot};
use crate::port::{Change, Cursor, Fence, Outcome, Source};

/// What the engine is doing on the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Takes in and delivers.
    Running,
    /// Takes in nothing, delivers what is in memory.
    Draining,
    /// Delivers nothing more.
    Stopped,
}

/// What the settler is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settler {
    /// Settling, or about to look.
    Busy,
    /// Waiting for a first outcome.
    Idle,
    /// Waiting for company for the outcomes that are there, at most until then.
    Lingering(Instant),
}

/// What the group of an event does while its outcome is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    /// Sends the next, unless this one was tried with care: the next may end the process.
    GoesOn,
    /// Nothing: a crash before the outcome is in the store would turn the order round.
    Waits,
}

/// An outcome that waits to be settled, with what must be undone in memory then.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) outcome: Outcome,
    pub(crate) slot: Slot,
    /// Its group, if the outcome holds it back.
    pub(crate) group: Option<GroupKey>,
}

/// What happened, to be counted and logged outside the lock.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) hot: u64,
    pub(crate) hot_dropped: u64,
    pub(crate) cold: u64,
    pub(crate) success: u64,
    pub(crate) failure: u64,
    pub(crate) stale: u64,
    /// Outcomes that have waited for locks of others for long.
    pub(crate) busy: Option<usize>,
    /// Rows that a sweep found below the read position, and the lowest of their numbers.
    pub(crate) passed_by: Option<(u64, Seq)>,
    pub(crate) dead: Vec<(EventId, String)>,
    /// How many of the dead ones died of the endpoint's failures.
    pub(crate) dead_of_endpoint: u64,
    pub(crate) undecodable: Vec<(EventId, String)>,
}

/// The engine's state.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) settings: EngineSettings,
    pub(super) rng: fastrand::Rng,
    pub(super) phase: Phase,
    /// Grows when the node is lost: what was begun before counts for nothing.
    pub(super) incarnation: u64,
    pub(super) fence: Fence,
    pub(super) lane: Option<Lane>,
    /// Nothing is begun after this; none where there is no node.
    pub(super) lease_until: Option<Instant>,
    pub(super) lines: Lines,
    pub(super) groups: Groups,
    pub(super) careful: Careful,
    pub(super) known: Known,
    pub(super) aside: Aside,
    pub(super) claims: Claims,
    /// Rows are taken under leadership instead of being read by slots.
    pub(super) lead: Option<Leadership>,
    pub(super) slots: Slots,
    pub(super) breaker: Breaker,
    pub(super) notes: Notes,
    pub(super) cursor: Cursor,
    /// Grows when the cursor is set back, so that a read under way can't move it on.
    pub(super) rewinds: u64,
    /// Reads that began before this rewind bring nothing in: of what they show, earlier rows were set aside since.
    pub(super) reads_from: u64,
    /// Reading waits for the endpoint.
    pub(super) reads_held: bool,
    pub(super) sweep: Sweep,
    /// Something hints at rows to be read.
    pub(super) wake: bool,
    /// A hint from elsewhere is followed up then.
    pub(super) wake_at: Option<Instant>,
    /// When a read last found nothing new.
    pub(super) fruitless: Option<Instant>,
    /// The last read was cut short.
    pub(super) more: bool,
    /// Rows of the next page: doubles while reads are cut short.
    pub(super) page: usize,
    /// By how much a read is widened, because the last one was cut short and saw only what was known.
    pub(super) stretch: usize,
    pub(super) dues: Dues,
    pub(super) settles: VecDeque<Unsettled>,
    pub(super) settles_since: Option<Instant>,
    /// One of these outcomes holds back its group or changes when its event is tried again.
    pub(super) settles_press: bool,
    /// When the settler last took a batch.
    pub(super) settles_taken: Option<Instant>,
    /// Outcomes taken by the settler and not yet confirmed, those that are busy too.
    pub(super) settling: usize,
    pub(super) busy: Busy,
    pub(super) out: usize,
    /// How long the events of the job that is being judged wait because of the endpoint, once that is known.
    pub(super) outage: Option<Duration>,
    /// How long the next look waits although nothing hints at rows; none: for the poll interval.
    pub(super) quick: Option<Duration>,
    pub(super) idle_workers: usize,
    /// Nothing may be sent for now, by lease or breaker: idle workers are not called for what is there.
    pub(super) halted: bool,
    pub(super) settler: Settler,
    pub(super) reader_idle: bool,
    /// The reader waits for a lease and for nothing else.
    pub(super) reader_barred: bool,
    /// A delayed row is due earlier than the reader knows.
    pub(super) due_moved: bool,
    /// When a beat last told that nothing is pending.
    pub(super) nothing_at: Option<Instant>,
    pub(super) beats: u64,
    pub(super) beat_unanswered: bool,
    pub(super) groups_epoch: i64,
    /// Groups that the store lists as blocked or paused.
    pub(super) held: Held,
    /// How often a loop ended by a panic.
    pub(super) restarts: u64,
    pub(super) tally: Tally,
}

impl std::fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineSettings").field("order", &self.order).field("workers", &self.workers).finish()
    }
}

impl Core {
    /// An engine that has no node yet: it delivers only what it is handed.
    pub(crate) fn new(mut settings: EngineSettings, seed: u64) -> Self {
        settings.retry = Arc::new(CaughtPolicy(settings.retry));
        let groups = Groups::new(settings.oldest_first());
        let page = settings.fetch_rows;
        Self {
            settings,
            rng: fastrand::Rng::with_seed(seed),
            phase: Phase::Running,
            incarnation: 0,
            fence: Fence::Open,
            lane: None,
            lease_until: None,
            lines: Lines::default(),
            groups,
            careful: Careful::default(),
            known: Known::default(),
            aside: Aside::default(),
            claims: Claims::default(),
            lead: None,
            slots: Slots::default(),
            breaker: Breaker::default(),
            notes: Notes::default(),
            cursor: Cursor::default(),
            rewinds: 0,
            reads_from: 0,
            reads_held: false,
            sweep: Sweep::default(),
            wake: true,
            wake_at: None,
            fruitless: None,
            more: false,
            page,
            stretch: 1,
            dues: Dues::default(),
            settles: VecDeque::new(),
            settles_since: None,
            settles_press: false,
            settles_taken: None,
            settling: 0,
            busy: Busy::default(),
            out: 0,
            outage: None,
            quick: None,
            idle_workers: 0,
            halted: false,
            settler: Settler::Busy,
            reader_idle: false,
            reader_barred: false,
            due_moved: false,
            nothing_at: None,
            beats: 0,
            beat_unanswered: false,
            groups_epoch: -1,
            held: Held::default(),
            restarts: 0,
            tally: Tally::default(),
        }
    }

    pub(crate) fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    pub(crate) fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Rows waiting or out: hot, cold.
    pub(crate) fn depths(&self) -> (usize, usize) {
        (self.lines.hot_rows(), self.lines.cold_rows())
    }

    pub(crate) fn health(&self, now: Instant) -> EngineHealth {
        EngineHealth {
            member: self.lane.is_some() && self.lease_until.is_some_and(|until| now < until),
            node: self.lane.and(match self.fence {
                Fence::Node(node) => Some(node),
                _ => None,
            }),
            first: self.slots.holds(Slot(0)),
            slots: self.slots.groups_held(),
            breaker_open: self.breaker.is_open(),
            next_attempt: self.next_attempt(now),
            in_memory: self.lines.hot_rows() + self.lines.cold_rows(),
            out: self.out,
            restarts: self.restarts,
        }
    }

    /// How long until something is sent that waits for the endpoint or for a retry.
    fn next_attempt(&self, now: Instant) -> Option<Duration> {
        let at = match self.breaker.gate(now) {
            Gate::Shut(until) => until,
            Gate::Open => {
                let waking = [self.lines.next_waking(), self.groups.next_waking(), self.aside.next()];
                waking.into_iter().flatten().min()
            }
        };
        at.map(|at| at.saturating_duration_since(now))
    }

    /// Nothing in memory, nothing out, nothing unsettled.
    pub(crate) fn quiet(&self) -> bool {
        self.out == 0 && self.all_settled() && self.lines.hot_rows() == 0 && self.lines.cold_rows() == 0
    }

    /// Nothing is out, nothing unsettled, and what is in memory only waits for its endpoint or for a back-off.
    pub(crate) fn is_drained(&self, now: Instant) -> bool {
        let moves = self.runnable() || !self.careful.is_empty();
        let sends = self.breaker.outlook(now) == Outlook::Sending;
        self.quiet() || (self.out == 0 && self.all_settled() && !(moves && sends))
    }

    /// No job is out and none could start.
    pub(super) fn calm(&self) -> bool {
        self.out == 0 && !self.runnable()
    }

    pub(super) fn runnable(&self) -> bool {
        self.lines.has_any() || self.groups.has_ready() || self.careful.is_ready()
    }

    /// Which loops should look again.
    pub(crate) fn signals(&mut self) -> Signals {
        let settle = match self.settler {
            Settler::Busy => false,
            Settler::Idle => self.settles_since.is_some() || !self.notes.is_empty(),
            Settler::Lingering(until) => {
                !self.notes.is_empty()
                    || (self.settles_since.is_some() && self.settle_at().is_none_or(|at| at < until))
            }
        };
        let due_moved = std::mem::take(&mut self.due_moved);
        let quiet = match self.phase {
            Phase::Running => false,
            Phase::Draining => self.is_drained(Instant::now()),
            Phase::Stopped => self.all_settled(),
        };
        Signals {
            work: self.idle_workers > 0 && !self.halted && self.runnable(),
            settle,
            read: (self.reader_idle && (due_moved || self.wants_read())) || self.claims_may_go_on(),
            member: self.slots.any_leaving() && self.has_drained_slots(),
            quiet,
        }
    }

    /// A signal is only given for what `next_read` would act on, or reader and signal would chase each other.
    fn wants_read(&self) -> bool {
        self.phase == Phase::Running
            && !self.reads_held
            && (self.wants_slots() || self.groups.wants_read())
            && self.cold_room().0 >= self.read_at_room()
    }

    pub(super) fn wants_slots(&self) -> bool {
        let any_active = if self.lead.is_some() { self.leads() } else { self.slots.any_active() };
        (self.wake || self.more) && any_active && self.groups.len() < GROUPS_MAX
    }

    /// Reads wait for room for a good part of a page, so that a slow sink causes few and large reads.
    pub(super) fn read_at_room(&self) -> usize {
        self.page.min(self.settings.cold_rows / 2).max(1)
    }

    pub(crate) fn drain(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Draining;
        }
    }

    pub(crate) fn stop(&mut self) {
        self.phase = Phase::Stopped;
    }

    /// The rest goes back: it is pending in the store, where someone will read it.
    pub(crate) fn give_back(&mut self, now: Instant) {
        for item in self.careful.give_back() {
            self.drop_item(item, now);
        }
        self.release_claims(now);
        self.lines.clear();
        self.groups.clear();
        self.aside.clear();
        self.known.clear_held();
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether what was begun in that incarnation counts for nothing now.
    pub(crate) fn is_past(&self, incarnation: u64) -> bool {
        incarnation != self.incarnation
    }

    pub(crate) fn lane(&self) -> Option<Lane> {
        self.lane
    }

    /// The right that outcomes are settled by, where there is no node.
    pub(crate) fn settle_by(&mut self, fence: Fence) {
        self.fence = fence;
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    pub(crate) fn all_settled(&self) -> bool {
        self.settles.is_empty() && self.settling == 0
    }

    /// Whether this node was lost since it joined.
    pub(crate) fn is_without_node(&self, node: NodeId) -> bool {
        self.lane.is_none() || self.fence != Fence::Node(node)
    }

    pub(crate) fn new_node_id(&mut self) -> NodeId {
        NodeId::from_random(self.rng.u128(..))
    }

    /// The poll interval is over: reads, unless a beat has just told that nothing is there.
    pub(crate) fn poll_tick(&mut self, now: Instant) {
        let told =
            self.nothing_at.is_some_and(|at| now.saturating_duration_since(at) < self.settings.poll_interval);
        self.wake |= !told;
    }

    pub(super) fn random(&mut self) -> f64 {
        self.rng.f64()
    }

    /// An item is in memory from here on.
    pub(super) fn enter(&mut self, item: &Item) {
        self.lines.entered(item);
        self.slots.entered(item.slot);
    }

    /// An item leaves memory undelivered: its row is pending and may be read again, or goes back to being so.
    pub(super) fn drop_item(&mut self, item: Item, now: Instant) {
        self.remember(&item, None);
        self.return_item(item, now);
    }

    /// Gives an item back as it was taken: without an attempt that was written for a delivery that never came to be.
    pub(super) fn return_item(&mut self, item: Item, now: Instant) {
        match (self.claims.lost(&item), item.written, item.led) {
            (true, ..) | (false, false, false) => self.forget_item(&item),
            (false, true, _) => self.settle_later(item, Change::Untried, Meanwhile::Waits, now),
            (false, false, true) => self.settle_later(item, Change::Release, Meanwhile::Waits, now),
        }
    }

    /// An item is out of memory, and whatever becomes of its row is another's business.
    pub(super) fn forget_item(&mut self, item: &Item) {
        self.lines.left(item);
        self.slots.left(item.slot);
        self.known.forget(item.id());
    }

    /// Queues an outcome; the item stays known until it is settled.
    pub(super) fn settle_later(&mut self, item: Item, change: Change, meanwhile: Meanwhile, now: Instant) {
        self.lines.left(&item);
        let blocks = matches!(change, Change::Dead { blocks: Some(_), .. });
        let with_care = if item.is_taken() { item.careful_attempt } else { item.counted };
        let waits = meanwhile == Meanwhile::Waits || with_care;
        let outcome = item.outcome(change);
        let group = item.group.filter(|_| blocks || waits);
        if let Some(key) = group.as_ref().filter(|_| !blocks) {
            self.groups.entry(key, item.slot).settling += 1;
            self.overtakes(key);
        }
        self.push_unsettled(Unsettled { outcome, slot: item.slot, group }, now);
    }

    pub(super) fn push_unsettled(&mut self, unsettled: Unsettled, now: Instant) {
        self.settles_since.get_or_insert(now);
        self.settles_press |= unsettled.group.is_some() || unsettled.outcome.change != Change::Done;
        if let Some(note) = self.notes.drop_for(&unsettled) {
            self.slots.left(note.slot);
        }
        self.settles.push_back(unsettled);
    }

    /// Room for rows and bytes that are read.
    pub(crate) fn cold_room(&self) -> (usize, usize) {
        let bytes = self.settings.buffer_bytes.saturating_sub(self.lines.bytes());
        if bytes == 0 || self.unsettled_full() {
            return (0, 0);
        }
        (self.settings.cold_rows.saturating_sub(self.lines.cold_rows()), bytes)
    }

    pub(super) fn hot_room(&self) -> usize {
        if self.lines.bytes() >= self.settings.buffer_bytes || self.unsettled_full() {
            return 0;
        }
        self.settings.hot_rows.saturating_sub(self.lines.hot_rows())
    }

    /// Outcomes that can't be settled are in memory too: intake waits for them.
    fn unsettled_full(&self) -> bool {
        let rows = self.settings.hot_rows + self.settings.cold_rows;
        self.settles.len() + self.settling >= rows.max(self.settings.settle_rows * 4)
    }

    /// A moment of the database's clock on ours.
    pub(super) fn local(at: Timestamp, db_now: Timestamp, now: Instant) -> Instant {
        const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        match Duration::try_from(at.duration_since(db_now)) {
            Ok(ahead) => now + ahead.min(FAR),
            Err(_) => now,
        }
    }

    pub(super) fn source_room(&self, source: Source) -> usize {
        match source {
            Source::Hot => self.hot_room(),
            Source::Cold => self.cold_room().0,
        }
    }
}
