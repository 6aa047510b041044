//! The world of a run: the one store behind all nodes, chance, what is known of events, the history.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use pillarbox::memory::{MemoryClock, MemoryOptions, MemoryStore};
use pillarbox::model::{EventId, GroupKey, NodeId};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::chance::Chance;
use crate::facts::Facts;
use crate::faults::{Fate, Op};
use crate::history::{DeliveryNo, Entry, EventNo, History, Life, What};
use crate::plan::{Hinting, Plan};
use crate::truth::Truth;
use crate::under_way::UnderWay;

/// What an event does to those who deliver it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    Good,
    /// Always fails.
    Fails,
    /// Always refused for good.
    Refused,
    /// Makes its listener panic.
    Panics,
    /// Ends the process.
    Kills,
}

/// An event as its writer knows it.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) id: EventId,
    pub(crate) group: Option<GroupKey>,
    /// The transactions that wrote it; more than one if its writer was not told what became of the first.
    pub(crate) txs: Vec<usize>,
    pub(crate) delayed: bool,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) malformed: bool,
    pub(crate) nature: Nature,
}

/// What changes over a run.
#[derive(Debug, Default)]
struct Record {
    history: History,
    events: Vec<Told>,
    by_id: BTreeMap<EventId, EventNo>,
    facts: Facts,
    hints: Vec<watch::Sender<u64>>,
    failures: Vec<String>,
    closed: Vec<Life>,
}

/// The world of one run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) store: MemoryStore,
    pub(crate) truth: Mutex<Truth>,
    pub(crate) settles: UnderWay,
    /// Requests on their way, whether or not their sender lives.
    pub(crate) servers: TaskTracker,
    /// The script is over: processes end.
    pub(crate) over: Notify,
    start: Instant,
    rng: Mutex<Rng>,
    record: Mutex<Record>,
    trouble: AtomicBool,
    is_over: AtomicBool,
    pub(crate) read_only: AtomicBool,
    pub(crate) outage: AtomicBool,
    /// Deliveries that are about to fail together.
    pub(crate) failing: AtomicUsize,
    lives: AtomicUsize,
    deliveries: AtomicUsize,
    transactions: AtomicUsize,
    settling: AtomicUsize,
    calls: Mutex<(Instant, usize)>,
}

