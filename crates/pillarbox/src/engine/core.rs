//! The engine's state: plain data with one owner, changed by `steps` and `sources` without I/O.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::running::EngineHealth;
use super::shared::Signals;
use super::sources::{Asked, Failed, NoSource, Read, ReadResult, RowSource, SlotSource};
use super::state::aside::Aside;
use super::state::breaker::{Breaker, Gate, Outlook};
use super::state::buffer::Buffer;
use super::state::claim_size::ClaimSize;
use super::state::failures::FailureLog;
use super::state::groups::Groups;
use super::state::held::HeldGroupKeys;
use super::state::in_flight::InFlightIds;
use super::state::item::{Item, Recorded};
use super::state::leases::Leases;
use super::state::node::NodeState;
use super::state::quarantine::QuarantineQueue;
use super::state::schedule::{ReadSchedule, Reader};
use super::state::settings::EngineSettings;
use super::state::settle_queue::{SettleQueue, Unsettled};
use super::state::slots::Slots;
use super::tally::{Notice, Tally};
use super::tasks::caught::{CaughtPolicy, called};
use crate::model::{GroupKey, Lane, NodeId, Slot};
use crate::port::{ByteLimits, Change, DeliveryPath, Fence, Outcome};
use crate::rules::attempts_within;

/// Maximum number of groups in memory; reading waits while there are more.
pub(super) const GROUPS_MAX: usize = 100_000;

/// Time without a failed request after which the log says that the sink has recovered. Without the delay, a sink
/// that throttles would recover and fail again every second.
const QUIET: Duration = Duration::from_secs(5);

/// The life cycle of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reads and delivers.
    Running,
    /// Reads nothing more, delivers the events in memory.
    Draining,
    /// Delivers nothing more, settles the remaining outcomes.
    Stopped,
}

/// Whether the group of an event continues while the event's outcome is being settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupDuringSettle {
    /// Sends the next event, unless this event's attempt was recorded before sending: the next event may
    /// crash the process too, and then this outcome must be in the store.
    Continues,
    /// Sends nothing: a crash before the outcome is stored would reorder the group.
    Waits,
}

/// Counts of workers, and whether they may send.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// Number of workers that wait for work.
    pub(crate) idle: usize,
    /// Number of workers that deliver a batch.
    pub(crate) busy: usize,
    /// Lease or circuit breaker forbid sending for now, so idle workers are not woken for queued events.
    pub(crate) halted: bool,
}

/// Progress of reads, compared before and after a read to see whether it found anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of rows admitted to memory.
    pub(super) cold: u64,
    /// Number of queued outcomes, which includes those of rows that were settled instead of admitted.
    settles: usize,
}

/// The engine's state.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) settings: EngineSettings,
    pub(super) rng: fastrand::Rng,
    pub(super) phase: Phase,
    pub(super) node: NodeState,
    pub(super) source: Box<dyn RowSource>,
    pub(super) reads: ReadSchedule,
    pub(super) slots: Slots,
    pub(super) leases: Leases,
    pub(super) claim_size: ClaimSize,
    pub(super) in_flight: InFlightIds,
    pub(super) buffer: Buffer,
    pub(super) groups: Groups,
    pub(super) held: HeldGroupKeys,
    pub(super) quarantine: QuarantineQueue,
    pub(super) aside: Aside,
    pub(super) breaker: Breaker,
    pub(super) failures: FailureLog,
    pub(super) workers: Workers,
    pub(super) settles: SettleQueue,
    pub(super) tally: Tally,
}

impl std::fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineSettings").field("order", &self.order).field("workers", &self.workers).finish()
    }
}

/// Returns the earliest of these times.
pub(super) fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    times.into_iter().flatten().min()
}

