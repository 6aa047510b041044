//! The relay's engine and HTTP sink beside bare SQL and a bare HTTP client that do the least with the same batches.

mod endpoint;
mod floor;
mod latency;
mod memory;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::engine::{Engine, EngineParts, EngineSettings, OnDead};
use pillarbox::model::{Layout, TableName};
use pillarbox::port::{AnyTable, MetricsExporter, OnDone, Order};
use pillarbox_postgres::sqlx::{AssertSqlSafe, raw_sql};
use pillarbox_postgres::{Pooler, PostgresStore, PostgresWakeUp};
use pillarbox_sinks::{BatchSink, SinkOptions};
use tokio::sync::watch;

use super::Sizes;
use super::fixture::Fixture;
use crate::database::{Kind, PATIENCE, payload};
use crate::figure::{Figure, Goal, Samples};
use endpoint::Endpoint;

pub(super) use latency::measure as measure_latency;
pub(super) use memory::measure as measure_memory;

const GROUPS: usize = 100;
/// The relay's own defaults.
const BATCH: usize = 100;
const AT_ONCE: usize = 10;
const BUFFER: usize = 1_000;

/// Events that were accepted.
#[derive(Default)]
struct Accepted(watch::Sender<usize>);

impl MetricsExporter for Accepted {
    fn dispatch_success(&self, count: u64) {
        self.0.send_modify(|all| *all += count as usize);
    }
}

impl Accepted {
    async fn until(&self, count: usize) -> anyhow::Result<()> {
        let mut accepted = self.0.subscribe();
        tokio::time::timeout(PATIENCE, accepted.wait_for(|all| *all >= count)).await??;
        Ok(())
    }
}

/// As the relay has them; what is done ends as the floor ends it: deleted, and marked where the relay always keeps it.
fn settings(table: &AnyTable) -> EngineSettings {
    let on_done = if table.items().is_some() { OnDone::Keep } else { OnDone::Delete };
    EngineSettings {
        order: Order::PerGroup,
        on_dead: OnDead::Skip,
        on_done,
        workers: AT_ONCE,
        batch: BATCH,
        cold_rows: BUFFER,
        fetch_rows: 500,
        poll_interval: Duration::from_secs(1),
        quick_poll: Some(Duration::from_millis(10)),
        ..EngineSettings::default()
    }
}

async fn start(table: AnyTable, url: &str, accepted: &Arc<Accepted>) -> anyhow::Result<Engine> {
    let sink = BatchSink::open(url, &SinkOptions::default())?;
    let seed = u64::from(std::process::id()) ^ Instant::now().elapsed().as_nanos() as u64;
    let metrics = Arc::clone(accepted) as Arc<dyn MetricsExporter>;
    let settings = settings(&table);
    let parts = EngineParts { table, sink: Arc::new(sink), metrics, settings, seed };
    Ok(Engine::start(parts).await?)
}

/// Drains of both layouts.
pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (layout, goal) in [(Layout::Native, 0.8), (Layout::Flowcatalyst, 0.7)] {
        let (mut ours, mut floor) = (Samples::default(), Samples::default());
        for round in 0..sizes.rounds {
            // They take turns at being the first.
            for turn in 0..2 {
                let endpoint = Endpoint::start().await?;
                let table = Table::filled(url, layout, sizes.backlog).await?;
                let is_ours = (round + turn) % 2 == 0;
                let took =
                    if is_ours { table.ours(&endpoint).await? } else { table.floor(&endpoint).await? };
                let side = if is_ours { &mut ours } else { &mut floor };
                side.push(sizes.backlog as f64 / took.as_secs_f64());
                table.fixture.remove().await?;
            }
        }
        let what = format!("relay to HTTP, {layout} layout, {GROUPS} groups, against bare SQL and HTTP");
        figures.push(Figure::ratio(what, "/s", &ours, &floor, Goal::AtLeast(goal)));
    }
    Ok(figures)
}

/// A table with a backlog.
struct Table {
    fixture: Fixture,
    layout: Layout,
    rows: usize,
}

impl Table {
    async fn filled(url: &str, layout: Layout, rows: usize) -> anyhow::Result<Self> {
        let table = Self { fixture: Fixture::new(url).await?, layout, rows };
        match layout {
            Layout::Native => table.fixture.fill(rows, Kind::Groups(GROUPS)).await?,
            Layout::Flowcatalyst => table.fill_items().await?,
        }
        table.fixture.calm().await?;
        Ok(table)
    }

    async fn store(&self) -> anyhow::Result<AnyTable> {
        let builder = PostgresStore::builder(self.fixture.pool(2).await?).pooler(Pooler::None);
        let schema = TableName::new(self.fixture.schema())?;
        let builder = builder.schema(schema).wake_up(PostgresWakeUp::Notify);
        Ok(match self.layout {
            Layout::Native => AnyTable::Native(Arc::new(builder.open())),
            Layout::Flowcatalyst => AnyTable::Items(Arc::new(builder.open_items())),
        })
    }

    async fn fill_items(&self) -> anyhow::Result<()> {
        let store = self.store().await?;
        store.admin().migrate().await?;
        let schema = self.fixture.schema();
        let sql = format!(
            "INSERT INTO {schema}.outbox_events (id, type, message_group, payload, status, created_at) \
             SELECT lpad(n::text, 13, '0'), 'EVENT', 'group ' || n % {GROUPS}, '{}', 'PENDING', \
                 now() AT TIME ZONE 'UTC' + n * interval '1 microsecond' FROM generate_series(1, {}) n; \
             ANALYZE {schema}.outbox_events",
            payload(),
            self.rows
        );
        raw_sql(AssertSqlSafe(sql)).execute(self.fixture.admin()).await?;
        Ok(())
    }

    /// How long the engine takes, settles included.
    async fn ours(&self, endpoint: &Endpoint) -> anyhow::Result<Duration> {
        let (store, accepted) = (self.store().await?, Arc::new(Accepted::default()));
        let began = Instant::now();
        let mut engine = start(store, &endpoint.url, &accepted).await?;
        accepted.until(self.rows).await?;
        engine.close().await;
        Ok(began.elapsed())
    }

    async fn floor(&self, endpoint: &Endpoint) -> anyhow::Result<Duration> {
        let began = Instant::now();
        match self.layout {
            Layout::Native => floor::native(&self.fixture, &endpoint.url).await?,
            Layout::Flowcatalyst => floor::items(&self.fixture, &endpoint.url).await?,
        }
        Ok(began.elapsed())
    }
}