/// More calls than this without any time passing is a loop that spins.
const CALLS_AT_ONCE: usize = 5_000;

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        let base: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let clock = MemoryClock::starting_at(base);
        let now = Instant::now();
        Arc::new(Self {
            rng: Mutex::new(Rng::with_seed(plan.seed ^ 0x5eed)),
            store: MemoryStore::with(MemoryOptions {
                clock,
                has_leader: plan.led,
                ..MemoryOptions::default()
            }),
            plan,
            truth: Mutex::default(),
            settles: UnderWay::default(),
            servers: TaskTracker::new(),
            over: Notify::new(),
            start: now,
            record: Mutex::default(),
            trouble: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
            outage: AtomicBool::new(false),
            failing: AtomicUsize::new(0),
            lives: AtomicUsize::new(0),
            deliveries: AtomicUsize::new(0),
            transactions: AtomicUsize::new(0),
            settling: AtomicUsize::new(0),
            calls: Mutex::new((now, 0)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws by chance.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn record(&self, what: What) {
        let entry = Entry { at: self.start.elapsed(), what };
        self.lock().history.entries.push(entry);
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A fact that some run must reach.
    pub(crate) fn reached(&self, subject: &'static str, fact: &'static str) {
        self.lock().facts.insert((subject, fact));
    }

    pub(crate) fn new_life(&self) -> Life {
        Life(self.lives.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn new_delivery(&self) -> DeliveryNo {
        DeliveryNo(self.deliveries.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn new_transaction(&self) -> usize {
        self.transactions.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of a settle.
    pub(crate) fn new_call(&self) -> usize {
        self.settling.fetch_add(1, Ordering::Relaxed)
    }

    /// Things still go wrong.
    pub(crate) fn in_trouble(&self) -> bool {
        self.trouble.load(Ordering::Relaxed)
    }

    /// From here on only what events do by their nature goes wrong.
    pub(crate) fn calm(&self) {
        self.trouble.store(false, Ordering::Relaxed);
        self.read_only.store(false, Ordering::Relaxed);
        self.outage.store(false, Ordering::Relaxed);
        self.record(What::Calmed);
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.over.notify_waiters();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The fate of a call to the store.
    pub(crate) fn fate(&self, life: Life, op: Op) -> Fate {
        self.count_call();
        if !self.in_trouble() {
            self.record(What::Called { life, op, fails: None });
            return Fate::default();
        }
        let read_only = self.read_only.load(Ordering::Relaxed);
        let fate = self.draw(|rng| self.plan.store.fate(rng, op, read_only));
        self.record(What::Called { life, op, fails: fate.fails });
        fate
    }

    fn count_call(&self) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        *calls = if calls.0 == now { (now, calls.1 + 1) } else { (now, 1) };
        if calls.1 == CALLS_AT_ONCE {
            self.fail("the engine spins: it calls without any time passing");
        }
        // The clock only goes on when nothing is left to do.
        assert!(calls.1 <= CALLS_AT_ONCE, "the engine spins");
    }

    /// A process closed when nothing went wrong any more.
    pub(crate) fn closed(&self, life: Life) {
        self.lock().closed.push(life);
    }

    /// Whether this was the last node of such a process. An earlier one, whose registration was not answered,
    /// is unknown to the process: it stays until its lease expires, which takes long if the database's clock
    /// goes back.
    pub(crate) fn closed_well(&self, node: NodeId) -> bool {
        let truth = self.truth();
        let last = truth.member(node).filter(|member| truth.last_member(member.life) == Some(*member));
        last.is_some_and(|member| self.lock().closed.contains(&member.life))
    }

    /// Something that must never be, seen while the run goes on.
    pub(crate) fn fail(&self, failure: &str) {
        self.lock().failures.push(failure.to_owned());
    }

    /// Adds an event before its row is written.
    pub(crate) fn tell(&self, told: Told) -> EventNo {
        let mut record = self.lock();
        let no = EventNo(record.events.len());
        record.by_id.insert(told.id.clone(), no);
        record.events.push(told);
        no
    }

    /// Its writer writes it once more.
    pub(crate) fn tell_again(&self, no: EventNo, tx: usize) {
        self.lock().events[no.0].txs.push(tx);
    }

    pub(crate) fn told(&self, no: EventNo) -> Told {
        self.lock().events[no.0].clone()
    }

    pub(crate) fn event(&self, id: &EventId) -> EventNo {
        self.lock().by_id[id]
    }

    pub(crate) fn events(&self) -> Vec<Told> {
        self.lock().events.clone()
    }

    /// A channel of hints for one process.
    pub(crate) fn wakeups(&self) -> Option<watch::Receiver<u64>> {
        if self.plan.hinting == Hinting::Never {
            return None;
        }
        let (sender, receiver) = watch::channel(0);
        self.lock().hints.push(sender);
        Some(receiver)
    }

    /// Tells processes that rows were committed; some may not hear of it.
    pub(crate) fn hint(&self) {
        let senders = self.lock().hints.clone();
        for sender in senders {
            if self.plan.hinting == Hinting::Always || self.draw(|rng| rng.chance(0.5)) {
                sender.send_modify(|count| *count += 1);
            }
        }
    }

    /// What was seen, at the end.
    pub(crate) fn take(&self) -> (History, Facts, Vec<String>) {
        let mut record = self.lock();
        (
            std::mem::take(&mut record.history),
            std::mem::take(&mut record.facts),
            std::mem::take(&mut record.failures),
        )
    }

    /// A moment within the time of trouble.
    pub(crate) fn some_time(&self, share: f64) -> Duration {
        let most = self.plan.trouble.mul_f64(share).as_millis() as u64;
        self.draw(|rng| rng.millis(0, most))
    }
}
