//! What a seed draws: how the engine is set, what the world is like, what goes wrong.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use pillarbox::engine::{EngineSettings, OnDead, Ungrouped};
use pillarbox::port::{OnDone, Order};
use pillarbox::rules::{Exponential, Lease};

use crate::chance::Chance;
use crate::faults::{Incidents, SinkFaults, StoreFaults};

/// What kind of trouble a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Nothing goes wrong; nodes join and leave.
    Calm,
    /// The store fails, delays, hangs, is read-only.
    Store,
    /// The sink rejects, is down, accepts and does not say so.
    Sink,
    /// Nodes crash, freeze, come and go; the database's clock jumps.
    Nodes,
    /// All of it, and operators.
    Everything,
}

impl Scenario {
    /// All of them; a seed's scenario is the seed modulo their number.
    pub(crate) const ALL: [Self; 5] = [Self::Calm, Self::Store, Self::Sink, Self::Nodes, Self::Everything];

    /// The scenario of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self::ALL[(seed % Self::ALL.len() as u64) as usize]
    }

    /// The seed of its n-th run.
    pub(crate) fn seed(self, n: u64) -> u64 {
        let place = Self::ALL.iter().position(|one| *one == self).unwrap_or_default();
        n * Self::ALL.len() as u64 + place as u64
    }
}

/// How the engine is set.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    pub(crate) order: Order,
    pub(crate) on_dead: OnDead,
    pub(crate) workers: usize,
    pub(crate) batch: usize,
    pub(crate) hot_rows: usize,
    pub(crate) cold_rows: usize,
    pub(crate) fetch_rows: usize,
    pub(crate) buffer_bytes: usize,
    pub(crate) max_attempts: u32,
    pub(crate) retry_base: Duration,
    pub(crate) deadline: Duration,
    pub(crate) on_done: OnDone,
    pub(crate) lease: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) settle_linger: Duration,
    pub(crate) settle_rows: usize,
    pub(crate) skip_recent: Duration,
    pub(crate) sweep_interval: Duration,
    pub(crate) ungrouped: Ungrouped,
}

/// How many and what kind of events are written.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) writers: usize,
    pub(crate) transactions: usize,
    pub(crate) groups: usize,
    pub(crate) ungrouped: f64,
    pub(crate) delayed: f64,
    pub(crate) expiring: f64,
    pub(crate) malformed: f64,
    pub(crate) undone: f64,
    /// Events that are refused by their nature, whoever delivers them.
    pub(crate) poison: f64,
    /// Events that end the process which delivers them.
    pub(crate) killers: f64,
    /// The longest a transaction stays open.
    pub(crate) open_ms: u64,
}

/// Whether nodes are told of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hinting {
    Always,
    Sometimes,
    Never,
}

/// How often the user's own code panics where the engine calls it.
#[derive(Debug, Clone)]
pub(crate) struct Panics {
    pub(crate) policy: f64,
    pub(crate) exporter: f64,
}

impl Panics {
    /// Drawn apart from everything else, so that a seed stays what it was.
    fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(!seed);
        Self { policy: rng.one(&[0.0, 0.0, 0.2, 1.0]), exporter: rng.one(&[0.0, 0.0, 0.1, 1.0]) }
    }
}

/// Everything a run is made of.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) scenario: Scenario,
    pub(crate) nodes: usize,
    /// Whether processes run a whole outbox and write themselves.
    pub(crate) hot: bool,
    /// Whether a leader takes the rows, as from tables whose rows have no numbers.
    pub(crate) led: bool,
    pub(crate) tuning: Tuning,
    pub(crate) load: Load,
    pub(crate) hinting: Hinting,
    pub(crate) store: StoreFaults,
    pub(crate) sink: SinkFaults,
    pub(crate) incidents: Incidents,
    pub(crate) panics: Panics,
    /// How long things go wrong.
    pub(crate) trouble: Duration,
    /// Whether groups that are held at the end are let go.
    pub(crate) frees_groups: bool,
    /// Whether events are cancelled during outages, and nothing but the endpoint makes them wait.
    pub(crate) cancels: bool,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let scenario = Scenario::of(seed);
        let tuning = Tuning::draw(&mut rng);
        let trouble = rng.millis(4_000, 30_000);
        let mut plan = Self {
            seed,
            scenario,
            nodes: rng.one(&[1, 1, 2, 2, 3, 4]),
            load: Load::draw(&mut rng, scenario),
            hinting: rng.one(&[Hinting::Always, Hinting::Always, Hinting::Sometimes, Hinting::Never]),
            store: StoreFaults::draw(&mut rng, scenario, tuning.lease),
            sink: SinkFaults::draw(&mut rng, scenario),
            incidents: Incidents::draw(&mut rng, scenario),
            panics: Panics::draw(seed),
            frees_groups: rng.bool(),
            cancels: false,
            hot: rng.bool(),
            led: false,
            tuning,
            trouble,
        };
        let led = rng.chance(0.3);
        plan.tuning.sweep_interval = rng.one(&[300, 2_000, 30_000, 300_000]).millis();
        // A row that was passed by comes after those that followed it in its group.
        if scenario == Scenario::Everything && plan.tuning.order == Order::None {
            plan.store.passes_by = rng.one(&[0.0, 0.05]);
        }
        let mut plan = if led { plan.led() } else { plan };
        if matches!(scenario, Scenario::Store | Scenario::Everything) && !plan.led {
            plan.incidents.put_back = rng.one(&[0.0, 0.0, 0.1, 0.4]);
        }
        match scenario {
            // Processes are killed while the endpoint is down.
            Scenario::Nodes => plan.sink.outages = rng.one(&[0.0, 0.3]),
            Scenario::Sink if rng.chance(0.3) => plan.cancel_during_outages(),
            _ => {}
        }
        plan
    }

    fn cancel_during_outages(&mut self) {
        self.cancels = true;
        self.incidents.operator = 0.6;
        let down = SinkFaults { outages: 0.4, ..SinkFaults::default() };
        self.sink =
            SinkFaults { fails: self.sink.fails, accepts_then_fails: self.sink.accepts_then_fails, ..down };
    }

    /// A leader takes rows in order, and their tables have no columns for times.
    fn led(mut self) -> Self {
        self.led = true;
        self.hot = false;
        self.tuning.order = Order::PerGroup;
        self.tuning.skip_recent = Duration::ZERO;
        (self.load.delayed, self.load.expiring) = (0.0, 0.0);
        if self.tuning.on_dead == OnDead::Skip {
            self.tuning.ungrouped = Ungrouped::Default;
        }
        self
    }
}

