//! What a process runs: the engine alone, or a whole outbox with writers of its own.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use pillarbox::Outbox;
use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::port::{AnyTable, MetricsExporter, Order};
use pillarbox::rules::{Exponential, RetryPolicy};
use tokio::task::JoinSet;

use crate::chance::Chance;
use crate::history::{Life, What};
use crate::hot;
use crate::plan::Scenario;
use crate::sink::NodeSink;
use crate::store::NodeStore;
use crate::world::World;

/// A process at work. Dropped, it is killed.
pub(crate) enum Running {
    Engine(Engine),
    Outbox {
        outbox: Outbox<NodeStore>,
        /// Push what they commit; they end with the process.
        _writers: JoinSet<()>,
    },
}

impl Running {
    /// Starts what the plan says.
    pub(crate) async fn start(world: &Arc<World>, store: NodeStore, sink: NodeSink) -> Result<Self, String> {
        let life = sink.life;
        let seed = world.draw(|rng| rng.u64(..));
        let settings = settings(world);
        let metrics: Arc<dyn MetricsExporter> = Arc::new(Exporter::new(world, life, seed));
        if !world.plan.hot {
            let (store, sink) = (Arc::new(store), Arc::new(sink));
            let table = if world.plan.led { AnyTable::Items(store) } else { AnyTable::Native(store) };
            let parts = EngineParts { table, sink, metrics, settings, seed };
            return Engine::start(parts).await.map(Self::Engine).map_err(|error| error.to_string());
        }
        let builder = match settings.order {
            Order::None => Outbox::multi_node(store),
            Order::PerGroup => Outbox::ordered(store),
        };
        let tuning = &world.plan.tuning;
        let outbox = builder
            .sink_for_all(Arc::new(sink), settings.batch)
            .metrics(metrics)
            .workers(settings.workers)
            .hot_capacity(settings.hot_rows)
            .cold_capacity(settings.cold_rows)
            .buffer_bytes(settings.buffer_bytes)
            .max_attempts(settings.max_attempts)
            .drain_timeout(settings.drain)
            .deadline(settings.deadline)
            .poll_interval(settings.poll_interval)
            .batch_size(settings.fetch_rows)
            .skip_recent(settings.skip_recent)
            .on_done(settings.on_done)
            .on_dead(settings.on_dead)
            .retry(Policy::new(world))
            .lease(tuning.lease)
            .no_purge()
            .seed(seed)
            .start()
            .await
            .map_err(|error| error.to_string())?;
        let mut writers = JoinSet::new();
        writers.spawn(hot::run(Arc::clone(world), outbox.clone()));
        Ok(Self::Outbox { outbox, _writers: writers })
    }

    pub(crate) async fn close(&mut self) {
        match self {
            Self::Engine(engine) => engine.close().await,
            Self::Outbox { outbox, .. } => outbox.close().await,
        }
    }
}

fn settings(world: &Arc<World>) -> EngineSettings {
    let mut settings = world.plan.tuning.settings();
    settings.retry = Arc::new(Policy::new(world));
    if world.plan.scenario == Scenario::Calm {
        // A drain that is cut short may deliver twice; in calm there is time.
        settings.drain = Duration::from_secs(900);
    }
    settings
}

/// A retry policy that panics now and then.
struct Policy {
    world: Arc<World>,
    delays: Exponential,
}

impl Policy {
    fn new(world: &Arc<World>) -> Self {
        let tuning = &world.plan.tuning;
        let delays = Exponential { base: tuning.retry_base, max: tuning.retry_max() };
        Self { world: Arc::clone(world), delays }
    }
}

impl RetryPolicy for Policy {
    fn delay(&self, attempts: u32, random: f64) -> Duration {
        // The engine's own random number decides, so that a seed goes the same way each time.
        if (random * 1_000.0).fract() < self.world.plan.panics.policy {
            self.world.reached("policy", "panics");
            resume_unwind(Box::new("the retry policy panics"));
        }
        self.delays.delay(attempts, random)
    }
}

/// Notes when an engine has more rows in memory than it may, and panics now and then.
struct Exporter {
    world: Arc<World>,
    life: Life,
    random: Mutex<Rng>,
}

impl Exporter {
    fn new(world: &Arc<World>, life: Life, seed: u64) -> Self {
        Self { world: Arc::clone(world), life, random: Mutex::new(Rng::with_seed(!seed)) }
    }

    fn panic_now_and_then(&self) {
        let panics = self.world.plan.panics.exporter;
        if self.random.lock().unwrap_or_else(PoisonError::into_inner).chance(panics) {
            self.world.reached("exporter", "panics");
            resume_unwind(Box::new("the exporter panics"));
        }
    }
}

impl MetricsExporter for Exporter {
    fn queue_depths(&self, hot: usize, cold: usize) {
        let tuning = &self.world.plan.tuning;
        if cold > tuning.cold_rows || hot > tuning.hot_rows {
            self.world.record(What::Depth { life: self.life, hot, cold });
        }
        self.panic_now_and_then();
    }

    fn read_passed(&self, _count: u64) {
        self.world.reached("sweep", "finds what was passed by");
        // Numbers that are given again may lie below a cursor.
        let plan = &self.world.plan;
        if plan.store.passes_by == 0.0 && plan.incidents.put_back == 0.0 {
            self.world.fail("a sweep found a row that was not passed by");
        }
        self.panic_now_and_then();
    }

    fn hot_enqueued(&self, _count: u64) {
        self.world.reached("hot path", "taken");
        self.panic_now_and_then();
    }

    fn hot_dropped(&self, _count: u64) {
        self.world.reached("hot path", "full");
        self.panic_now_and_then();
    }

    fn cold_enqueued(&self, _count: u64) {
        self.panic_now_and_then();
    }

    fn dispatch_success(&self, _count: u64) {
        self.panic_now_and_then();
    }

    fn dispatch_failure(&self, _count: u64) {
        self.panic_now_and_then();
    }

    fn dispatch_dead(&self, _count: u64) {
        self.panic_now_and_then();
    }

    fn oldest_lag(&self, _age: Duration) {
        self.panic_now_and_then();
    }
}