impl Core {
    /// Creates the state of an engine without a node, which delivers only the events passed to it.
    pub(crate) fn new(mut settings: EngineSettings, seed: u64) -> Self {
        if let Some(time) = settings.give_up_after
            && let Ok(attempts) = called(|| attempts_within(&*settings.retry, time))
        {
            settings.max_attempts = attempts;
        }
        settings.retry = Arc::new(CaughtPolicy(settings.retry));
        Self {
            rng: fastrand::Rng::with_seed(seed),
            phase: Phase::Running,
            node: NodeState::none(),
            source: Box::new(SlotSource::default()),
            reads: ReadSchedule::new(settings.fetch_rows),
            slots: Slots::default(),
            leases: Leases::default(),
            claim_size: ClaimSize::fixed(settings.cold_rows),
            in_flight: InFlightIds::default(),
            buffer: Buffer::default(),
            groups: Groups::new(settings.oldest_first()),
            held: HeldGroupKeys::default(),
            quarantine: QuarantineQueue::default(),
            aside: Aside::default(),
            breaker: Breaker::default(),
            failures: FailureLog::new(QUIET),
            workers: Workers::default(),
            settles: SettleQueue::default(),
            tally: Tally::default(),
            settings,
        }
    }

    /// Sets the row source. Must be called before any row is in memory.
    pub(crate) fn read_from(&mut self, source: impl RowSource + 'static) {
        self.reads.rereads = source.rereads();
        self.groups.read_ahead(!source.rereads());
        self.source = Box::new(source);
    }

    /// Runs a step of the source on the core.
    ///
    /// The source is detached meanwhile, so the core passes requests to it through the read schedule.
    pub(super) fn with_source<R>(&mut self, step: impl FnOnce(&mut dyn RowSource, &mut Self) -> R) -> R {
        let mut source = std::mem::replace(&mut self.source, Box::new(NoSource));
        let result = step(&mut *source, self);
        self.source = source;
        result
    }

    /// Decides the next read. At most one read is in progress at a time.
    pub(crate) fn next_read(&mut self, now: Instant) -> Read {
        self.reads.reader = Reader::Busy;
        if !self.is_running() || !self.node.has_lease(now) {
            self.reads.reader = Reader::WithoutLease;
            return Read::Idle(None);
        }
        self.with_source(|source, core| source.next(core, now))
    }

    /// Decides how many rows may be claimed now. Needs no node lease: each claim has its own.
    pub(crate) fn next_claim(&mut self, now: Instant) -> Read {
        self.check_recovery(now);
        self.with_source(|source, core| source.next(core, now))
    }

    /// Merges the store's answer to a read. Returns outcomes that release rows which could not be admitted.
    ///
    /// The answer to a read of an earlier incarnation is ignored: the rows may belong to another node now.
    #[must_use]
    pub(crate) fn merge(&mut self, answer: ReadResult, incarnation: u64, asked: Asked) -> Vec<Outcome> {
        if self.is_past(incarnation) {
            self.read_over();
            return Vec::new();
        }
        self.with_source(|source, core| source.merge(core, answer, asked))
    }

    /// Handles a failed read.
    pub(crate) fn read_failed(&mut self, failed: Failed, incarnation: u64, now: Instant) {
        if self.is_past(incarnation) {
            self.read_over();
            self.reads.wake = true;
            return;
        }
        self.with_source(|source, core| source.failed(core, failed, now));
    }

    /// Reports a recovery of the sink, once it has been quiet for long enough.
    pub(super) fn check_recovery(&mut self, now: Instant) {
        let news = self.failures.recovered(now);
        self.tally.notices.extend(news.map(Notice::Sink));
    }

    pub(crate) fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    pub(crate) fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Number of hot and cold rows in memory, queued or being delivered.
    pub(crate) fn depths(&self) -> (usize, usize) {
        (self.buffer.hot_rows(), self.buffer.cold_rows())
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { cold: self.tally.cold, settles: self.settles.queued() }
    }

