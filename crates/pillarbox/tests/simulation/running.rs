//! What a process runs: the engine alone, or a whole outbox with writers of its own.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::port::{AnyTable, MetricsExporter, Order};
use pillarbox::rules::Exponential;
use tokio::task::JoinSet;

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
        let metrics: Arc<dyn MetricsExporter> = Arc::new(Depths { world: Arc::clone(world), life });
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
            .retry(Exponential { base: tuning.retry_base, max: tuning.retry_max() })
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

fn settings(world: &World) -> EngineSettings {
    let mut settings = world.plan.tuning.settings();
    if world.plan.scenario == Scenario::Calm {
        // A drain that is cut short may deliver twice; in calm there is time.
        settings.drain = Duration::from_secs(900);
    }
    settings
}

/// Notes when an engine has more rows in memory than it may.
struct Depths {
    world: Arc<World>,
    life: Life,
}

impl MetricsExporter for Depths {
    fn queue_depths(&self, hot: usize, cold: usize) {
        let tuning = &self.world.plan.tuning;
        if cold > tuning.cold_rows || hot > tuning.hot_rows {
            self.world.record(What::Depth { life: self.life, hot, cold });
        }
    }

    fn read_passed(&self, _count: u64) {
        self.world.reached("sweep", "finds what was passed by");
        // Numbers that are given again may lie below a cursor.
        let plan = &self.world.plan;
        if plan.store.passes_by == 0.0 && plan.incidents.put_back == 0.0 {
            self.world.fail("a sweep found a row that was not passed by");
        }
    }

    fn hot_enqueued(&self, _count: u64) {
        self.world.reached("hot path", "taken");
    }

    fn hot_dropped(&self, _count: u64) {
        self.world.reached("hot path", "full");
    }
}