impl Tuning {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            order: rng.one(&[Order::None, Order::PerGroup, Order::PerGroup]),
            on_dead: rng.one(&[OnDead::Block, OnDead::Skip]),
            workers: rng.usize(1..=8),
            batch: rng.one(&[1, 1, 2, 3, 10]),
            hot_rows: rng.one(&[1, 3, 50]),
            cold_rows: rng.one(&[2, 3, 5, 10, 50]),
            fetch_rows: rng.one(&[1, 3, 10, 100]),
            buffer_bytes: rng.one(&[600, 2_000, 1_000_000]),
            max_attempts: rng.one(&[1, 2, 3, 5]),
            retry_base: rng.one(&[20, 100, 400]).millis(),
            deadline: rng.one(&[1_000, 3_000, 10_000]).millis(),
            on_done: rng.one(&[OnDone::Keep, OnDone::Delete]),
            lease: rng.one(&[600, 1_500, 4_000, 9_000]).millis(),
            poll_interval: rng.one(&[50, 500, 5_000]).millis(),
            settle_linger: rng.one(&[0, 2, 20]).millis(),
            settle_rows: rng.one(&[1, 2, 5, 1_000]),
            skip_recent: rng.one(&[0, 0, 0, 50]).millis(),
            sweep_interval: EngineSettings::default().sweep_interval,
            ungrouped: Ungrouped::Parallel,
        }
    }

    pub(crate) fn retry_max(&self) -> Duration {
        self.retry_base * 20
    }

    /// As the engine takes it.
    pub(crate) fn settings(&self) -> EngineSettings {
        EngineSettings {
            order: self.order,
            on_dead: self.on_dead,
            workers: self.workers,
            batch: self.batch,
            hot_rows: self.hot_rows,
            cold_rows: self.cold_rows,
            fetch_rows: self.fetch_rows,
            buffer_bytes: self.buffer_bytes,
            max_attempts: self.max_attempts,
            retry: Arc::new(Exponential { base: self.retry_base, max: self.retry_max() }),
            deadline: self.deadline,
            on_done: self.on_done,
            lease: Lease::new(self.lease).expect("a lease within its bounds"),
            poll_interval: self.poll_interval,
            drain: self.deadline + Duration::from_secs(5),
            settle_linger: self.settle_linger,
            settle_rows: self.settle_rows,
            skip_recent: self.skip_recent,
            sweep_interval: self.sweep_interval,
            ungrouped: self.ungrouped,
            ..EngineSettings::default()
        }
    }
}

impl Load {
    fn draw(rng: &mut Rng, scenario: Scenario) -> Self {
        let kills = matches!(scenario, Scenario::Nodes | Scenario::Everything);
        Self {
            writers: rng.usize(1..=4),
            transactions: rng.usize(4..=24),
            groups: rng.one(&[1, 2, 4, 20]),
            ungrouped: rng.one(&[0.0, 0.3, 1.0]),
            delayed: rng.one(&[0.0, 0.0, 0.3]),
            expiring: rng.one(&[0.0, 0.0, 0.2]),
            malformed: rng.one(&[0.0, 0.0, 0.1]),
            undone: rng.one(&[0.0, 0.1, 0.3]),
            poison: rng.one(&[0.0, 0.05, 0.2]),
            killers: if kills { rng.one(&[0.0, 0.0, 0.05]) } else { 0.0 },
            open_ms: rng.one(&[0, 20, 500, 5_000]),
        }
    }
}

trait Millis {
    fn millis(self) -> Duration;
}

impl Millis for u64 {
    fn millis(self) -> Duration {
        Duration::from_millis(self)
    }
}