    pub(crate) fn health(&self, now: Instant) -> EngineHealth {
        let open = self.phase != Phase::Stopped;
        EngineHealth {
            member: open && self.node.lane.is_some() && self.node.has_lease(now),
            node: self.node.id().filter(|_| open),
            first: open && self.slots.holds(Slot(0)),
            slots: if open { self.slots.groups_held() } else { 0 },
            breaker_open: self.breaker.is_open(),
            next_attempt: self.next_attempt(now),
            in_memory: self.buffer.hot_rows() + self.buffer.cold_rows(),
            out: self.workers.busy,
            restarts: self.node.restarts,
        }
    }

    /// Time until the next event that waits for the endpoint or for a retry is sent.
    fn next_attempt(&self, now: Instant) -> Option<Duration> {
        let at = match self.breaker.gate(now) {
            Gate::Shut(until) => until,
            Gate::Open => earliest([self.buffer.next_waking(), self.groups.next_waking(), self.aside.next()]),
        };
        at.map(|at| at.saturating_duration_since(now))
    }

    /// Whether no event is in memory or being delivered, and no outcome is unsettled.
    pub(crate) fn is_empty(&self) -> bool {
        let rows = self.buffer.hot_rows() + self.buffer.cold_rows();
        self.workers.busy == 0 && self.all_settled() && rows == 0
    }

    /// Whether shutdown can stop waiting: nothing is being delivered or unsettled, and the events in memory
    /// only wait for their endpoint or for a backoff.
    pub(crate) fn is_drained(&self, now: Instant) -> bool {
        let moves = self.is_runnable() || !self.quarantine.is_empty();
        let sends = self.breaker.outlook(now) == Outlook::Sending;
        self.is_empty() || (self.workers.busy == 0 && self.all_settled() && !(moves && sends))
    }

    /// Whether no batch is being delivered and none is ready.
    pub(super) fn is_idle(&self) -> bool {
        self.workers.busy == 0 && !self.is_runnable()
    }

    pub(super) fn is_runnable(&self) -> bool {
        self.buffer.has_any() || self.groups.has_ready() || self.quarantine.is_ready()
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Returns the tasks that have something to do.
    ///
    /// `now` is only needed during shutdown; reading the clock after every step would
    /// cost more than the step.
    pub(crate) fn signals(&mut self, now: Option<Instant>) -> Signals {
        let drained = match self.phase {
            Phase::Running => false,
            Phase::Draining => now.is_some_and(|now| self.is_drained(now)),
            Phase::Stopped => self.all_settled(),
        };
        Signals {
            work: self.workers.idle > 0 && !self.workers.halted && self.is_runnable(),
            settle: self.settles.wakes(self.settle_at()),
            settle_second: self.settles.wakes_second(self.settings.settle_rows),
            read: self.with_source(|source, core| source.wakes(core)),
            heartbeat: self.slots.any_leaving() && self.has_drained_slots(),
            drained,
        }
    }

    /// Whether shutdown and endpoint allow reading.
    pub(super) fn may_take_in(&self) -> bool {
        self.is_running() && !self.reads.held
    }

    /// Whether rows may be pending and there is room for more groups in memory.
    pub(super) fn wants_rows(&self) -> bool {
        (self.reads.wake || self.reads.more) && self.groups.len() < GROUPS_MAX
    }

    /// Minimum room for a read. Waiting for a good part of a page makes a slow sink cause few large reads.
    pub(super) fn read_at_room(&self) -> usize {
        self.reads.page.min(self.settings.cold_rows / 2).max(1)
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        !self.is_running()
    }

    pub(crate) fn drain(&mut self) {
        if self.is_running() {
            self.phase = Phase::Draining;
        }
    }

    pub(crate) fn stop(&mut self) {
        self.phase = Phase::Stopped;
    }

    /// Drops all events from memory. Their rows are pending in the store, or become so,
    /// for another node to read.
    pub(crate) fn give_back(&mut self, now: Instant) {
        for item in self.quarantine.give_back() {
            self.drop_item(item, now);
        }
        self.release_claims(now);
        self.buffer.clear();
        self.groups.clear();
        self.aside.clear();
        self.in_flight.clear_held();
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.node.incarnation
    }

    /// Whether that incarnation has ended, so that results of calls begun in it must be ignored.
    pub(crate) fn is_past(&self, incarnation: u64) -> bool {
        incarnation != self.node.incarnation
    }

    pub(crate) fn lane(&self) -> Option<Lane> {
        self.node.lane
    }

    /// Sets the fence of settles for an engine without a node.
    pub(crate) fn settle_by(&mut self, fence: Fence) {
        self.node.fence = fence;
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.node.fence
    }

    pub(crate) fn all_settled(&self) -> bool {
        self.settles.is_empty()
    }

    /// Whether this node was lost after it registered.
    pub(crate) fn is_without_node(&self, node: NodeId) -> bool {
        self.node.id() != Some(node)
    }

    pub(crate) fn new_node_id(&mut self) -> NodeId {
        NodeId::from_random(self.rng.u128(..))
    }

    /// Allows work until the new end of the lease, and lets halted workers continue.
    pub(super) fn renew_lease(&mut self, until: Instant) {
        self.node.lease_until = Some(until);
        self.workers.halted = false;
    }

    /// Handles the end of a poll interval.
    pub(crate) fn poll_tick(&mut self, now: Instant) {
        self.reads.poll_tick(self.settings.poll_interval, now);
    }

    pub(super) fn random(&mut self) -> f64 {
        self.rng.f64()
    }

    /// Whether rows stay pending in the store while they are in memory, so that an event can leave
    /// memory and be read again.
    ///
    /// False for claimed rows and rows taken by a leader, which a cancel leaves alone meanwhile, and for
    /// events passed in by a caller, which the engine cannot read.
    pub(super) fn rereads(&self) -> bool {
        self.node.lane.is_some() && self.reads.rereads
    }

    /// Makes the reader wait, at most until this time.
    pub(super) fn idle(&mut self, until: Option<Instant>) -> Read {
        self.reads.reader = Reader::Idle;
        Read::Idle(until)
    }

    /// Returns `Some` if reading waits for the endpoint, with the end of the wait if it is known.
    ///
    /// While the circuit breaker is open, the engine reads only a probe, when one is due
    /// and none is in memory.
    pub(super) fn hold_reads(&mut self, now: Instant) -> Option<Option<Instant>> {
        let held = match self.breaker.outlook(now) {
            Outlook::Paused(until) => Some(until),
            Outlook::Probe if self.workers.busy > 0 || self.is_runnable() => Some(None),
            Outlook::Probe | Outlook::Sending => None,
        };
        self.reads.held = held.is_some();
        held
    }

    pub(super) fn read_begins(&mut self) {
        self.reads.dues.read_began();
        self.in_flight.read_began();
        self.slots.read_began();
    }

    pub(super) fn read_over(&mut self) {
        self.in_flight.read_merged();
        self.reread_moved();
    }

    /// Rereads rows that were settled, promoted and read under their new number before the settle was
    /// confirmed. Their ids were still in flight, so that read skipped them.
    pub(super) fn reread_moved(&mut self) {
        if let Some(seq) = self.in_flight.take_again() {
            self.reads.reread_from(seq);
            self.reads.wake = true;
        }
    }

    /// Sets the size of the next page, which grows while reads are cut short.
    pub(super) fn turn_page(&mut self, cut: bool) {
        self.reads.turn_page(cut, self.settings.fetch_rows, self.settings.cold_rows);
    }

    /// Schedules an early poll after a read that found rows.
    pub(super) fn poll_soon(&mut self, fruitful: bool, now: Instant) {
        self.reads.poll_soon(fruitful, self.settings.quick_poll, self.settings.poll_interval, now);
    }

    /// Byte limits of a read with this total.
    pub(super) fn byte_limits(&self, total: usize) -> ByteLimits {
        ByteLimits { total, row: self.settings.row_bytes }
    }

    /// Counts an item as in memory.
    pub(super) fn enter(&mut self, item: &Item) {
        self.buffer.entered(item);
        self.slots.entered(item.slot);
    }

    /// Removes an undelivered item from memory. Its row is pending and can be read again, or is released.
    pub(super) fn drop_item(&mut self, item: Item, now: Instant) {
        self.remember(&item, None);
        self.return_item(item, now);
    }

    /// Returns an item to the store in its former state, and undoes an attempt recorded for a
    /// delivery that was not made.
    pub(super) fn return_item(&mut self, item: Item, now: Instant) {
        let change = match item.recorded {
            _ if self.leases.lost(&item) => None,
            Recorded::Here => Some(item.release()),
            // Claims of the queue are returned all together.
            _ => (self.is_leased(&item.custody) && !item.is_claimed()).then(|| item.give_back()),
        };
        match change {
            Some(change) => self.settle_later(item, change, GroupDuringSettle::Waits, now),
            None => self.forget_item(&item),
        }
    }

    /// Removes an item from memory without an outcome.
    pub(super) fn forget_item(&mut self, item: &Item) {
        self.buffer.left(item);
        self.slots.left(item.slot);
        self.in_flight.forget(item.id());
    }

    /// Queues an outcome. The id stays in flight until the settle is confirmed, so that no
    /// read admits the row again.
    pub(super) fn settle_later(
        &mut self,
        item: Item,
        change: Change,
        during: GroupDuringSettle,
        now: Instant,
    ) {
        self.buffer.left(&item);
        let blocks = matches!(change, Change::Dead { blocks: Some(_), .. });
        let waits = during == GroupDuringSettle::Waits || item.is_recorded_ahead();
        let outcome = item.outcome(change);
        let group = item.group.filter(|_| blocks || waits);
        if let Some(key) = group.as_ref().filter(|_| !blocks) {
            self.hold_back(key, item.slot);
        }
        self.push_unsettled(Unsettled { outcome, slot: item.slot, group }, now);
    }

    /// Makes a group wait for an outcome. Rows of it in a read in progress come after the row being settled.
    fn hold_back(&mut self, key: &GroupKey, slot: Slot) {
        self.groups.entry(key, slot).settling += 1;
        self.groups.overtakes(key);
    }

    pub(super) fn push_unsettled(&mut self, unsettled: Unsettled, now: Instant) {
        if let Some(note) = self.settles.push(unsettled, now) {
            self.slots.left(note.slot);
        }
    }

    /// Room for read rows: number of rows, and bytes.
    pub(crate) fn cold_room(&self) -> (usize, usize) {
        let bytes = self.settings.buffer_bytes.saturating_sub(self.buffer.bytes());
        if bytes == 0 || self.is_full_of_outcomes() {
            return (0, 0);
        }
        (self.settings.cold_rows.saturating_sub(self.buffer.cold_rows()), bytes)
    }

    pub(super) fn hot_room(&self) -> usize {
        if self.buffer.bytes() >= self.settings.buffer_bytes || self.is_full_of_outcomes() {
            return 0;
        }
        self.settings.hot_rows.saturating_sub(self.buffer.hot_rows())
    }

    /// Whether unsettled outcomes fill the memory. Intake then waits, because a store that cannot settle
    /// would otherwise make them pile up.
    fn is_full_of_outcomes(&self) -> bool {
        let rows = self.settings.hot_rows + self.settings.cold_rows;
        self.settles.len() >= rows.max(self.settings.settle_rows * 4)
    }

    /// Converts a time of the database's clock to the local clock; past times become `now`.
    pub(super) fn local(at: Timestamp, db_now: Timestamp, now: Instant) -> Instant {
        const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        match Duration::try_from(at.duration_since(db_now)) {
            Ok(ahead) => now + ahead.min(FAR),
            Err(_) => now,
        }
    }

    pub(super) fn room_on(&self, path: DeliveryPath) -> usize {
        match path {
            DeliveryPath::Hot => self.hot_room(),
            DeliveryPath::Cold => self.cold_room().0,
        }
    }
}
